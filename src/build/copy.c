#include "build/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "build/path.h"
#include "build/pattern.h"

enum { LINK_S = 60 };

/* --- paths --- */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int too_long(const char *path, struct error *e)
{
	return error_set(e, ERROR_LIMIT, ENAMETOOLONG, "%.200s...: the path is too long", path);
}

static int join(const char *dir, const char *name, char out[BUILD_PATH_MAX], struct error *e)
{
	int n = snprintf(out, BUILD_PATH_MAX, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name);

	return n >= BUILD_PATH_MAX ? too_long(name, e) : 0;
}

/* --- one file in the guest --- */

/* The type of what is there: S_IFDIR, ...; 0: nothing. */
static int type_in_guest(
	const struct copy *c, const char *path, bool follow, uint32_t *ret, struct error *e)
{
	const struct agent_stat q = {
		.flags = follow ? AGENT_STAT_FOLLOW : 0, .user = "root", .path = path};
	struct agent_event ev;
	struct error why = {0};
	int r = machine_call(c->machine, AGENT_STAT, &q, AGENT_ENTRY, &ev, &why);

	*ret = r == 0 ? ev.entry.mode & S_IFMT : 0;
	if (r == 0 || why.code == ERROR_NOT_FOUND)
		return 0;
	if (e)
		*e = why;
	return r;
}

/* Makes room for something that is no folder. */
static int clear_place(const struct copy *c, const char *path, struct error *e)
{
	const struct agent_remove q = {.user = "root", .path = path};
	struct agent_event ev;
	uint32_t type;
	int r = type_in_guest(c, path, false, &type, e);

	if (r < 0 || type == 0)
		return r;
	if (S_ISDIR(type))
		return error_set(e, ERROR_EXISTS, EISDIR, "%.200s is a folder in the image", path);
	return machine_call(c->machine, AGENT_REMOVE, &q, AGENT_OK, &ev, e);
}

static int set_attributes(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	char owner[32];
	struct agent_set_attr q = {.flags = AGENT_SET_OWNER | AGENT_SET_MTIME,
		.mode = c->has_mode ? c->mode : f->mode & 07777,
		.mtime_ns = f->mtime_ns,
		.owner = c->owner ? c->owner : owner,
		.user = "root",
		.path = path};
	struct agent_event ev;

	(void)snprintf(owner, sizeof(owner), "%" PRIu32 ":%" PRIu32, f->uid, f->gid); /* fits */
	q.flags |= S_ISLNK(f->mode) ? AGENT_SET_NO_FOLLOW : AGENT_SET_MODE;
	return machine_call(c->machine, AGENT_SET_ATTR, &q, AGENT_ENTRY, &ev, e);
}

/* What docker's ADD would unpack. */
static bool is_archive(const uint8_t *p, size_t n)
{
	return (n > 2 && memcmp(p, "\x1f\x8b", 2) == 0) || (n > 3 && memcmp(p, "BZh", 3) == 0) ||
	       (n > 6 && memcmp(p,
				 "\xfd"
				 "7zXZ",
				 6) == 0) ||
	       (n > 4 && memcmp(p, "\x28\xb5\x2f\xfd", 4) == 0) ||
	       (n > 262 && memcmp(p + 257, "ustar", 5) == 0);
}

static int put_file(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	_cleanup_free_ uint8_t *chunk = malloc(MACHINE_CHUNK_BYTES);
	uint64_t offset = 0;
	size_t n = 0;
	int r = chunk ? clear_place(c, path, e)
		      : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	do {
		if (r == 0)
			r = c->from->read(
				c->from, f->path, offset, chunk, MACHINE_CHUNK_BYTES, &n, e);
		if (r == 0 && offset == 0 && c->no_archives && is_archive(chunk, n))
			return error_set(e, ERROR_USAGE, ENOTSUP,
				"%.200s: ADD does not unpack archives yet: COPY it and unpack it "
				"in a RUN",
				f->path);
		if (r == 0)
			r = machine_write(c->machine, path, 0600, offset > 0, chunk, n, e);
		offset += n;
	} while (r == 0 && n == MACHINE_CHUNK_BYTES);
	return r < 0 ? r : set_attributes(c, path, f, e);
}

static int put_folder(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	const struct agent_mkdir q = {
		.flags = AGENT_MKDIR_PARENTS, .mode = 0755, .user = "root", .path = path};
	struct agent_event ev;
	struct error why = {0};
	int r = machine_call(c->machine, AGENT_MKDIR, &q, AGENT_ENTRY, &ev, &why);

	if (r < 0 && why.code != ERROR_EXISTS) {
		if (e)
			*e = why;
		return r;
	}
	return f ? set_attributes(c, path, f, e) : 0;
}

/* A folder that was not there: the owner's. */
static int make_folder(const struct copy *c, const char *path, struct error *e)
{
	const struct agent_set_attr q = {
		.flags = AGENT_SET_OWNER, .owner = c->owner, .user = "root", .path = path};
	struct agent_event ev;
	uint32_t type;
	int r = type_in_guest(c, path, true, &type, e);

	if (r < 0 || type)
		return r;
	r = put_folder(c, path, NULL, e);
	return r < 0 ? r : machine_call(c->machine, AGENT_SET_ATTR, &q, AGENT_ENTRY, &ev, e);
}

/* All folders up to the n-th byte of a path. Without an owner they are root's, which the agent
 * makes along with what is in them. */
static int make_folders(const struct copy *c, const char *path, size_t n, struct error *e)
{
	char part[BUILD_PATH_MAX];
	int r = 0;

	for (size_t i = 1; c->owner && i <= n && r == 0; i++) {
		if (i < n && path[i] != '/')
			continue;
		(void)snprintf(part, sizeof(part), "%.*s", (int)i, path); /* fits */
		r = make_folder(c, part, e);
	}
	return r;
}

static int make_folders_above(const struct copy *c, const char *path, struct error *e)
{
	return make_folders(c, path, (size_t)(last_part(path) - path) - 1, e);
}

static int ignore_output(void *opaque, const void *data, size_t n)
{
	return 0;
}

/* The agent has no request for links: the image's own ln makes them. */
static int put_link(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	const char *argv[] = {"ln", "-s", "--", f->target, path};
	const struct agent_exec x = {.user = "root",
		.cwd = "/",
		.tag = "",
		.argv = {.array = argv, .count = ARRAY_SIZE(argv)}};
	int status = 0, r = clear_place(c, path, e);

	if (r == 0)
		r = machine_run(c->machine, &x, LINK_S, ignore_output, NULL, &status, e);
	if (r < 0)
		error_prefix(e, "the link %.200s needs an ln in the image", path);
	else if (status)
		return error_set(e, ERROR_SANDBOX, EIO,
			"cannot make the link %.200s: ln ended with status %d", path, status);
	return r < 0 ? r : set_attributes(c, path, f, e);
}

static int put(const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	switch (f->mode & S_IFMT) {
	case S_IFREG:
		return put_file(c, path, f, e);
	case S_IFDIR:
		return put_folder(c, path, f, e);
	case S_IFLNK:
		return put_link(c, path, f, e);
	default:
		return error_set(e, ERROR_USAGE, EINVAL,
			"%.200s is neither a file, a folder nor a link", f->path);
	}
}

/* --- lists of files --- */

struct list {
	struct files_entry *items; /* with strings that are owned */
	size_t count;
	const char *pattern; /* NULL: all */
};

static int keep(void *opaque, const struct files_entry *f, struct error *e)
{
	struct list *l = opaque;
	struct files_entry copy = *f, *more;

	if (l->pattern && !pattern_match(l->pattern, f->path))
		return 0;
	more = l->count & (l->count - 1)
		       ? l->items
		       : reallocarray(l->items, l->count ? 2 * l->count : 1, sizeof(*l->items));
	if (!more)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	l->items = more;
	copy.path = strdup(f->path);
	copy.target = strdup(f->target);
	l->items[l->count++] = copy;
	if (!copy.path || !copy.target)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	return 0;
}

static void list_done(struct list *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free((char *)(uintptr_t)l->items[i].path);
		free((char *)(uintptr_t)l->items[i].target);
	}
	free(l->items);
	*l = (struct list){.count = 0};
}

/* The folder in which a pattern begins to be one. */
static void plain_folder(const char *pattern, char out[BUILD_PATH_MAX])
{
	size_t n = strcspn(pattern, "*?[\\");

	while (n && pattern[n] != '/')
		n--;
	memcpy(out, pattern, n);
	out[n] = '\0';
}

/* Finds what one source names. Patterns only match names, so folders among them keep what is
 * below out. */
static int find(const struct copy *c, const char *source, struct list *l, struct error *e)
{
	char clean[BUILD_PATH_MAX], folder[BUILD_PATH_MAX];
	struct files_entry one;
	int r;

	if (!path_resolve("/", source, clean) || strlen(clean) > PATTERN_MAX)
		return too_long(source, e);
	if (pattern_is_plain(clean)) {
		r = c->from->stat(c->from, clean + 1, &one, e);
		return r < 0 ? r : keep(l, &one, e);
	}
	plain_folder(clean + 1, folder);
	l->pattern = clean + 1;
	r = c->from->list(c->from, folder, keep, l, e);
	l->pattern = NULL;
	if (r == 0 && l->count == 0)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "no file fits %.200s", source);
	return r;
}

/* --- copying --- */

/* A folder's content; then the folders' times, which copying has changed. */
static int copy_folder(
	const struct copy *c, const struct files_entry *folder, const char *to, struct error *e)
{
	size_t skip = *folder->path ? strlen(folder->path) + 1 : 0;
	char path[BUILD_PATH_MAX];
	struct list l = {.count = 0};
	int r = c->from->list(c->from, folder->path, keep, &l, e);

	if (r == 0)
		r = make_folders(c, to, strlen(to), e);
	if (r == 0)
		r = put_folder(c, to, NULL, e);
	for (size_t i = 0; i < l.count && r == 0; i++) {
		r = join(to, l.items[i].path + skip, path, e);
		if (r == 0)
			r = put(c, path, &l.items[i], e);
	}
	for (size_t i = l.count; i-- > 0 && r == 0;) {
		if (!S_ISDIR(l.items[i].mode))
			continue;
		r = join(to, l.items[i].path + skip, path, e);
		if (r == 0)
			r = set_attributes(c, path, &l.items[i], e);
	}
	list_done(&l);
	return r;
}

static int copy_entry(const struct copy *c, const struct files_entry *f, const char *to, bool into,
	struct error *e)
{
	struct files_entry real = *f;
	char path[BUILD_PATH_MAX];
	int r = 0;

	if (S_ISLNK(f->mode)) /* of a pattern: what it leads to */
		r = c->from->stat(c->from, f->path, &real, e);
	if (r < 0)
		return r;
	if (S_ISDIR(real.mode))
		return copy_folder(c, &real, to, e);
	if (into)
		r = join(to, last_part(f->path), path, e);
	else
		(void)snprintf(path, sizeof(path), "%s", to); /* fits */
	if (r == 0)
		r = make_folders_above(c, path, e);
	return r < 0 ? r : put(c, path, &real, e);
}

/* One file, or a folder's content. A link of a pattern counts as what it leads to. */
static int key_of_entry(
	const struct copy *c, const struct files_entry *f, struct step_key *k, struct error *e)
{
	struct files_entry real = *f;
	struct list l = {.count = 0};
	int r = S_ISLNK(f->mode) ? c->from->stat(c->from, f->path, &real, e) : 0;

	if (r < 0)
		return r;
	if (!S_ISDIR(real.mode))
		return step_key_file(k, c->from, &real, last_part(f->path), e);
	r = c->from->list(c->from, real.path, keep, &l, e);
	for (size_t i = 0; i < l.count && r == 0; i++)
		r = step_key_file(k, c->from, &l.items[i],
			l.items[i].path + (*real.path ? strlen(real.path) + 1 : 0), e);
	step_key_number(k, l.count);
	list_done(&l);
	return r;
}

int copy_key(const struct copy *c, const char *source, struct step_key *k, struct error *e)
{
	struct list l = {.count = 0};
	int r = find(c, source, &l, e);

	for (size_t i = 0; i < l.count && r == 0; i++)
		r = key_of_entry(c, &l.items[i], k, e);
	step_key_number(k, l.count);
	list_done(&l);
	return r;
}

/* Where to, and whether that is a folder to copy into. */
static int resolve(const struct copy *c, const char *destination, bool several,
	char to[BUILD_PATH_MAX], bool *ret_into, struct error *e)
{
	uint32_t type;
	int r;

	if (!path_resolve(c->workdir, destination, to))
		return too_long(destination, e);
	r = type_in_guest(c, to, true, &type, e);
	*ret_into = several || S_ISDIR(type) || str_ends_with(destination, "/") ||
		    strcmp(last_part(destination), ".") == 0;
	return r;
}

int copy_files(const struct copy *c, const char *source, bool several, const char *destination,
	struct error *e)
{
	char to[BUILD_PATH_MAX];
	struct list l = {.count = 0};
	bool into;
	int r = find(c, source, &l, e);

	if (r == 0)
		r = resolve(c, destination, several || l.count > 1, to, &into, e);
	for (size_t k = 0; k < l.count && r == 0; k++)
		r = copy_entry(c, &l.items[k], to, into, e);
	list_done(&l);
	return r;
}

int copy_text(const struct copy *c, const char *name, const char *text, bool several,
	const char *destination, struct error *e)
{
	const struct files_entry f = {.path = name,
		.mode = S_IFREG | 0644,
		.mtime_ns = (int64_t)clock_realtime_ns(),
		.target = ""};
	char to[BUILD_PATH_MAX], path[BUILD_PATH_MAX];
	bool into;
	int r = resolve(c, destination, several, to, &into, e);

	if (r == 0 && into)
		r = join(to, name, path, e);
	else
		(void)snprintf(path, sizeof(path), "%s", to); /* fits */
	if (r == 0)
		r = make_folders_above(c, path, e);
	if (r == 0)
		r = clear_place(c, path, e);
	if (r == 0)
		r = machine_write(c->machine, path, 0600, false, text, strlen(text), e);
	return r < 0 ? r : set_attributes(c, path, &f, e);
}
