#include "build/builder_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "build/base.h"
#include "build/cache_mount.h"
#include "build/layers.h"
#include "build/step_key.h"
#include "dockerfile/mount.h"
#include "config.h"

enum {
	SHOWN = 160,
	SOURCE_CPUS = 1,
};

static const char step_name[] = "step"; /* directory of the machine that steps run in */

/* --- machines --- */

static struct machine_options machine_options(
	const struct builder *b, const char *name, int image_fd)
{
	return (struct machine_options){.work_fd = b->w.fd,
		.name = name,
		.what = b->o->name,
		.image_fd = image_fd,
		.kernel = b->o->kernel,
		.cpus = b->config.cpus,
		.memory_mb = b->config.memory_mb,
		.progress = b->o->progress};
}

/* A machine's disk can be frozen only so often. */
static void end_full(struct builder *b)
{
	if (b->machine && machine_freezes(b->machine) >= MACHINE_FREEZES_MAX)
		machine_stop(TAKE_PTR(b->machine));
}

bool builder_replaces(const struct builder *b)
{
	return b->o->no_cache || b->forced || b->aged;
}

int builder_machine(struct builder *b, struct machine **ret, struct error *e)
{
	const struct machine_options o = machine_options(b, step_name, b->stage.state.image_fd);
	int r;

	end_full(b);
	r = b->machine ? 0 : machine_start(&o, &b->machine, e);
	*ret = b->machine;
	return r;
}

static int stage_machine(void *opaque, struct machine **ret, struct error *e)
{
	const struct builder *b = opaque;
	int r = builder_machine(opaque, ret, e);

	return r < 0 ? r : machine_set_network(*ret, b->networked ? b->network : NULL, e);
}

static void end_source(struct builder *b)
{
	machine_stop(TAKE_PTR(b->source));
	b->source_fd = -1;
}

/* disk_mb: of the image that is made; 0: its own size. */
static int find_base(struct builder *b, const char *name, unsigned number, uint32_t disk_mb,
	struct stage_state *ret, struct error *e)
{
	const struct base_options bo = {.home = b->o->home,
		.work = &b->work,
		.registry = b->o->registry,
		.registry_auth = b->o->registry_auth,
		.reach = b->o->reach,
		.mirrors = b->o->mirrors,
		.client = b->o->client,
		.client_registry = b->o->client_registry,
		.snapshot = b->o->ops.snapshot,
		.opaque = b->o->ops.opaque,
		.disk_mb = disk_mb,
		.no_cache = b->o->no_cache,
		.budget = b->o->budget,
		.progress = b->o->progress};

	return stage_state_init(ret) < 0 ? stage_no_memory(e)
					 : base_find(&bo, name, number, ret, e);
}

static int add_import(struct builder *b, const char *name, struct error *e)
{
	struct import *all = reallocarray(b->imports, b->import_count + 1, sizeof(*all));
	unsigned number = b->import_count;

	if (!all)
		return stage_no_memory(e);
	b->imports = all;
	all[number].name = strdup(name);
	b->import_count++; /* whatever fails: done() frees it */
	all[number].state = (struct stage_state){.image_fd = -1};
	if (!all[number].name)
		return stage_no_memory(e);
	return find_base(b, name, DOCKERFILE_STAGES_MAX + number, 0, &all[number].state, e);
}

/* A stage above by name or number, or an image, which is made once. */
static int find_source(
	struct builder *b, const char *from, const struct stage_state **ret, struct error *e)
{
	int r = 0, k = dockerfile_find_stage(b->o->file, from, b->at);
	unsigned i = 0;

	if (k >= 0) {
		*ret = &b->done[k];
		return 0;
	}
	while (i < b->import_count && strcmp(b->imports[i].name, from) != 0)
		i++;
	if (i == b->import_count)
		r = add_import(b, from, e);
	*ret = &b->imports[i].state;
	return r;
}

static int source_key(void *opaque, const char *from, char ret[STEP_KEY_BYTES], struct error *e)
{
	const struct stage_state *s;
	int r = find_source(opaque, from, &s, e);

	if (r == 0)
		memcpy(ret, s->key, STEP_KEY_BYTES);
	return r;
}

/* This machine runs beside the step's, and only reads files, so it is small. The daemon reserves
 * memory for both. */
static int start_source(struct builder *b, int image_fd, struct error *e)
{
	struct machine_options o = machine_options(b, "source", image_fd);

	o.cpus = SOURCE_CPUS;
	if (o.memory_mb > BUILDER_SOURCE_MB)
		o.memory_mb = BUILDER_SOURCE_MB;
	return machine_start(&o, &b->source, e);
}

/* Steps in a row that take files from one stage share its machine. */
static int stage_files(void *opaque, const char *from, struct files **ret, struct error *e)
{
	struct builder *b = opaque;
	const struct stage_state *s;
	int r;

	if (!*from) {
		*ret = &b->context.files;
		return 0;
	}
	r = find_source(b, from, &s, e);
	if (r == 0 && (!b->source || b->source_fd != s->image_fd)) {
		end_source(b);
		r = start_source(b, s->image_fd, e);
		b->source_fd = s->image_fd;
	}
	if (r < 0)
		return r;
	files_machine_init(&b->source_files, b->source);
	*ret = &b->source_files.files;
	return 0;
}

static int stage_output(void *opaque, const void *data, size_t n)
{
	const struct builder *b = opaque;

	return b->o->ops.output(b->o->ops.opaque, data, n);
}

static void stage_note(void *opaque, unsigned line, const char *text)
{
	const struct builder *b = opaque;

	b->o->ops.note(b->o->ops.opaque, line, text);
}

/* --- which stages --- */

static void need_from(struct builder *b, const char *from, size_t k)
{
	int other = *from ? dockerfile_find_stage(b->o->file, from, k) : -1;

	if (other >= 0)
		b->needed[other] = true;
}

/* The stages that a step takes files from. */
static void need_of_step(struct builder *b, const struct dockerfile_step *step, size_t k)
{
	struct mount m;

	for (size_t i = 0; i < step->flag_count; i++) {
		const struct dockerfile_flag *f = &step->flags[i];

		if (strcmp(f->name, "from") == 0)
			need_from(b, f->value, k);
		else if (strcmp(f->name, "mount") == 0 && mount_parse(f->value, &m, NULL) == 0)
			need_from(b, m.from, k);
	}
}

/* --- arguments before the first FROM --- */

static const char *get_global(void *opaque, const char *name)
{
	return vars_get(opaque, name);
}

static int take_global(struct builder *b, struct error *e)
{
	static const char *const known[] = {"TARGETPLATFORM=linux/amd64", "TARGETOS=linux",
		"TARGETARCH=amd64", "TARGETVARIANT=", "BUILDPLATFORM=linux/amd64", "BUILDOS=linux",
		"BUILDARCH=amd64", "BUILDVARIANT="};
	const struct dockerfile_steps *args = &b->o->file->args;
	const struct expand_scope scope = {get_global, &b->global, b->o->file->escape};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known) && r == 0; i++)
		r = vars_set_entry(&b->global, known[i]) < 0 ? stage_no_memory(e) : 0;
	for (size_t i = 0; i < args->count && r == 0; i++) {
		r = stage_take_arg(&b->global, &args->items[i], &scope, b->o->args, &b->global, e);
		if (r < 0)
			error_prefix(e, "line %u: ARG", args->items[i].line);
	}
	return r;
}

static int expand_bases(struct builder *b, struct error *e)
{
	const struct dockerfile *d = b->o->file;
	const struct expand_scope scope = {get_global, &b->global, d->escape};

	for (size_t k = 0; k < d->stage_count; k++) {
		int r = expand_word(&scope, d->stages[k].base, &b->bases[k], e);

		if (r == 0 && !*b->bases[k])
			r = error_set(e, ERROR_USAGE, EINVAL,
				"the name %.80s is empty: does an ARG before FROM have a value?",
				d->stages[k].base);
		if (r < 0) {
			error_prefix(e, "line %u: FROM", d->stages[k].line);
			return r;
		}
	}
	return 0;
}

/* --- the plan: bases, their triggers, steps --- */

static int check_platform(struct builder *b, const struct dockerfile_stage *s, struct error *e)
{
	const struct expand_scope scope = {get_global, &b->global, b->o->file->escape};
	_cleanup_free_ char *platform = NULL;
	int r = expand_word(&scope, s->platform, &platform, e);

	if (r == 0 && *platform && strcmp(platform, "linux/amd64") != 0)
		return error_set(e, ERROR_INCOMPATIBLE, EINVAL,
			"--platform=%.60s: only linux/amd64 can be built", platform);
	return r;
}

/* Digests of what follows depend on the scope. */
static int set_scope(const struct builder *b, char key[STEP_KEY_BYTES], struct error *e)
{
	struct step_key k;

	if (!b->o->scope || !*b->o->scope)
		return 0;
	step_key_begin(&k, "scope");
	step_key_text(&k, key);
	step_key_text(&k, b->o->scope);
	return step_key_end(&k, key, e);
}

static void note_base(struct builder *b, size_t k)
{
	struct stage_state *s = &b->done[k];

	memcpy(s->base_key, s->key, sizeof(s->base_key));
	s->base_deltas = layers_count(s->image_fd);
	b->base_bytes[k] = image_disk_bytes(s->image_fd, IMAGE_EXT4, s->base_deltas);
	/* opened again, so that it does not hold the base */
	b->base_fd[k] = openat(s->image_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Adds the step of a trigger of the stage's base. */
static int add_trigger(struct builder *b, size_t k, const char *text, struct error *e)
{
	struct dockerfile_steps *to = &b->steps[k];
	struct dockerfile_step step;
	_cleanup_free_ char *shown = str_printf("ONBUILD %s", text);
	int r = dockerfile_parse_trigger(text, &b->arena, &step, e);

	if (r < 0) {
		error_prefix(e, "line %u: FROM %.100s", b->o->file->stages[k].line, b->bases[k]);
		return r;
	}
	to->items = arena_grow(&b->arena, to->items, to->count, sizeof(*to->items));
	step.line = b->o->file->stages[k].line;
	step.trigger_of = b->bases[k];
	step.text = shown ? arena_copy(&b->arena, shown, strlen(shown)) : NULL;
	if (!to->items || !step.text)
		return stage_no_memory(e);
	to->items[to->count++] = step;
	return 0;
}

/* The base is a stage, whose triggers are known before it is built. */
static int plan_on_stage(struct builder *b, size_t k, size_t base, struct error *e)
{
	const struct dockerfile_steps *steps = &b->o->file->stages[base].steps;
	int r = 0;

	b->needed[base] = true;
	for (size_t i = 0; i < steps->count && r == 0; i++)
		if (steps->items[i].kind == DOCKERFILE_ONBUILD)
			r = add_trigger(b, k, steps->items[i].words.items[0], e);
	return r;
}

static int plan_on_image(struct builder *b, size_t k, struct error *e)
{
	const struct dockerfile_stage *s = &b->o->file->stages[k];
	const struct stage_triggers *t = &b->done[k].triggers;
	int r = find_base(b, b->bases[k], (unsigned)k, b->o->disk_mb, &b->done[k], e);

	if (r == 0) {
		note_base(b, k);
		r = set_scope(b, b->done[k].key, e);
	}
	if (r < 0 && s->line)
		error_prefix(e, "line %u", s->line);
	if (r < 0)
		return r;
	if (b->o->no_triggers && t->count)
		b->o->ops.note(b->o->ops.opaque, s->line, "ONBUILD of the base is left out");
	for (size_t i = 0; i < t->count && r == 0 && !b->o->no_triggers; i++)
		r = add_trigger(b, k, t->items[i], e);
	stage_state_clear_triggers(&b->done[k]);
	return r;
}

static int add_own_steps(struct builder *b, size_t k, struct error *e)
{
	const struct dockerfile_steps *own = &b->o->file->stages[k].steps;
	struct dockerfile_steps *to = &b->steps[k];

	for (size_t i = 0; i < own->count; i++) {
		to->items = arena_grow(&b->arena, to->items, to->count, sizeof(*to->items));
		if (!to->items)
			return stage_no_memory(e);
		to->items[to->count++] = own->items[i];
	}
	b->wrote[k] = calloc(to->count + 1, sizeof(*b->wrote[k]));
	return b->wrote[k] ? 0 : stage_no_memory(e);
}

static int plan_stage(struct builder *b, size_t k, struct error *e)
{
	const struct dockerfile_stage *s = &b->o->file->stages[k];
	int base = dockerfile_find_stage(b->o->file, b->bases[k], k), r = check_platform(b, s, e);

	if (r < 0)
		error_prefix(e, "line %u", s->line);
	else if (base >= 0)
		r = plan_on_stage(b, k, (size_t)base, e);
	else
		r = plan_on_image(b, k, e);
	if (r == 0)
		r = add_own_steps(b, k, e);
	for (size_t i = 0; i < b->steps[k].count && r == 0; i++)
		need_of_step(b, &b->steps[k].items[i], k);
	b->step_count += b->steps[k].count;
	return r;
}

/* Finds the stages that the last one needs, their bases and their steps. A stage only needs stages
 * above it, so they are planned from below. */
static int plan(struct builder *b, struct error *e)
{
	size_t k = b->o->file->stage_count;
	int r = 0;

	b->needed[k - 1] = true;
	while (k-- > 0 && r == 0)
		if (b->needed[k])
			r = plan_stage(b, k, e);
	return r;
}

/* --- a stage --- */

/* A template's disk keeps its size. */
static int check_disk(const struct builder *b, struct error *e)
{
	uint32_t have = b->stage.state.disk_mb, wanted = b->o->disk_mb;

	if (!wanted || wanted == have || b->at + 1 < b->o->file->stage_count)
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL,
		"FROM %.80s: its disk has %u MB, which --disk cannot change: leave out --disk, or "
		"build on an image",
		b->bases[b->at], have);
}

/* The stage goes on where its base ends. Triggers of the base are steps by now. */
static int begin_stage(struct builder *b, struct error *e)
{
	int k = dockerfile_find_stage(b->o->file, b->bases[b->at], b->at);

	if (k < 0) {
		b->stage.state = b->done[b->at];
		b->done[b->at] = (struct stage_state){.image_fd = -1};
	} else if (stage_state_copy(&b->done[k], &b->stage.state) < 0) {
		return stage_no_memory(e);
	}
	stage_state_clear_triggers(&b->stage.state);
	return check_disk(b, e);
}

static void name_step(const struct builder *b, const struct dockerfile_step *s, struct error *e)
{
	char text[SHOWN];

	(void)snprintf(text, sizeof(text), "%s", s->text); /* may be cut */
	if (s->trigger_of)
		error_prefix(e, "ONBUILD of the base %.80s", s->trigger_of);
	error_prefix(
		e, "step %zu of %zu (line %u): %s", b->step_number, b->step_count, s->line, text);
}

int builder_make_disk(
	struct builder *b, int from_fd, char name[BUILDER_NAME_BYTES], struct error *e)
{
	int fd, r = 0;

	(void)snprintf(name, BUILDER_NAME_BYTES, "disk-%u", b->dir_count++); /* fits */
	if (mkdirat(b->w.fd, name, 0700) < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make a directory");
	fd = openat(b->w.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot open a directory");
	if (from_fd >= 0)
		r = layers_link(from_fd, fd, e);
	if (r < 0)
		(void)close(fd); /* a directory */
	return r < 0 ? r : fd;
}

static void set_disk(struct stage_state *s, int fd)
{
	(void)close(s->image_fd); /* a directory */
	s->image_fd = fd;
}

uint64_t builder_wrote(int disk_fd, unsigned before)
{
	unsigned n = layers_count(disk_fd);
	char name[IMAGE_DELTA_NAME_BYTES];

	if (n == 0 || n == before)
		return 0;
	image_delta_name(n - 1, name);
	return file_disk_bytes(disk_fd, name);
}

/* The machine writes its disk, or is saved whole, into a directory that is the image from now on,
 * and an entry of the cache. Only the disk counts in what the build may write. */
static int keep_disk(struct builder *b, const char *key, bool save, struct error *e)
{
	struct stage_state *s = &b->stage.state;
	char name[BUILDER_NAME_BYTES];
	int fd = builder_make_disk(b, s->image_fd, name, e), r;
	struct step_cache_usage usage;

	if (fd < 0)
		return fd;
	r = save ? machine_save(b->machine, fd, e) : machine_freeze(b->machine, fd, e);
	if (r == 0 && b->o->budget && !save)
		r = disk_budget_take(b->o->budget, builder_wrote(fd, layers_count(s->image_fd)), e);
	if (r < 0) {
		(void)close(fd); /* a directory */
		return r;
	}
	step_cache_put(&b->cache, key, b->w.fd, name, fd, save || builder_replaces(b));
	set_disk(s, fd);
	(void)step_cache_trim(b->o->home, STEP_CACHE_BYTES_MAX, &usage, NULL); /* the next tries */
	return 0;
}

/* --- the machine before the last step --- */

/* The step that changes most often from build to build. */
static bool is_last(const struct builder *b, const struct dockerfile_step *step)
{
	const struct dockerfile_steps *s = &b->steps[b->at];
	const struct dockerfile_step *end = s->items + s->count;

	while (++step < end)
		if (stage_changes_disk(step))
			return false;
	return b->at + 1 == b->o->file->stage_count;
}

/* Names a saved machine by all that made it: its disk, the program, the kernel and the agent. */
static int machine_key(const struct builder *b, char ret[STEP_KEY_BYTES], struct error *e)
{
	const char *initrd = strrchr(b->o->kernel->initrd, '/'); /* its name has a hash */
	struct step_key k;

	step_key_begin(&k, "machine");
	step_key_text(&k, b->stage.state.key);
	step_key_text(&k, MAYFLY_VERSION);
	step_key_text(&k, b->o->kernel->release);
	step_key_text(&k, initrd ? initrd : "");
	step_key_number(&k, b->config.cpus);
	step_key_number(&k, b->config.memory_mb);
	return step_key_end(&k, ret, e);
}

/* Goes on with a machine that an earlier build has saved. */
static bool restore_machine(struct builder *b, const char *key)
{
	int fd = builder_replaces(b) ? -ENOENT : step_cache_find(&b->cache, key);
	struct machine_options o = machine_options(b, step_name, fd);
	struct error why = {0};

	if (fd < 0)
		return false;
	o.saved = true;
	if (machine_start(&o, &b->machine, &why) < 0) {
		log_info("a build boots, as its saved machine does not start: %s", why.message);
		(void)close(fd); /* a directory */
		return false;
	}
	set_disk(&b->stage.state, fd);
	return true;
}

/* The memory of a machine goes into the cache only if there is room for all of it. */
static bool may_save(const struct builder *b)
{
	return !b->stage.saw_secret &&
	       (!b->o->budget || disk_budget_room(b->o->budget, (uint64_t)b->config.memory_mb << 20,
					 NULL) == 0);
}

static int save_machine(struct builder *b, const char *key, struct error *e)
{
	struct machine *m;
	int r = builder_machine(b, &m, e);

	if (r < 0 || !may_save(b))
		return r;
	r = machine_set_network(m, NULL, e);
	return r < 0 ? r : keep_disk(b, key, true, e);
}

/* The machine stands ready for the last step, and is saved for the next build. So a build whose
 * last step changed does not boot. */
static int ready_machine(struct builder *b, struct error *e)
{
	char key[STEP_KEY_BYTES];
	int r = machine_key(b, key, e);

	if (r < 0)
		return r;
	return !b->machine && restore_machine(b, key) ? 0 : save_machine(b, key, e);
}

/* --- steps --- */

/* Tells of the steps up to the present one, the stage's `at`th, that were not told of yet. */
static int tell_steps(struct builder *b, const struct dockerfile_steps *s, size_t at, bool cached,
	struct error *e)
{
	int r = 0;

	for (size_t i = b->told; i <= at && r >= 0; i++)
		r = b->o->ops.step(b->o->ops.opaque, b->step_number - (at - i), b->step_count,
			&s->items[i], cached);
	b->told = at + 1;
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended") : 0;
}

static int run_step(
	struct builder *b, const struct dockerfile_step *step, const char *key, struct error *e)
{
	int r = b->o->budget ? disk_budget_room(b->o->budget, 0, e) : 0;

	if (r == 0 && is_last(b, step))
		r = ready_machine(b, e);
	if (r == 0)
		r = stage_step(&b->stage, step, e);
	return r < 0 ? r : keep_disk(b, key, false, e);
}

/* Of a step that was kept too long nothing goes on: neither what follows in its stage, nor what
 * later stages took of it. */
static int find_step(struct builder *b, const char *key)
{
	_cleanup_close_ int fd = step_cache_find(&b->cache, key);

	if (fd >= 0 && b->o->cache_max_ns && step_cache_age_ns(fd) > b->o->cache_max_ns)
		b->aged = true;
	return b->aged ? -ESTALE : TAKE_FD(fd);
}

/* Takes a step from the cache, or runs it. After a step that ran, all later steps of the stage
 * run. */
static int disk_step(
	struct builder *b, const struct dockerfile_steps *s, size_t at, struct error *e)
{
	const struct dockerfile_step *step = &s->items[at];
	unsigned before = layers_count(b->stage.state.image_fd);
	char key[STEP_KEY_BYTES];
	int fd = -ENOENT, r = stage_key(&b->stage, step, key, e);

	if (r == 0 && !b->missed && !builder_replaces(b))
		fd = find_step(b, key);
	b->missed |= fd < 0;
	if (r == 0)
		r = tell_steps(b, s, at, fd >= 0, e);
	if (r == 0 && fd >= 0) {
		set_disk(&b->stage.state, fd);
		r = stage_skip(&b->stage, step, e);
	} else if (r == 0) {
		r = run_step(b, step, key, e);
	}
	memcpy(b->stage.state.key, key, sizeof(key));
	b->wrote[b->at][at] = builder_wrote(b->stage.state.image_fd, before);
	return r;
}

/* Sets the network for RUN: what sandboxes of the template may reach. */
static void set_network(struct builder *b)
{
	const struct builder_ops *ops = &b->o->ops;
	const char *list = b->o->network ? b->o->network : b->stage.state.network;

	b->network = ops->network ? ops->network(ops->opaque, list) : NULL;
}

static bool wants_network(const struct dockerfile_step *step)
{
	const char *network = dockerfile_flag(step, "network");

	return step->kind == DOCKERFILE_RUN && !(network && strcmp(network, "none") == 0);
}

/* A step that does not write is told of with the next that does: it was cached if that one was. */
static int plain_step(
	struct builder *b, const struct dockerfile_steps *s, size_t at, struct error *e)
{
	int r = stage_step(&b->stage, &s->items[at], e);

	return r == 0 && at + 1 == s->count ? tell_steps(b, s, at, false, e) : r;
}

static int run_steps(struct builder *b, const struct dockerfile_steps *s, struct error *e)
{
	int r = 0;

	set_network(b);
	b->missed = b->forced = false;
	b->told = 0;
	for (size_t i = 0; i < s->count && r == 0; i++) {
		const struct dockerfile_step *step = &s->items[i];

		b->step_number++;
		b->networked = wants_network(step);
		b->forced |= step->force;
		r = stage_changes_disk(step) ? disk_step(b, s, i, e) : plain_step(b, s, i, e);
		if (r < 0) {
			(void)tell_steps(b, s, i, false, NULL); /* if it was not */
			name_step(b, step, e);
		}
	}
	end_source(b);
	return r;
}

static int build_stage(struct builder *b, size_t k, bool last, struct error *e)
{
	const struct dockerfile_stage *s = &b->o->file->stages[k];
	int r;

	b->at = k;
	b->stage = (struct stage){.file = b->o->file,
		.global = &b->global,
		.build_args = b->o->args,
		.secrets = b->o->secrets,
		.caches = b->o->caches ? &b->caches : NULL,
		.trust = b->o->trust,
		.ops = {stage_machine, stage_files, builder_fetch, source_key, stage_output,
			stage_note, b},
		.state.image_fd = -1};
	r = begin_stage(b, e);
	if (r < 0 && s->line)
		error_prefix(e, "line %u", s->line);
	if (r == 0)
		r = run_steps(b, &b->steps[k], e);
	if (!last)
		machine_stop(TAKE_PTR(b->machine)); /* its disk is kept */
	vars_done(&b->stage.args);
	b->done[k] = b->stage.state;
	b->stage.state = (struct stage_state){.image_fd = -1};
	return r;
}

/* --- all of it --- */

static int prepare(struct builder *b, struct error *e)
{
	_cleanup_free_ char *path = NULL;
	int r = workdir_begin(b->o->home->area_fd[HOME_IMAGES], b->o->name, "image", &b->w, e);

	if (r < 0)
		return r;
	path = home_path(b->o->home, HOME_IMAGES, b->w.tmp, "home");
	b->done = calloc(b->o->file->stage_count, sizeof(*b->done));
	b->bases = calloc(b->o->file->stage_count, sizeof(*b->bases));
	if (!path || !b->done || !b->bases || config_init(&b->config) < 0)
		return stage_no_memory(e);
	for (size_t k = 0; k < b->o->file->stage_count; k++)
		b->done[k].image_fd = -1;
	if (b->o->cpus)
		b->config.cpus = b->o->cpus;
	if (b->o->memory_mb)
		b->config.memory_mb = b->o->memory_mb;
	r = home_open(path, &b->work, e);
	if (r == 0)
		r = take_global(b, e);
	if (r == 0)
		r = expand_bases(b, e);
	return r < 0 ? r : plan(b, e);
}

static void done(struct builder *b)
{
	end_source(b);
	machine_stop(b->machine);
	for (size_t k = 0; b->done && k < b->o->file->stage_count; k++)
		stage_state_done(&b->done[k]);
	for (size_t k = 0; k < DOCKERFILE_STAGES_MAX; k++) {
		free(b->wrote[k]);
		cleanup_close_p(&b->base_fd[k]);
	}
	for (unsigned i = 0; i < b->import_count; i++) {
		free(b->imports[i].name);
		stage_state_done(&b->imports[i].state);
	}
	free(b->imports);
	for (size_t k = 0; b->bases && k < b->o->file->stage_count; k++)
		free(b->bases[k]);
	free(b->bases);
	free(b->done);
	builder_fetched_done(b);
	arena_done(&b->arena);
	files_context_done(&b->context);
	vars_done(&b->global);
	config_done(&b->config);
	home_close(&b->work);
	workdir_abort(&b->w);
}

/* Trims what earlier builds left, some of which may have been killed. */
static void begin_caches(struct builder *b)
{
	const struct home *h = b->o->home;

	b->cache_budget = (struct disk_budget){.fd = h->area_fd[HOME_IMAGES],
		.bytes_max = UINT64_MAX,
		.reserve_bytes = CACHE_MOUNTS_RESERVE};
	b->caches = (struct stage_caches){
		h, b->o->budget ? b->o->budget : &b->cache_budget, b->o->caches};
	if (b->o->caches)
		(void)cache_mounts_trim(h, CACHE_MOUNTS_BYTES_MAX);
}

int builder_run(const struct builder_options *o, struct error *e)
{
	struct builder *b = calloc(1, sizeof(*b));
	size_t count = o->file->stage_count;
	struct step_cache_usage usage;
	int r;

	if (!b)
		return stage_no_memory(e);
	*b = (struct builder){.o = o,
		.cache = {o->home, o->owner},
		.w = WORKDIR_INIT,
		.work = HOME_INIT,
		.source_fd = -1,
		.stage.state.image_fd = -1};
	for (size_t k = 0; k < DOCKERFILE_STAGES_MAX; k++)
		b->base_fd[k] = -1;
	arena_init(&b->arena, DOCKERFILE_MEMORY_MAX);
	begin_caches(b);
	files_context_init(&b->context, o->context_fd, o->context_parts, o->ignore);
	r = prepare(b, e);
	for (size_t k = 0; k < count && r == 0; k++)
		if (b->needed[k])
			r = build_stage(b, k, k == count - 1, e);
	if (r == 0)
		r = builder_finish_image(b, e);
	done(b);
	free(b);
	(void)step_cache_trim(o->home, STEP_CACHE_BYTES_MAX, &usage, NULL); /* the next one tries */
	return r;
}
