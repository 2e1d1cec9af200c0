#include "build/base.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "base/words.h"
#include "build/layers.h"
#include "build/step_key.h"
#include "image/template.h"
#include "image/verify.h"
#include "proto/image_name.h"
#include "proto/route.h"
#include "sandbox/stack.h"

enum { SCRATCH_MB = 4096 };

static int take_config(const struct image_config *c, struct stage_state *to)
{
	int r = stage_state_set(&to->user, c->user);

	for (size_t i = 0; i < c->env_count && r == 0; i++)
		r = vars_set_entry(&to->env, c->env[i]);
	if (r == 0 && *c->workdir)
		r = stage_state_set(&to->workdir, c->workdir);
	if (r == 0)
		r = stage_state_set(&to->command, c->start_command);
	if (r == 0)
		r = stage_state_set(&to->network, c->network);
	for (size_t i = 0; i < c->trigger_count && r == 0; i++)
		r = stage_state_add_trigger(to, c->triggers[i]);
	to->disk_mb = c->disk_mb;
	return r;
}

/* version: of what this code makes of an image. */
enum { KEY_VERSION = 2 };

static int key_of(const char *what, const char *digest, uint32_t disk_mb, char ret[STEP_KEY_BYTES],
	struct error *e)
{
	struct step_key k;

	step_key_begin(&k, what);
	step_key_number(&k, KEY_VERSION);
	step_key_text(&k, digest);
	step_key_number(&k, disk_mb);
	return step_key_end(&k, ret, e);
}

/* --- templates --- */

static int find_template(
	const struct base_options *o, const char *name, struct stage_state *to, struct error *e)
{
	_cleanup_close_ int fd =
		template_hold(o->home, name, e); /* while the build has its files */
	struct template t = {0};
	int r = fd < 0 ? fd : template_load_at(fd, name, &t, e);

	if (r < 0)
		return r;
	if (layers_count(fd) != t.deltas)
		r = error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"template '%s' has not the deltas that it names: build it again", name);
	if (t.kind != IMAGE_EXT4)
		r = error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"template '%s' has an EROFS image: only ext4 can be built on", name);
	if (r == 0 && take_config(&t.config, to) < 0)
		r = stage_no_memory(e);
	if (r == 0)
		r = key_of("template", t.image_digest, 0, to->key, e);
	template_done(&t);
	if (r < 0)
		return r;
	to->image_fd = TAKE_FD(fd);
	return 0;
}

static bool is_template(const struct base_options *o, const char *name)
{
	_cleanup_close_ int fd = str_is_tagged_name(name) ? template_open(o->home, name, NULL) : -1;

	return fd >= 0;
}

/* --- making images --- */

static int make_image(const struct base_options *o, const char *name,
	const struct image_foreign *foreign, uint32_t disk_mb, struct stage_state *to,
	struct error *e)
{
	char copy[32];
	struct recipe recipe = {.name = copy, .source = IMAGE_SOURCE_NONE};
	const struct image_build_options io = {
		.home = o->work, .recipe = &recipe, .kind = IMAGE_EXT4, .foreign = foreign};
	struct image m = {0};
	int r = config_init(&recipe.config) < 0 ? stage_no_memory(e) : 0;

	(void)snprintf(copy, sizeof(copy), "%s", name); /* fits: base_find */
	recipe.config.disk_mb = o->disk_mb ? o->disk_mb : disk_mb;
	if (r == 0 && config_set_text(&recipe.config.user, "root") < 0)
		r = stage_no_memory(e);
	if (r == 0)
		r = image_build(&io, o->progress, e);
	if (r == 0)
		r = image_load(o->work, name, &m, e);
	if (r == 0 && take_config(&m.config, to) < 0)
		r = stage_no_memory(e);
	image_done(&m);
	config_done(&recipe.config);
	if (r < 0)
		return r;
	to->image_fd =
		openat(o->work->area_fd[HOME_IMAGES], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return to->image_fd < 0 ? error_set_errno(e, ERROR_INTERNAL, errno, "the base's image") : 0;
}

/* --- images that were made before --- */

static const char state_file[] = "state.json";

static int set_text(const json_t *o, const char *key, char **slot)
{
	char *text = NULL;
	int r = config_json_string(o, key, &text);

	if (r == 0) {
		free(*slot);
		*slot = text;
	}
	return r;
}

static int add_env(struct stage_state *s, const char *entry)
{
	return vars_set_entry(&s->env, entry);
}

static int list_from_json(
	const json_t *list, struct stage_state *s, int (*add)(struct stage_state *, const char *))
{
	const json_t *one;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, one)
	{
		if (r == 0)
			r = json_is_string(one) ? add(s, json_string_value(one)) : -EINVAL;
	}
	return r;
}

static int state_from_json(const json_t *o, struct stage_state *s)
{
	uint64_t disk_mb = 0;
	int r = config_json_u64(o, "disk_mb", CONFIG_DISK_MB_MAX, &disk_mb);

	s->disk_mb = (uint32_t)disk_mb;
	if (r == 0)
		r = set_text(o, "user", &s->user);
	if (r == 0)
		r = set_text(o, "workdir", &s->workdir);
	if (r == 0)
		r = set_text(o, "entry", &s->entry);
	if (r == 0)
		r = set_text(o, "command", &s->command);
	if (r == 0)
		r = list_from_json(json_object_get(o, "env"), s, add_env);
	if (r == 0)
		r = list_from_json(json_object_get(o, "triggers"), s, stage_state_add_trigger);
	return r;
}

static int read_state(int fd, struct stage_state *s)
{
	static const char *const keys[] = {
		"disk_mb", "user", "workdir", "entry", "command", "env", "triggers", NULL};
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	int r = file_read_foreign(fd, state_file, CONFIG_JSON_MAX, &text, &n);
	json_t *o = r < 0 ? NULL : config_json_parse(text, n, keys, state_file, NULL);

	r = o ? state_from_json(o, s) : -EINVAL;
	json_decref(o);
	return r;
}

/* False: it must be made. A damaged entry counts as none. */
static bool find_made(const struct base_options *o, struct stage_state *to)
{
	const struct step_cache cache = {.home = o->home}; /* named by content: anybody's */
	struct stage_state s;
	int fd = o->no_cache ? -1 : step_cache_find(&cache, to->key);

	if (fd < 0)
		return false;
	if (stage_state_init(&s) < 0 || read_state(fd, &s) < 0) {
		stage_state_done(&s);
		(void)close(fd); /* a directory */
		return false;
	}
	memcpy(s.key, to->key, sizeof(s.key));
	s.image_fd = fd;
	stage_state_done(to);
	*to = s;
	return true;
}

/* NULL for what is not UTF-8. */
static json_t *list_to_json(char *const *items, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, json_string(items[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

/* NULL is an error of json_pack, too. */
static json_t *state_to_json(const struct stage_state *s)
{
	return json_pack("{s:i, s:s, s:s, s:s, s:s, s:o, s:o}", "disk_mb", (int)s->disk_mb, "user",
		s->user, "workdir", s->workdir, "entry", s->entry, "command", s->command, "env",
		list_to_json(s->env.items, s->env.count), "triggers",
		list_to_json(s->triggers.items, s->triggers.count));
}

/* What cannot be kept is made again the next time. */
static void keep_made(const struct base_options *o, const char *name, const struct stage_state *s)
{
	const struct step_cache cache = {.home = o->home};
	json_t *state = state_to_json(s);
	_cleanup_free_ char *text = state ? json_dumps(state, 0) : NULL;

	json_decref(state);
	(void)verify_record(s->image_fd, image_file_name(IMAGE_EXT4), NULL); /* or templates do */
	if (text && file_write_atomic(s->image_fd, state_file, text, strlen(text), 0600) == 0)
		step_cache_put(&cache, s->key, o->work->area_fd[HOME_IMAGES], name, s->image_fd,
			o->no_cache);
}

/* --- snapshots --- */

static int make_snapshot_disk(const struct base_options *o, const struct base_snapshot *sn,
	const char *name, struct stage_state *to, struct error *e)
{
	int area = o->work->area_fd[HOME_IMAGES];
	char stack[48];

	(void)snprintf(stack, sizeof(stack), "%s-stack", name); /* fits: base_find */
	to->image_fd = stack_open(area, name, true, e);
	return to->image_fd < 0 ? to->image_fd
				: base_snapshot_disk(o->home, sn, area, stack, to->image_fd,
					  o->budget, o->progress, e);
}

/* An id never means another snapshot, so it does for a digest. */
static int find_snapshot(const struct base_options *o, const struct base_snapshot *sn,
	const char *name, struct stage_state *to, struct error *e)
{
	struct template t = {0};
	bool made;
	int r = base_snapshot_load(o->home, sn, &t, e);

	if (r < 0)
		return r;
	r = key_of("snapshot", sn->id, 0, to->key, e);
	made = r == 0 && find_made(o, to); /* that knows no network */
	if (r == 0 && (made ? stage_state_set(&to->network, t.config.network)
			    : take_config(&t.config, to)) < 0)
		r = stage_no_memory(e);
	template_done(&t);
	if (r < 0 || made)
		return r;
	r = make_snapshot_disk(o, sn, name, to, e);
	if (r == 0)
		keep_made(o, name, to);
	return r;
}

/* --- images --- */

static int fill_nothing(
	void *opaque, struct rootfs *f, struct image_config *config, struct error *e)
{
	return 0;
}

/* Keeps entry point and command apart, because a Dockerfile may change just one of them. */
static int set_words(char **slot, const struct oci_strings *words)
{
	struct buf line = BUF_INIT(CONFIG_TEXT_MAX);
	int r = words_join(&line, (const char *const *)words->items, words->count);

	if (r == 0)
		r = buf_add_u8(&line, 0);
	if (r == 0)
		r = stage_state_set(slot, (const char *)buf_head(&line));
	buf_done(&line);
	return r;
}

static int take_bytes(void *opaque, uint64_t bytes, struct error *e)
{
	struct disk_budget *d = opaque;
	int r = disk_budget_room(d, bytes, e);

	return r < 0 ? r : disk_budget_take(d, bytes, e);
}

/* Counts an image before it is written. An archive does not tell its size first, but only the
 * operator uses archives. */
static int take_budget(
	const struct base_options *o, const struct template_from *from, struct error *e)
{
	if (!o->budget || from->source.kind == OCI_SOURCE_TAR)
		return 0;
	return take_bytes(o->budget, oci_import_bytes(&from->import), e);
}

/* Reads the image, and makes a disk of it. */
static int load_image(const struct base_options *o, struct template_from *from, const char *text,
	const char *name, struct stage_state *to, struct error *e)
{
	const struct oci_allowance fetched = {take_bytes, o->budget};
	uint32_t disk_mb = 0;
	int r = o->budget ? disk_budget_room(o->budget, 0, e) : 0;

	from->allowance = o->budget ? &fetched : NULL;
	if (r == 0)
		r = template_from_load(from, o->home, o->progress, &disk_mb, e);
	from->allowance = NULL;
	if (r == 0)
		r = take_budget(o, from, e);
	if (r == 0)
		r = make_image(o, name, &from->foreign, disk_mb, to, e);
	if (r == 0 && from->source.kind != OCI_SOURCE_TAR &&
		(set_words(&to->entry, &from->image.config.entrypoint) < 0 ||
			set_words(&to->command, &from->image.config.command) < 0))
		r = error_set(e, ERROR_LIMIT, E2BIG, "the command of %.200s is too long", text);
	return r;
}

/* A digest counts only with its registry: images of strangers' registries are not shared
 * (oci/registry.h). */
static int image_key(const struct base_options *o, const struct template_from *from,
	const char *digest, char ret[STEP_KEY_BYTES], struct error *e)
{
	const struct oci_reference *ref = &from->source.reference;
	char what[sizeof("image ") + OCI_REGISTRY_MAX + OCI_REPOSITORY_MAX] = "image";

	if (o->reach && o->reach->stranger)
		(void)snprintf(what, sizeof(what), "image %s/%s", ref->registry,
			ref->repository); /* fits */
	return key_of(what, digest, o->disk_mb, ret, e);
}

static int find_image(const struct base_options *o, const char *text, const char *name,
	struct stage_state *to, struct error *e)
{
	const struct template_from_options fo = {.from = text,
		.said = "FROM",
		.registry = o->registry,
		.registry_auth = o->registry_auth,
		.reach = o->reach,
		.mirrors = o->mirrors};
	struct template_from from = {.source.path = NULL};
	char digest[OCI_DIGEST_MAX];
	int r = template_from_parse(&fo, &from, e);

	if (r == 0)
		r = template_from_digest(&from, o->home, o->progress, digest, e);
	if (r == 0)
		r = image_key(o, &from, digest, to->key, e);
	if (r == 0 && !find_made(o, to)) {
		r = load_image(o, &from, text, name, to, e);
		if (r == 0)
			keep_made(o, name, to);
	}
	template_from_done(&from);
	return r;
}

/* A client's name never means a file of this host, only an image of a registry. */
static int find_client_image(const struct base_options *o, const char *text, const char *name,
	struct stage_state *to, struct error *e)
{
	static const char docker[] = "docker://";
	const char *image = text + (str_starts_with(text, docker) ? strlen(docker) : 0);
	_cleanup_free_ char *whole = NULL, *from = NULL;
	struct oci_reach anywhere = *o->reach;
	struct base_options own = *o;

	if (!image_name_is_plain(image))
		return error_set(e, ERROR_USAGE, EINVAL,
			"%.100s: must be REGISTRY/NAME:TAG, NAME:TAG or a template", text);
	if (!image_name_has_registry(image) && !o->client_registry)
		return error_set(e, ERROR_USAGE, EINVAL,
			"%.100s: there is no such template, and this host has no default registry: "
			"name one, as in registry.example/%.100s",
			image, image);
	whole = image_name_whole(image, o->client_registry);
	from = whole ? str_printf("%s%s", docker, whole) : NULL;
	if (!from)
		return stage_no_memory(e);
	if (image_name_is_of(whole, o->client_registry))
		own.reach = &anywhere;
	anywhere.public_only = false;
	return find_image(&own, from, name, to, e);
}

static int find_nothing(
	const struct base_options *o, const char *name, struct stage_state *to, struct error *e)
{
	const struct image_foreign nothing = {"oci", fill_nothing, NULL};
	int r = key_of("scratch", "", o->disk_mb, to->key, e);

	if (r < 0 || find_made(o, to))
		return r;
	r = make_image(o, name, &nothing, SCRATCH_MB, to, e);
	if (r == 0)
		keep_made(o, name, to);
	return r;
}

int base_find(const struct base_options *o, const char *name, unsigned number,
	struct stage_state *ret, struct error *e)
{
	char image[32];
	struct base_snapshot sn;
	int r = o->snapshot ? o->snapshot(o->opaque, name, &sn, e) : 0;

	(void)snprintf(image, sizeof(image), "base-%u", number); /* fits */
	if (r != 0)
		return r < 0 ? r : find_snapshot(o, &sn, image, ret, e);
	if (strcmp(name, "scratch") == 0)
		return find_nothing(o, image, ret, e);
	/* directories of clients' builds have such names */
	if (is_template(o, name) && !(o->client && route_is_uuid(name)))
		return find_template(o, name, ret, e);
	return o->client ? find_client_image(o, name, image, ret, e)
			 : find_image(o, name, image, ret, e);
}
