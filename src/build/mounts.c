#include "build/mounts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "build/cache_mount.h"
#include "build/copy.h"
#include "build/secrets.h"
#include "dockerfile/mount.h"
#include "dockerfile/path.h"

#define SECRETS_DIR "/run/secrets"
#define ASIDE	    ".mayfly-aside"

enum { LINK_S = 60, OWNER_BYTES = 32, SECRET_MODE = 0400, CACHE_MODE = 0755 };

/* One that is there. */
struct shown {
	char target[BUILD_PATH_MAX]; /* is removed at the end */
	char secret[BUILD_PATH_MAX]; /* likewise; "" for none, or where target is the file */
	bool aside;		     /* what stood at the target waits beside it */
	struct cache_mount *cache;   /* owned: what to keep its content in; or NULL */
	char cache_id[BUILD_PATH_MAX];
};

struct mounts {
	struct stage *stage;
	struct machine *machine;
	struct shown items[MOUNTS_MAX];
	size_t count;
};

/* --- reading --- */

/* The next --mount from *at on: 1, or 0 for none. */
static int next_mount(struct stage *s, const struct dockerfile_step *step, size_t *at,
	struct mount *ret, struct error *e)
{
	while (*at < step->flag_count) {
		const struct dockerfile_flag *f = &step->flags[(*at)++];
		_cleanup_free_ char *text = NULL;
		int r;

		if (strcmp(f->name, "mount") != 0)
			continue;
		r = stage_expand(s, f->value, &text, e);
		if (r == 0)
			r = mount_parse(text, ret, e);
		return r < 0 ? r : 1;
	}
	return 0;
}

static int resolve(
	const struct stage *s, const char *path, char out[BUILD_PATH_MAX], struct error *e)
{
	return path_resolve(s->state.workdir, path, out)
		       ? 0
		       : error_set(e, ERROR_LIMIT, ENAMETOOLONG, "--mount: the target is too long");
}

/* --- in the guest --- */

static int ignore_output(void *opaque, const void *data, size_t n)
{
	return 0;
}

static int make_link(struct machine *m, const char *target, const char *path, struct error *e)
{
	const char *argv[] = {"ln", "-s", "--", target, path};
	const struct agent_exec x = {.user = "root",
		.cwd = "/",
		.tag = "",
		.argv = {.array = argv, .count = ARRAY_SIZE(argv)}};
	int status = 0, r = machine_run(m, &x, LINK_S, ignore_output, NULL, &status, e);

	if (r < 0)
		error_prefix(e, "a secret outside /run needs the program ln in the image");
	else if (status)
		r = error_set(e, ERROR_SANDBOX, EIO, "cannot make the link %.200s", path);
	return r;
}

static int make_dir(struct machine *m, const char *path, uint32_t mode, struct error *e)
{
	const struct agent_mkdir q = {
		.flags = AGENT_MKDIR_PARENTS, .mode = mode, .user = "root", .path = path};
	struct agent_event ev;
	struct error why = {0};
	int r = machine_call(m, AGENT_MKDIR, &q, AGENT_ENTRY, &ev, &why);

	return r == 0 || why.code == ERROR_EXISTS
		       ? 0
		       : error_set(e, why.code, why.err, "%s", why.message);
}

static int set_owner(
	struct machine *m, const char *path, const struct mount *x, uint32_t mode, struct error *e)
{
	char owner[OWNER_BYTES];
	const struct agent_set_attr q = {.flags = AGENT_SET_OWNER | AGENT_SET_MODE,
		.mode = x->has_mode ? x->mode : mode,
		.owner = owner,
		.user = "root",
		.path = path};
	struct agent_event ev;

	(void)snprintf(owner, sizeof(owner), "%" PRIu32 ":%" PRIu32, x->uid, x->gid); /* fits */
	return machine_call(m, AGENT_SET_ATTR, &q, AGENT_ENTRY, &ev, e);
}

static int remove_path(struct machine *m, const char *path, struct error *e)
{
	const struct agent_remove q = {
		.flags = AGENT_REMOVE_RECURSIVE, .user = "root", .path = path};
	struct agent_event ev;

	return machine_call(m, AGENT_REMOVE, &q, AGENT_OK, &ev, e);
}

static int aside_path(const char *target, char out[BUILD_PATH_MAX], struct error *e)
{
	return snprintf(out, BUILD_PATH_MAX, "%s" ASIDE, target) >= BUILD_PATH_MAX
		       ? error_set(e, ERROR_LIMIT, ENAMETOOLONG, "--mount: the target is too long")
		       : 0;
}

static int move(struct machine *m, const char *from, const char *to, struct error *e)
{
	const struct agent_move q = {.user = "root", .from = from, .to = to};
	struct agent_event ev;

	return machine_call(m, AGENT_MOVE, &q, AGENT_ENTRY, &ev, e);
}

/* Makes room at the target: moves aside what is there. */
static int begin_shown(struct mounts *x, const char *target, struct shown **ret, struct error *e)
{
	struct shown *s = &x->items[x->count];
	char aside[BUILD_PATH_MAX];
	const struct agent_stat q = {.user = "root", .path = target};
	struct agent_event ev;
	struct error why = {0};
	int r = aside_path(target, aside, e);

	if (r < 0)
		return r;
	if (strcmp(target, "/") == 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--mount: the target is the whole image");
	*s = (struct shown){.aside = false};
	r = machine_call(x->machine, AGENT_STAT, &q, AGENT_ENTRY, &ev, &why);
	if (r < 0 && why.code != ERROR_NOT_FOUND)
		return error_set(e, why.code, why.err, "%s", why.message);
	if (r == 0) {
		r = move(x->machine, target, aside, e);
		if (r < 0) {
			error_prefix(e, "--mount: cannot move %.200s aside", target);
			return r;
		}
		s->aside = true;
	}
	(void)snprintf(s->target, sizeof(s->target), "%s", target); /* fits */
	x->count++;
	*ret = s;
	return 0;
}

/* --- secrets --- */

static int write_secret(struct mounts *x, const struct mount *m, const struct build_secret *secret,
	const char *path, struct error *e)
{
	int r = machine_write(x->machine, path, SECRET_MODE, false, secret->data, secret->bytes, e);

	return r < 0 ? r : set_owner(x->machine, path, m, SECRET_MODE, e);
}

/* The file is in memory in any case. */
static int show_secret_file(
	struct mounts *x, const struct mount *m, const struct build_secret *secret, struct error *e)
{
	char target[BUILD_PATH_MAX], parent[BUILD_PATH_MAX];
	struct shown *s;
	char *slash;
	int r;

	if (*m->target)
		r = resolve(x->stage, m->target, target, e);
	else
		r = snprintf(target, sizeof(target), SECRETS_DIR "/%s", m->id) < BUILD_PATH_MAX
			    ? 0
			    : -ENAMETOOLONG; /* never: both are short */
	if (r == 0)
		r = begin_shown(x, target, &s, e);
	if (r < 0 || str_starts_with(target, "/run/"))
		return r < 0 ? r : write_secret(x, m, secret, target, e);
	(void)snprintf(s->secret, sizeof(s->secret), "/run/mayfly-secret-%zu", x->count);
	(void)snprintf(parent, sizeof(parent), "%s", target); /* these fit */
	slash = strrchr(parent, '/');
	*slash = '\0';
	r = write_secret(x, m, secret, s->secret, e);
	if (r == 0 && *parent)
		r = make_dir(x->machine, parent, 0755, e);
	return r < 0 ? r : make_link(x->machine, s->secret, target, e);
}

static int show_secret(struct mounts *x, const struct mount *m, struct vars *env, struct error *e)
{
	const char *last = strrchr(m->target, '/');
	const char *id = *m->id ? m->id : last ? last + 1 : m->target;
	const struct build_secret *secret = build_secrets_find(x->stage->secrets, id);

	if (!secret && m->required)
		return error_set(e, ERROR_USAGE, ENOENT,
			"the secret '%.60s' is required: give it with --secret id=%.60s,src=FILE",
			id, id);
	if (!secret)
		return 0;
	x->stage->saw_secret = true;
	if (*m->env && stage_of_vars(vars_set(env, m->env, secret->data), e) < 0)
		return -ENOMEM;
	return *m->env && !*m->target ? 0 : show_secret_file(x, m, secret, e);
}

/* --- files --- */

static int copy_in(struct mounts *x, const struct mount *m, const char *target, struct error *e)
{
	struct copy c = {.machine = x->machine, .workdir = "/"};
	int r = x->stage->ops.files(x->stage->ops.opaque, m->from, &c.from, e);

	return r < 0 ? r : copy_files(&c, *m->source ? m->source : "/", false, target, e);
}

static struct cache_mount *find_cache(const struct mounts *x, const char *id)
{
	for (size_t i = 0; i < x->count; i++)
		if (x->items[i].cache && strcmp(x->items[i].cache_id, id) == 0)
			return x->items[i].cache;
	return NULL;
}

static int copy_cache(struct mounts *x, const struct mount *m, struct cache_mount *cache,
	const char *target, struct error *e)
{
	struct copy c = {.machine = x->machine, .workdir = "/", .from = cache_mount_files(cache)};

	if (c.from)
		return copy_files(&c, "/", false, target, e);
	return *m->from ? copy_in(x, m, target, e) : 0;
}

/* A step opens a cache only once, or it would wait for itself. The content of its first mount is
 * kept. */
static int fill_cache(struct mounts *x, const struct mount *m, struct shown *s, struct error *e)
{
	const char *id = *m->id ? m->id : s->target;
	struct cache_mount *cache = find_cache(x, id);
	int r;

	if (cache)
		return copy_cache(x, m, cache, s->target, e);
	r = cache_mount_open(
		x->stage->caches->home, x->stage->caches->scope, id, m->sharing, &cache, e);
	if (r < 0)
		return r;
	r = copy_cache(x, m, cache, s->target, e);
	if (r < 0 || m->read_only) {
		cache_mount_close(cache);
	} else {
		s->cache = cache;
		(void)snprintf(s->cache_id, sizeof(s->cache_id), "%s", id); /* fits */
	}
	return r;
}

/* A failure to keep a cache does not fail the step; the next step finds it empty or old. */
static void keep_cache(struct mounts *x, struct shown *s)
{
	const struct stage_caches *kept = x->stage->caches;
	struct files_machine own;
	struct error why = {0};
	_cleanup_free_ char *text = NULL;

	if (!s->cache)
		return;
	files_machine_init(&own, x->machine);
	if (cache_mount_keep(s->cache, &own.files, s->target + 1, kept->budget, &why) < 0)
		text = str_printf("the cache at %s is not kept: %s", s->target, why.message);
	if (text)
		x->stage->ops.note(x->stage->ops.opaque, x->stage->line, text);
	cache_mount_close(TAKE_PTR(s->cache));
	(void)cache_mounts_trim(kept->home, CACHE_MOUNTS_BYTES_MAX); /* the next one tries */
}

static int show_files(struct mounts *x, const struct mount *m, struct error *e)
{
	bool kept = m->type == MOUNT_CACHE && x->stage->caches;
	bool copied = !kept && (m->type == MOUNT_BIND || *m->from);
	char target[BUILD_PATH_MAX];
	struct shown *s;
	int r = resolve(x->stage, m->target, target, e);

	if (r == 0)
		r = begin_shown(x, target, &s, e);
	if (r == 0 && kept)
		r = fill_cache(x, m, s, e);
	if (r == 0 && copied)
		r = copy_in(x, m, target, e);
	if (r == 0 && m->type != MOUNT_BIND)
		r = make_dir(x->machine, target, CACHE_MODE, e);
	if (r == 0 && m->type == MOUNT_CACHE)
		r = set_owner(x->machine, target, m, CACHE_MODE, e);
	return r;
}

static int show(struct mounts *x, const struct mount *m, struct vars *env, struct error *e)
{
	switch (m->type) {
	case MOUNT_SECRET:
		return show_secret(x, m, env, e);
	case MOUNT_SSH:
		return m->required ? error_set(e, ERROR_USAGE, ENOTSUP,
					     "--mount=type=ssh is not supported: use a secret")
				   : 0;
	default:
		return show_files(x, m, e);
	}
}

int mounts_begin(struct stage *s, const struct dockerfile_step *step, struct machine *m,
	struct vars *env, struct mounts **ret, struct error *e)
{
	struct mounts *x = calloc(1, sizeof(*x));
	struct mount one;
	size_t at = 0;
	int r;

	if (!x)
		return stage_no_memory(e);
	s->line = step->line;
	x->stage = s;
	x->machine = m;
	while ((r = next_mount(s, step, &at, &one, e)) > 0) {
		r = show(x, &one, env, e);
		if (r < 0)
			break;
	}
	if (r < 0) {
		(void)mounts_end(x, NULL); /* the step fails in any case */
		return r;
	}
	*ret = x;
	return 0;
}

static int end_shown(struct mounts *x, struct shown *s, struct error *e)
{
	char aside[BUILD_PATH_MAX];
	int r, other;

	keep_cache(x, s);
	r = *s->secret ? remove_path(x->machine, s->secret, e) : 0;
	other = remove_path(x->machine, s->target, r < 0 ? NULL : e);
	r = r < 0 ? r : other;
	if (s->aside && r == 0)
		r = aside_path(s->target, aside, e);
	return s->aside && r == 0 ? move(x->machine, aside, s->target, e) : r;
}

int mounts_end(struct mounts *x, struct error *e)
{
	int r = 0;

	while (x && x->count) {
		int one = end_shown(x, &x->items[--x->count], r < 0 ? NULL : e);

		r = r < 0 ? r : one;
	}
	free(x);
	return r;
}

/* --- the digest --- */

static int add_source(struct stage *s, const struct mount *m, struct step_key *k, struct error *e)
{
	struct copy c = {.workdir = "/"};
	char source[STEP_KEY_BYTES];
	int r;

	if (*m->from) {
		r = s->ops.source_key(s->ops.opaque, m->from, source, e);
		if (r == 0)
			step_key_text(k, source);
		return r;
	}
	r = s->ops.files(s->ops.opaque, "", &c.from, e);
	return r < 0 ? r : copy_key(&c, *m->source ? m->source : "/", k, e);
}

int mounts_key(
	struct stage *s, const struct dockerfile_step *step, struct step_key *k, struct error *e)
{
	struct mount m;
	size_t at = 0;
	int r;

	while ((r = next_mount(s, step, &at, &m, e)) > 0) {
		if (m.type == MOUNT_CACHE)
			step_key_text(k, s->caches ? "caches" : "no caches");
		if (m.type == MOUNT_CACHE && s->caches && *s->caches->scope)
			step_key_text(k, s->caches->scope);
		if (m.type == MOUNT_BIND || *m.from)
			r = add_source(s, &m, k, e);
		if (r < 0)
			break;
	}
	return r;
}
