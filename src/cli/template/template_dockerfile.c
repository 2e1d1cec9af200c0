#include "cli/template/template_dockerfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "build/builder.h"
#include "build/secrets.h"
#include "build/step_key.h"
#include "cli/json.h"
#include "cli/template/template_network.h"
#include "cli/template/template_snapshot.h"
#include "dockerfile/source.h"
#include "image/image.h"
#include "image/template.h"
#include "policy/authority.h"
#include "proto/snapshot.h"
#include "sandbox/host_cpu.h"
#include "sandbox/prepare.h"
#include "config.h"

/* --- what is seen of it --- */

struct show {
	struct progress_view *view;
	struct template_network network;
	const struct home *home;
	struct template_snapshot snapshot;
};

static int show_step(
	void *opaque, size_t number, size_t count, const struct dockerfile_step *step, bool cached)
{
	const struct show *s = opaque;
	const struct progress_step p = {number, count, step->line, step->text, cached};

	progress_view_step(s->view, &p);
	return 0;
}

static int show_output(void *opaque, const void *data, size_t n)
{
	const struct show *s = opaque;

	progress_view_output(s->view, data, n);
	return 0;
}

static void show_note(void *opaque, unsigned line, const char *text)
{
	const struct show *s = opaque;

	progress_view_note(s->view, line, text);
}

static const struct machine_network *get_network(void *opaque, const char *list)
{
	struct show *s = opaque;

	return template_network_get(&s->network, list);
}

static int get_snapshot(void *opaque, const char *name, struct base_snapshot *ret, struct error *e)
{
	struct show *s = opaque;
	const char *word = template_snapshot_word(name);
	int r = word ? template_snapshot_find(s->home, word, &s->snapshot, e) : 0;

	if (word)
		*ret = s->snapshot.base;
	return r < 0 ? r : word != NULL;
}

/* --- what is read --- */

bool template_dockerfile_is_asked(const struct template_dockerfile_options *o)
{
	return o->file || o->target || o->args.count || o->secrets.count || o->no_cache ||
	       o->floor.hosts || o->floor.roots || o->floor.private.count || o->start || o->ready ||
	       o->guest_ca;
}

/* `NAME=VALUE`, or a variable of this process. */
static int take_args(const struct option_list *list, struct vars *ret, struct error *e)
{
	int r = 0;

	for (unsigned i = 0; i < list->count && r == 0; i++) {
		const char *word = list->items[i], *value = getenv(word);

		if (*word == '\0' || *word == '=')
			return error_set(e, ERROR_USAGE, EINVAL, "--build-arg must be NAME=VALUE");
		if (strchr(word, '='))
			r = vars_set_entry(ret, word);
		else if (value)
			r = vars_set(ret, word, value);
	}
	if (r == -E2BIG)
		return error_set(e, ERROR_LIMIT, E2BIG, "more than %d --build-arg", VARS_MAX);
	return r < 0 ? error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory") : 0;
}

static int read_dockerfile(
	const char *path, int dirfd, char **ret, size_t *ret_bytes, struct error *e)
{
	int r = path ? file_read(AT_FDCWD, path, SOURCE_BYTES_MAX, ret, ret_bytes)
		     : file_read_foreign(dirfd, "Dockerfile", SOURCE_BYTES_MAX, ret, ret_bytes);

	if (r == -EFBIG)
		return error_set(e, ERROR_LIMIT, EFBIG, "the Dockerfile is larger than 1 MiB");
	if (!path && (r == -ELOOP || r == -EINVAL))
		return error_set(e, ERROR_USAGE, EINVAL,
			"the directory's Dockerfile must be a file, and no link: name another with "
			"-f");
	return r < 0 ? error_set_errno(e, ERROR_NOT_FOUND, -r, "cannot read %s",
			       path ? path : "the Dockerfile of the directory (-f names another)")
		     : 0;
}

/* The Dockerfile's own, or else that of the directory. */
static int read_ignore(const char *path, int dirfd, struct ignore *ret, struct error *e)
{
	_cleanup_free_ char *text = NULL,
			    *own = str_printf("%s.dockerignore", path ? path : "Dockerfile");
	size_t n = 0;
	int r = !own   ? -ENOMEM
		: path ? file_read(AT_FDCWD, own, IGNORE_BYTES_MAX, &text, &n)
		       : file_read_foreign(dirfd, own, IGNORE_BYTES_MAX, &text, &n);

	if (r == -ENOENT)
		r = file_read_foreign(dirfd, ".dockerignore", IGNORE_BYTES_MAX, &text, &n);
	if (r == -ENOENT)
		return ignore_parse("", 0, ret, e);
	if (r == -ELOOP || r == -EINVAL)
		return error_set(
			e, ERROR_USAGE, EINVAL, ".dockerignore must be a file, and no link to one");
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read .dockerignore");
	return ignore_parse(text, n, ret, e);
}

/* No Dockerfile, but the one line that it would have. */
static int parse_base(const char *base, struct dockerfile *ret, struct error *e)
{
	_cleanup_free_ char *text = str_printf("FROM %s\n", base);
	int r = text ? dockerfile_parse(text, strlen(text), ret, e)
		     : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	for (size_t i = 0; i < ret->stage_count && r == 0; i++)
		ret->stages[i].line = 0; /* of no file */
	return r;
}

static int open_context(const char *dir, int *ret, struct error *e)
{
	*ret = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? error_set_errno(e, ERROR_NOT_FOUND, errno,
				  "cannot open the build's directory %s", dir)
			: 0;
}

/* The directory, the file and what it ignores. */
static int read_context(const struct template_dockerfile_options *o, const char *dir,
	int *ret_dirfd, struct dockerfile *file, struct ignore *ignore, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	int r;

	if (o->base)
		return parse_base(o->base, file, e);
	r = open_context(dir, ret_dirfd, e);
	if (r == 0)
		r = read_dockerfile(o->file, *ret_dirfd, &text, &n, e);
	if (r == 0)
		r = dockerfile_parse(text, n, file, e);
	if (r == 0 && o->target)
		r = dockerfile_end_at(file, o->target, e);
	return r == 0 ? read_ignore(o->file, *ret_dirfd, ignore, e) : r;
}

static void done(struct builder_options *b, struct dockerfile *file, struct ignore *ignore,
	struct vars *args)
{
	dockerfile_done(file);
	ignore_done(ignore);
	vars_done(args);
	cleanup_close_p(&b->context_fd);
}

int template_dockerfile_build(const struct template_dockerfile_options *o, const char *dir,
	const struct home *home, const struct kernel *kernel, struct progress_view *view,
	struct error *e)
{
	_cleanup_free_ char *trust = NULL;
	struct dockerfile file = {.escape = '\\'};
	struct ignore ignore = {.count = 0};
	struct vars args = {NULL, 0};
	struct build_secrets secrets = {.count = 0};
	struct network_floor *floor = NULL;
	struct show show = {.view = view, .home = home};
	struct builder_options b = {.home = home,
		.name = o->name,
		.file = &file,
		.args = &args,
		.secrets = &secrets,
		.context_fd = -1,
		.ignore = &ignore,
		.kernel = kernel,
		.cpus = o->cpus,
		.memory_mb = o->memory_mb,
		.disk_mb = o->disk_mb,
		.network = o->network,
		.registry = o->registry,
		.registry_auth = o->registry_auth,
		.mirrors = o->mirrors,
		.no_triggers = o->base,
		.no_cache = o->no_cache,
		.cache_max_ns = o->cache_max_ns,
		.caches = "",
		.start = o->start,
		.ready = o->ready,
		.progress = &view->progress,
		.ops = {show_step, show_output, show_note, get_network, get_snapshot, &show}};
	int r = read_context(o, dir, &b.context_fd, &file, &ignore, e);

	if (r == 0)
		r = take_args(&o->args, &args, e);
	if (r == 0)
		r = build_secrets_read(&o->secrets, &secrets, e);
	if (r == 0)
		r = network_floor_make(&o->floor, &floor, e);
	if (r == 0 && o->guest_ca)
		r = authority_read_file(o->guest_ca, &trust, e);
	b.trust = trust;
	show.network.floors.all = floor;
	if (r == 0)
		r = builder_run(&b, e);
	network_floor_free(floor);
	build_secrets_done(&secrets);
	done(&b, &file, &ignore, &args);
	return r;
}

/* --- the template --- */

static int add_config(struct step_key *k, const struct image_config *c)
{
	json_t *o = json_object();
	_cleanup_free_ char *text = NULL;
	int r = o ? config_to_json(c, o) : -ENOMEM;

	if (r == 0)
		text = json_dumps(o, JSON_SORT_KEYS);
	if (text)
		step_key_text(k, text);
	json_decref(o);
	return text ? 0 : -ENOMEM;
}

/* What a snapshot depends on. The initramfs has the digest of agent and modules in its name. */
static int template_key(const struct home *home, const char *name, const struct kernel *kernel,
	const char *baseline, char ret[STEP_KEY_BYTES], struct error *e)
{
	struct image m = {0};
	struct step_key k;
	int r = image_load(home, name, &m, e), ended;

	if (r < 0)
		return r;
	step_key_begin(&k, "template");
	step_key_text(&k, MAYFLY_VERSION);
	step_key_number(&k, SNAPSHOT_VERSION);
	step_key_text(&k, m.digest);
	r = add_config(&k, &m.config) < 0 ? error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory")
					  : 0;
	step_key_text(&k, kernel->vmlinux);
	step_key_text(&k, kernel->initrd);
	step_key_text(&k, baseline ? baseline : "");
	step_key_number(&k, host_cpu_hash());
	ended = step_key_end(&k, ret, e);
	image_done(&m);
	return r < 0 ? r : ended;
}

int template_dockerfile_prepare(const struct template_dockerfile_options *o,
	const struct home *home, const struct kernel *kernel, const char *baseline,
	struct progress_view *view, struct error *e)
{
	char key[STEP_KEY_BYTES];
	int r = template_key(home, o->name, kernel, baseline, key, e);

	if (r == 0 && !o->no_cache)
		r = template_reuse(home, o->name, key, e);
	if (r != 0)
		return r < 0 ? r : 0;
	return prepare_template(home, o->name, kernel,
		&(struct prepare_more){.baseline = baseline, .key = key}, &view->progress, e);
}
