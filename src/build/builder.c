#include "build/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "build/base.h"
#include "build/files.h"
#include "build/machine.h"
#include "build/stage.h"
#include "image/workdir.h"
#include "oci/settings.h"

enum { SHOWN = 160, NAME_BYTES = 32, PASSWD_MAX = 1 << 20 };

/* An image that --from names. */
struct import {
	char *name; /* owned */
	struct stage_state state;
};

struct builder {
	const struct builder_options *o;
	struct workdir w; /* becomes images/<name> */
	struct home work; /* in it: bases and stages */
	struct vars global;
	struct image_config config; /* sizes */
	struct stage_state *done;   /* of each stage: what it hands on */
	char **bases;		    /* of each stage: what FROM names, expanded; owned */
	bool needed[DOCKERFILE_STAGES_MAX];
	size_t step_count, step_number;

	/* the stage that is built */
	struct stage stage;
	size_t at;
	struct machine *machine;
	struct files_context context;
	struct machine *source; /* of --from */
	struct files_machine source_files;
	struct import *imports;
	unsigned import_count;
};

/* --- machines --- */

static int start(
	struct builder *b, const char *name, int image_fd, struct machine **ret, struct error *e)
{
	const struct machine_options mo = {.work_fd = b->w.fd,
		.name = name,
		.what = b->o->name,
		.image_fd = image_fd,
		.kernel = b->o->kernel,
		.cpus = b->config.cpus,
		.memory_mb = b->config.memory_mb,
		.progress = b->o->progress};

	return machine_start(&mo, ret, e);
}

static int stage_machine(void *opaque, struct machine **ret, struct error *e)
{
	struct builder *b = opaque;
	int r = b->machine ? 0 : start(b, "step", b->stage.state.image_fd, &b->machine, e);

	*ret = b->machine;
	return r;
}

static void end_source(struct builder *b)
{
	machine_stop(TAKE_PTR(b->source));
}

static int add_import(struct builder *b, const char *name, struct error *e)
{
	const struct base_options bo = {.home = b->o->home,
		.work = &b->work,
		.registry = b->o->registry,
		.registry_auth = b->o->registry_auth,
		.progress = b->o->progress};
	struct import *all = reallocarray(b->imports, b->import_count + 1, sizeof(*all));
	unsigned number = b->import_count;

	if (!all)
		return stage_no_memory(e);
	b->imports = all;
	all[number].name = strdup(name);
	b->import_count++; /* whatever fails: done() frees it */
	if (stage_state_init(&all[number].state) < 0 || !all[number].name)
		return stage_no_memory(e);
	return base_find(&bo, name, DOCKERFILE_STAGES_MAX + number, &all[number].state, e);
}

/* A stage above by name or number, or an image, which is made once. */
static int find_source(struct builder *b, const char *from, int *ret_fd, struct error *e)
{
	int r = 0, k = dockerfile_find_stage(b->o->file, from, b->at);
	unsigned i = 0;

	if (k >= 0) {
		*ret_fd = b->done[k].image_fd;
		return 0;
	}
	while (i < b->import_count && strcmp(b->imports[i].name, from) != 0)
		i++;
	if (i == b->import_count)
		r = add_import(b, from, e);
	*ret_fd = r < 0 ? -1 : b->imports[i].state.image_fd;
	return r;
}

static int stage_files(void *opaque, const char *from, struct files **ret, struct error *e)
{
	struct builder *b = opaque;
	int fd = -1, r;

	if (!*from) {
		*ret = &b->context.files;
		return 0;
	}
	end_source(b);
	r = find_source(b, from, &fd, e);
	if (r == 0)
		r = start(b, "source", fd, &b->source, e);
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

/* Notes a stage, and all that it needs. They are above it, so this ends. */
static void need(struct builder *b, size_t k)
{
	const struct dockerfile *d = b->o->file;
	const struct dockerfile_stage *s = &d->stages[k];
	int base = dockerfile_find_stage(d, b->bases[k], k);

	if (b->needed[k])
		return;
	b->needed[k] = true;
	b->step_count += s->steps.count;
	if (base >= 0)
		need(b, (size_t)base);
	for (size_t i = 0; i < s->steps.count; i++) {
		const char *from = dockerfile_flag(&s->steps.items[i], "from");
		int other = from ? dockerfile_find_stage(d, from, k) : -1;

		if (other >= 0)
			need(b, (size_t)other);
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

/* --- a stage --- */

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

/* A template's disk keeps its size. */
static int check_disk(const struct builder *b, struct error *e)
{
	uint32_t have = b->stage.state.disk_mb, wanted = b->o->disk_mb;

	if (!wanted || wanted == have || b->at + 1 < b->o->file->stage_count)
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL,
		"FROM %.80s: its disk has %u MB and stays so: leave out --disk, or build on an "
		"image",
		b->bases[b->at], have);
}

static int begin_stage(struct builder *b, const struct dockerfile_stage *s, struct error *e)
{
	const struct base_options bo = {.home = b->o->home,
		.work = &b->work,
		.registry = b->o->registry,
		.registry_auth = b->o->registry_auth,
		.disk_mb = b->o->disk_mb,
		.progress = b->o->progress};
	const char *base = b->bases[b->at];
	int r = check_platform(b, s, e), k;

	if (r < 0)
		return r;
	k = dockerfile_find_stage(b->o->file, base, b->at);
	if (k >= 0)
		r = stage_state_copy(&b->done[k], &b->stage.state) < 0 ? stage_no_memory(e) : 0;
	else
		r = stage_state_init(&b->stage.state) < 0
			    ? stage_no_memory(e)
			    : base_find(&bo, base, (unsigned)b->at, &b->stage.state, e);
	return r < 0 ? r : check_disk(b, e);
}

static void name_step(const struct builder *b, const struct dockerfile_step *s, struct error *e)
{
	char text[SHOWN];

	(void)snprintf(text, sizeof(text), "%s", s->text); /* may be cut */
	error_prefix(
		e, "step %zu of %zu (line %u): %s", b->step_number, b->step_count, s->line, text);
}

static int run_steps(struct builder *b, const struct dockerfile_stage *s, struct error *e)
{
	int r = 0;

	for (size_t i = 0; i < s->steps.count && r == 0; i++) {
		const struct dockerfile_step *step = &s->steps.items[i];

		b->step_number++;
		r = b->o->ops.step(b->o->ops.opaque, b->step_number, b->step_count, step);
		if (r < 0)
			return error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended");
		r = stage_step(&b->stage, step, e);
		if (r < 0)
			name_step(b, step, e);
	}
	end_source(b);
	return r;
}

/* Writes the disk of the machine into a directory. */
static int write_disk(struct builder *b, int dirfd, struct error *e)
{
	_cleanup_close_ int fd = openat(
		dirfd, image_file_name(IMAGE_EXT4), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = progress_report(b->o->progress, "write the disk", PROGRESS_NO_PERCENT, NULL);

	if (r < 0)
		return error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended");
	if (fd < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make the image");
	r = machine_finish(b->machine, fd, e);
	machine_stop(TAKE_PTR(b->machine));
	return r;
}

/* What a stage hands on: its base's disk, if no step has changed it. */
static int finish_stage(struct builder *b, struct error *e)
{
	char name[NAME_BYTES];
	int fd = -1, r;

	if (!b->machine)
		return 0;
	(void)snprintf(name, sizeof(name), "stage-%zu", b->at); /* fits */
	if (mkdirat(b->w.fd, name, 0700) < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make a directory");
	fd = openat(b->w.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot open a directory");
	r = write_disk(b, fd, e);
	(void)close(b->stage.state.image_fd); /* a directory */
	b->stage.state.image_fd = fd;
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
		.ops = {stage_machine, stage_files, stage_output, stage_note, b},
		.state.image_fd = -1};
	r = begin_stage(b, s, e);
	if (r < 0)
		error_prefix(e, "line %u", s->line);
	if (r == 0)
		r = run_steps(b, s, e);
	if (r == 0 && !last)
		r = finish_stage(b, e);
	vars_done(&b->stage.args);
	b->done[k] = b->stage.state;
	b->stage.state = (struct stage_state){.image_fd = -1};
	return r;
}

/* --- the image --- */

static bool is_number(const char *s)
{
	return *s && s[strspn(s, "0123456789")] == '\0' && strlen(s) <= 9;
}

static int add_user(struct builder *b, char *passwd, size_t n, const char *id, const char *group,
	struct error *e)
{
	n += (size_t)snprintf(passwd + n, 256, "%suid%s:x:%s:%s::/:/sbin/nologin\n",
		n && passwd[n - 1] != '\n' ? "\n" : "", id, id, group);
	return machine_write(b->machine, "/etc/passwd", 0644, false, passwd, n, e);
}

/* Templates have users by name. A number gets its name of /etc/passwd, or a new one. */
static int name_user(struct builder *b, struct stage_state *s, struct error *e)
{
	_cleanup_free_ char *passwd = calloc(1, PASSWD_MAX + 256);
	char *group = s->user, *id = strsep(&group, ":"), name[CONFIG_USER_MAX + 1];
	size_t n = 0;
	int r;

	if (!is_number(id))
		return 0; /* the group is left out */
	if (!passwd)
		return stage_no_memory(e);
	r = machine_read(b->machine, "/etc/passwd", 0, passwd, PASSWD_MAX, &n, e);
	if (r < 0)
		return r;
	if (!oci_settings_find_user(passwd, strtoull(id, NULL, 10), name)) {
		(void)snprintf(name, sizeof(name), "uid%s", id); /* fits */
		r = add_user(b, passwd, n, id, group && is_number(group) ? group : id, e);
	}
	if (stage_state_set(&s->user, name) < 0)
		return stage_no_memory(e);
	return r;
}

static int add_command(struct buf *line, const struct stage_state *s)
{
	int r = buf_add_str(line, s->entry);

	if (r == 0 && *s->command && !(*s->entry && s->entry_is_shell)) {
		if (*s->entry)
			r = buf_add_u8(line, ' ');
		if (r == 0)
			r = buf_add_str(line, s->command);
	}
	return r == 0 ? buf_add_u8(line, 0) : r;
}

static int fill_config(struct builder *b, const struct stage_state *s, struct error *e)
{
	struct buf line = BUF_INIT(CONFIG_TEXT_MAX);
	struct image_config *c = &b->config;
	int r = add_command(&line, s);

	if (r == 0)
		r = config_set_text(&c->start_command, (const char *)buf_head(&line));
	buf_done(&line);
	if (r < 0)
		return error_set(e, ERROR_LIMIT, -r,
			"ENTRYPOINT and CMD are too long or have control characters");
	c->disk_mb = s->disk_mb;
	if (config_set_text(&c->network, b->o->network ? b->o->network : s->network) < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--network: it is no text of a line");
	r = config_set_text(&c->workdir, s->workdir);
	if (r == 0)
		r = config_set_text(&c->user, s->user);
	for (size_t i = 0; i < s->env.count && r == 0; i++) {
		r = config_add_env(c, s->env.items[i]);
		if (r < 0)
			return error_set(e, ERROR_USAGE, -r,
				"ENV %.100s cannot be a template's variable", s->env.items[i]);
	}
	return r < 0 ? error_set(e, ERROR_USAGE, -r, "USER or WORKDIR cannot be a template's")
		     : config_check(c, e);
}

/* Over the parts of the file that are no holes, with their places. */
static int digest(int dirfd, char hex[65], struct error *e)
{
	_cleanup_close_ int fd = openat(dirfd, image_file_name(IMAGE_EXT4), O_RDONLY | O_CLOEXEC);
	_cleanup_free_ uint8_t *block = malloc(1 << 16);
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	uint8_t sum[32];
	off_t at = 0;
	ssize_t n = 0;
	bool good = fd >= 0 && block && md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;

	while (good && (at = lseek(fd, at, SEEK_DATA)) >= 0) {
		at = at / (1 << 16) * (1 << 16);
		n = pread(fd, block, 1 << 16, at);
		good = n > 0 && EVP_DigestUpdate(md, &at, sizeof(at)) == 1 &&
		       EVP_DigestUpdate(md, block, (size_t)n) == 1;
		at += 1 << 16;
	}
	good = good && errno == ENXIO && EVP_DigestFinal_ex(md, sum, NULL) == 1;
	EVP_MD_CTX_free(md);
	if (!good)
		return error_set(e, ERROR_INTERNAL, EIO, "cannot read the image again");
	str_hex(sum, sizeof(sum), hex);
	return 0;
}

static int save(struct builder *b, struct error *e)
{
	char hex[65];
	struct image m = {.name = (char *)(uintptr_t)b->o->name, /* borrowed, as all here is */
		.source = (char *)(uintptr_t) "dockerfile",
		.digest = hex,
		.kind = IMAGE_EXT4,
		.created_s = clock_realtime_ns() / NS_PER_S,
		.config = b->config};
	int r = digest(b->w.fd, hex, e);

	return r < 0 ? r : image_save(b->w.fd, &m, e);
}

/* Removes all but the image. */
static int tidy(struct builder *b, struct error *e)
{
	char name[NAME_BYTES];
	int r = 0;

	for (size_t k = 0; k < b->o->file->stage_count && r == 0; k++) {
		stage_state_done(&b->done[k]);
		(void)snprintf(name, sizeof(name), "stage-%zu", k); /* fits */
		r = file_remove_tree(b->w.fd, name);
	}
	home_close(&b->work);
	b->work = (struct home)HOME_INIT;
	if (r == 0)
		r = file_remove_tree(b->w.fd, "home");
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "cannot remove what the build leaves")
		     : 0;
}

static int finish(struct builder *b, struct error *e)
{
	struct stage_state *s = &b->done[b->o->file->stage_count - 1];
	struct machine *m;
	int r;

	b->stage.state.image_fd = s->image_fd; /* borrowed: for a stage without steps */
	r = stage_machine(b, &m, e);
	b->stage.state.image_fd = -1;
	if (r == 0)
		r = name_user(b, s, e);
	if (r == 0)
		r = fill_config(b, s, e);
	if (r == 0)
		r = write_disk(b, b->w.fd, e);
	if (r == 0)
		r = tidy(b, e);
	if (r == 0)
		r = save(b, e);
	return r < 0 ? r : workdir_commit(&b->w, e);
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
	return r < 0 ? r : expand_bases(b, e);
}

static void done(struct builder *b)
{
	end_source(b);
	machine_stop(b->machine);
	for (size_t k = 0; b->done && k < b->o->file->stage_count; k++)
		stage_state_done(&b->done[k]);
	for (unsigned i = 0; i < b->import_count; i++) {
		free(b->imports[i].name);
		stage_state_done(&b->imports[i].state);
	}
	free(b->imports);
	for (size_t k = 0; b->bases && k < b->o->file->stage_count; k++)
		free(b->bases[k]);
	free(b->bases);
	free(b->done);
	files_context_done(&b->context);
	vars_done(&b->global);
	config_done(&b->config);
	home_close(&b->work);
	workdir_abort(&b->w);
}

int builder_run(const struct builder_options *o, struct error *e)
{
	struct builder *b = calloc(1, sizeof(*b));
	size_t count = o->file->stage_count;
	int r;

	if (!b)
		return stage_no_memory(e);
	*b = (struct builder){
		.o = o, .w = WORKDIR_INIT, .work = HOME_INIT, .stage.state.image_fd = -1};
	files_context_init(&b->context, o->context_fd, o->ignore);
	r = prepare(b, e);
	if (r == 0)
		need(b, count - 1);
	for (size_t k = 0; k < count && r == 0; k++)
		if (b->needed[k])
			r = build_stage(b, k, k == count - 1, e);
	if (r == 0)
		r = finish(b, e);
	done(b);
	free(b);
	return r;
}
