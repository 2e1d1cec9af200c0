#include "build/copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "build/copy_archive.h"
#include "dockerfile/path.h"
#include "dockerfile/pattern.h"

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

/* A folder that was not there: the owner's. */
static int make_folder(const struct copy *c, const char *path, struct error *e)
{
	const struct agent_set_attr q = {
		.flags = AGENT_SET_OWNER, .owner = c->owner, .user = "root", .path = path};
	struct agent_event ev;
	uint32_t type;
	int r = copy_type_in_guest(c, path, true, &type, e);

	if (r < 0 || type)
		return r;
	r = copy_put_folder(c, path, NULL, e);
	return r < 0 ? r : machine_call(c->machine, AGENT_SET_ATTR, &q, AGENT_ENTRY, &ev, e);
}

/* Makes all folders of the first n bytes of a path. Without an owner this is not needed: the agent
 * makes missing folders, owned by root. */
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

static int put(const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	switch (f->mode & S_IFMT) {
	case S_IFREG:
		return copy_put_file(c, path, f, e);
	case S_IFDIR:
		return copy_put_folder(c, path, f, e);
	case S_IFLNK:
		return copy_put_link(c, path, f, e);
	default:
		return error_set(e, ERROR_USAGE, EINVAL,
			"%.200s is neither a file, a folder nor a link", f->path);
	}
}

/* --- lists of files --- */

struct list {
	struct files_entry *items; /* with strings that are owned */
	size_t count;
	const char *pattern;	      /* NULL: all */
	const struct ignore *exclude; /* or NULL */
	size_t skip;		      /* of paths, for `exclude` */
};

static int keep(void *opaque, const struct files_entry *f, struct error *e)
{
	struct list *l = opaque;
	struct files_entry copy = *f, *more;

	if (l->pattern && !pattern_match(l->pattern, f->path))
		return 0;
	if (l->exclude &&
		ignore_excludes(l->exclude, l->pattern ? last_part(f->path) : f->path + l->skip))
		return 0;
	more = array_grow(l->items, l->count, sizeof(*more));
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

/* Finds what one source names. A pattern matches whole paths only, so what is below a matching
 * folder is not found again. */
static int find(const struct copy *c, const char *source, struct list *l, struct error *e)
{
	char clean[BUILD_PATH_MAX], folder[BUILD_PATH_MAX];
	struct files_entry one;
	int r;

	if (!path_resolve("/", source, clean) || strlen(clean) > PATTERN_MAX)
		return too_long(source, e);
	l->exclude = c->exclude;
	if (pattern_is_plain(clean)) {
		r = c->from->stat(c->from, clean + 1, &one, e);
		if (r == 0 && S_ISDIR(one.mode))
			l->exclude = NULL; /* counts in it */
		l->skip = r == 0 ? (size_t)(last_part(one.path) - one.path) : 0;
		return r < 0 ? r : keep(l, &one, e);
	}
	plain_folder(clean + 1, folder);
	l->pattern = clean + 1;
	r = c->from->list(c->from, folder, keep, l, e);
	l->pattern = NULL;
	if (r == 0 && l->count == 0 && !c->exclude)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "no file fits %.200s", source);
	return r;
}

/* --- hard links: of a folder's files, as docker keeps them --- */

/* Compares places in a list: those of one file are neighbours, the first one first. */
static int by_inode(const void *a, const void *b)
{
	const struct files_entry *x = *(const struct files_entry *const *)a,
				 *y = *(const struct files_entry *const *)b;

	return x->inode != y->inode ? (x->inode < y->inode ? -1 : 1) : (x > y) - (x < y);
}

/* Returns for each entry of a list the first one that is the same file, which may be the entry
 * itself. malloc'ed; NULL when out of memory. */
static const struct files_entry **find_same(const struct list *l)
{
	const struct files_entry **first = calloc(l->count + 1, sizeof(*first)),
				 **sorted = calloc(l->count + 1, sizeof(*sorted));

	for (size_t i = 0; first && sorted && i < l->count; i++)
		sorted[i] = &l->items[i];
	if (first && sorted)
		qsort(sorted, l->count, sizeof(*sorted), by_inode);
	for (size_t i = 0, head = 0; first && sorted && i < l->count; i++) {
		if (!files_are_one(sorted[head], sorted[i]))
			head = i;
		first[sorted[i] - l->items] = sorted[head];
	}
	if (!sorted) {
		free(first);
		first = NULL;
	}
	free(sorted);
	return first;
}

/* A folder on its way. */
struct copied {
	struct list list;
	const struct files_entry **same; /* as find_same() returns them; owned */
	const char *to;
	size_t skip; /* bytes of paths */
	bool links;  /* hard links can be made there */
};

static int put_in_folder(const struct copy *c, struct copied *f, size_t i, struct error *e)
{
	const struct files_entry *x = &f->list.items[i], *same = f->same[i];
	char path[BUILD_PATH_MAX], other[BUILD_PATH_MAX];
	int r = join(f->to, x->path + f->skip, path, e);

	if (r == 0 && same != x && f->links) {
		r = join(f->to, same->path + f->skip, other, e);
		if (r == 0 && copy_put_hard_link(c, path, other, NULL) == 0)
			return 0;
		f->links = false; /* there is no ln, or another file system */
	}
	return r < 0 ? r : put(c, path, x, e);
}

/* --- copying --- */

static int set_folder_attributes(const struct copy *c, const struct copied *f, struct error *e)
{
	char path[BUILD_PATH_MAX];
	int r = 0;

	for (size_t i = f->list.count; i-- > 0 && r == 0;) {
		const struct files_entry *x = &f->list.items[i];

		if (!S_ISDIR(x->mode))
			continue;
		r = join(f->to, x->path + f->skip, path, e);
		if (r == 0)
			r = copy_set_attributes(c, path, x, e);
		if (r == 0)
			r = copy_set_xattrs(c, path, x, e);
	}
	return r;
}

/* A folder's content; then the folders' times, which copying has changed. */
static int copy_folder(
	const struct copy *c, const struct files_entry *folder, const char *to, struct error *e)
{
	struct copied f = {
		.to = to, .skip = *folder->path ? strlen(folder->path) + 1 : 0, .links = true};
	int r;

	f.list = (struct list){.exclude = c->exclude, .skip = f.skip};
	r = c->from->list(c->from, folder->path, keep, &f.list, e);
	f.same = find_same(&f.list);
	if (r == 0 && !f.same)
		r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r == 0)
		r = make_folders(c, to, strlen(to), e);
	if (r == 0)
		r = copy_put_folder(c, to, NULL, e);
	for (size_t i = 0; i < f.list.count && r == 0; i++)
		r = put_in_folder(c, &f, i, e);
	if (r == 0)
		r = set_folder_attributes(c, &f, e);
	free(f.same);
	list_done(&f.list);
	return r;
}

/* 1: it was one. */
static int unpack_archive(
	const struct copy *c, const struct files_entry *f, const char *to, struct error *e)
{
	uint8_t head[512];
	size_t n = 0;
	int r = c->from->read(c->from, f->path, 0, head, sizeof(head), &n, e);

	return r < 0 || !copy_is_archive(head, n) ? r : copy_archive(c, f, to, e);
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
	if (c->unpack && S_ISREG(real.mode)) {
		r = unpack_archive(c, &real, to, e);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	if (into)
		r = join(to, last_part(f->path), path, e);
	else
		(void)snprintf(path, sizeof(path), "%s", to); /* fits */
	if (r == 0)
		r = make_folders_above(c, path, e);
	return r < 0 ? r : put(c, path, &real, e);
}

static int key_of_links(const struct list *l, struct step_key *k, struct error *e)
{
	const struct files_entry **same = find_same(l);

	for (size_t i = 0; same && i < l->count; i++)
		if (same[i] != &l->items[i]) {
			step_key_number(k, i);
			step_key_number(k, (uint64_t)(same[i] - l->items));
		}
	if (!same)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	free(same);
	return 0;
}

/* Copies a file, or a folder's content. A link that a pattern matches counts as its target. */
static int key_of_entry(
	const struct copy *c, const struct files_entry *f, struct step_key *k, struct error *e)
{
	struct files_entry real = *f;
	struct list l = {.exclude = c->exclude};
	int r = S_ISLNK(f->mode) ? c->from->stat(c->from, f->path, &real, e) : 0;

	if (r < 0)
		return r;
	if (!S_ISDIR(real.mode))
		return step_key_file(k, c->from, &real, last_part(f->path), e);
	l.skip = *real.path ? strlen(real.path) + 1 : 0;
	r = c->from->list(c->from, real.path, keep, &l, e);
	for (size_t i = 0; i < l.count && r == 0; i++)
		r = step_key_file(k, c->from, &l.items[i], l.items[i].path + l.skip, e);
	step_key_number(k, l.count);
	if (r == 0)
		r = key_of_links(&l, k, e);
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
	r = copy_type_in_guest(c, to, true, &type, e);
	*ret_into = several || S_ISDIR(type) || str_ends_with(destination, "/") ||
		    strcmp(last_part(destination), ".") == 0;
	return r;
}

/* Returns how many leading folders --parents drops. A pattern has as many as the paths that match
 * it. */
static unsigned before_parents(const char *source)
{
	const char *pivot = strstr(source + (str_starts_with(source, "./") ? 1 : 0), "/./");
	char start[BUILD_PATH_MAX], clean[BUILD_PATH_MAX];
	unsigned n = 0;

	if (!pivot || snprintf(start, sizeof(start), "%.*s", (int)(pivot - source), source) >=
			      BUILD_PATH_MAX)
		return 0;
	if (!path_resolve("/", start, clean) || !clean[1])
		return 0;
	for (const char *p = clean; *p; p++)
		n += *p == '/';
	return n;
}

/* With the folders that lead to it; a file keeps its name. */
static int copy_parents(const struct copy *c, const struct files_entry *f, const char *to,
	unsigned skip, struct error *e)
{
	const char *kept = f->path;
	char path[BUILD_PATH_MAX];
	int r;

	for (; skip && *kept; skip--)
		kept += strcspn(kept, "/") + (strchr(kept, '/') != NULL);
	r = *kept ? join(to, kept, path, e) : !path_resolve("/", to, path);
	return r < 0 ? r : copy_entry(c, f, path, false, e);
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
		r = c->parents ? copy_parents(c, &l.items[k], to, before_parents(source), e)
			       : copy_entry(c, &l.items[k], to, into, e);
	list_done(&l);
	return r;
}

int copy_one(const struct copy *c, const struct files_entry *f, bool several,
	const char *destination, struct error *e)
{
	char to[BUILD_PATH_MAX];
	bool into;
	int r = resolve(c, destination, several, to, &into, e);

	return r < 0 ? r : copy_entry(c, f, to, into, e);
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
		r = copy_clear_place(c, path, e);
	if (r == 0)
		r = machine_write(c->machine, path, 0600, false, text, strlen(text), e);
	return r < 0 ? r : copy_set_attributes(c, path, &f, e);
}
