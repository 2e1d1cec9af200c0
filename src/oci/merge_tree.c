/* The tree itself: nodes by name, files by node. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "oci/merge_internal.h"

/* About the bytes of a node of tsearch(3). */
enum { TSEARCH_BYTES = 4 * sizeof(void *) };

static int by_name(const void *a, const void *b)
{
	const struct merge_node *x = a, *y = b;
	uint32_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
	int r = memcmp(x->name, y->name, n);

	return r ? r : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

struct merge_node *merge_find(const struct merge_node *parent, const char *name, size_t n)
{
	const struct merge_node key = {.name = name, .name_len = (uint32_t)n};
	void *const *found = tfind(&key, &parent->by_name, by_name);

	return found ? *found : NULL;
}

/* --- files --- */

static int charge(struct oci_merge *m, size_t n)
{
	if (n > m->limits.memory - m->memory)
		return -E2BIG;
	m->memory += n;
	return 0;
}

bool merge_keeps_xattr(const char *name)
{
	return strcmp(name, "security.capability") == 0 || str_starts_with(name, "user.") ||
	       str_starts_with(name, "system.posix_acl_");
}

/* Copies the attributes that stay into one block: the items, then names and values. */
static int copy_xattrs(struct oci_merge *m, const struct tree_entry *t, struct merge_file *f)
{
	struct tree_xattr kept[TREE_XATTRS_MAX], *block;
	size_t count = 0, bytes;
	char *at;

	for (size_t i = 0; i < t->xattr_count; i++)
		if (merge_keeps_xattr(t->xattrs[i].name))
			kept[count++] = t->xattrs[i];
	bytes = count * sizeof(*block);
	for (size_t i = 0; i < count; i++)
		bytes += strlen(kept[i].name) + 1 + kept[i].size;
	if (count == 0)
		return 0;
	block = charge(m, bytes) < 0 ? NULL : malloc(bytes);
	if (!block)
		return -ENOMEM;
	at = (char *)(block + count);
	for (size_t i = 0; i < count; i++) {
		block[i] = (struct tree_xattr){.name = at, .size = kept[i].size};
		at = stpcpy(at, kept[i].name) + 1;
		block[i].value = at;
		if (kept[i].size)
			memcpy(at, kept[i].value, kept[i].size);
		at += kept[i].size;
	}
	f->xattrs = block;
	f->xattr_count = count;
	f->xattr_bytes = bytes;
	return 0;
}

int merge_set_directory(struct oci_merge *m, struct merge_file *f, const struct tree_entry *t)
{
	free(f->xattrs);
	m->memory -= f->xattr_bytes;
	f->xattrs = NULL;
	f->xattr_count = f->xattr_bytes = 0;
	f->mode = t->mode;
	f->uid = t->uid;
	f->gid = t->gid;
	f->mtime = t->mtime;
	return copy_xattrs(m, t, f);
}

static void file_free(struct merge_file *f)
{
	free(f->symlink);
	free(f->xattrs);
	free(f);
}

int merge_file_new(struct oci_merge *m, const struct tree_entry *t, struct merge_file **ret)
{
	size_t link = t->symlink ? strlen(t->symlink) + 1 : 0;
	struct merge_file *f;
	int r = charge(m, sizeof(*f) + link);

	if (r < 0)
		return r;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->mode = t->mode;
	f->size = S_ISREG(t->mode) ? t->size : 0;
	f->entry = m->entries;
	if (link)
		f->symlink = strdup(t->symlink);
	r = link && !f->symlink ? -ENOMEM : 0;
	if (r == 0 && S_ISDIR(t->mode))
		r = merge_set_directory(m, f, t);
	if (r < 0) {
		file_free(f);
		return r;
	}
	*ret = f;
	return 0;
}

void merge_file_drop(struct oci_merge *m, struct merge_file *f)
{
	if (f->name_count)
		return;
	if (f->entry < m->capacity && m->files[f->entry] == f)
		m->files[f->entry] = NULL;
	m->memory -= sizeof(*f) + f->xattr_bytes + (f->symlink ? strlen(f->symlink) + 1 : 0);
	file_free(f);
}

/* --- nodes --- */

static void add_child(struct merge_node *parent, struct merge_node *node)
{
	node->parent = parent;
	node->next = parent->first;
	if (node->next)
		node->next->previous = node;
	parent->first = node;
}

static void add_name(struct merge_file *file, struct merge_node *node)
{
	node->file = file;
	node->next_name = file->names;
	if (node->next_name)
		node->next_name->previous_name = node;
	file->names = node;
	file->name_count++;
}

int merge_attach(struct oci_merge *m, struct merge_node *parent, const char *name, size_t n,
	struct merge_file *file, struct merge_node **ret)
{
	size_t path_len = parent ? parent->path_len + (parent->path_len > 0) + n : 0;
	size_t bytes = sizeof(struct merge_node) + n + 1;
	struct merge_node *node;
	int r = path_len < TREE_PATH_MAX ? 0 : -ENAMETOOLONG;

	if (r == 0)
		r = m->nodes < m->limits.nodes ? charge(m, bytes + TSEARCH_BYTES) : -E2BIG;
	if (r < 0)
		return r;
	node = calloc(1, bytes);
	if (!node)
		return -ENOMEM;
	memcpy(node + 1, name, n);
	node->name = (const char *)(node + 1);
	node->name_len = (uint32_t)n;
	node->layer = m->layers;
	node->path_len = (uint32_t)path_len;
	if (parent && !tsearch(node, &parent->by_name, by_name)) {
		free(node);
		return -ENOMEM;
	}
	if (parent)
		add_child(parent, node);
	add_name(file, node);
	m->nodes++;
	*ret = node;
	return 0;
}

static void unlink_name(struct merge_node *node)
{
	if (node->previous_name)
		node->previous_name->next_name = node->next_name;
	else
		node->file->names = node->next_name;
	if (node->next_name)
		node->next_name->previous_name = node->previous_name;
	node->file->name_count--;
}

static void unlink_child(struct merge_node *node)
{
	struct merge_node *parent = node->parent;

	if (!parent)
		return;
	(void)tdelete(node, &parent->by_name, by_name); /* it is there */
	if (node->previous)
		node->previous->next = node->next;
	else
		parent->first = node->next;
	if (node->next)
		node->next->previous = node->previous;
}

/* Removes a node that has no children. */
static void detach(struct oci_merge *m, struct merge_node *node)
{
	unlink_child(node);
	unlink_name(node);
	m->nodes--;
	m->memory -= sizeof(*node) + node->name_len + 1 + TSEARCH_BYTES;
	merge_file_drop(m, node->file);
	free(node);
}

/* Not by recursion: the depth is bounded, but by thousands. */
void merge_remove(struct oci_merge *m, struct merge_node *node)
{
	struct merge_node *at = node;

	for (;;) {
		struct merge_node *parent = at->parent;

		if (at->first) {
			at = at->first;
			continue;
		}
		detach(m, at);
		if (at == node)
			return;
		at = parent;
	}
}

/* Returns the next node after `at` and everything below `at`, inside `top`; NULL at the end. On the
 * way up, removes directories of lower layers that have become empty. */
static struct merge_node *leave(
	struct oci_merge *m, struct merge_node *at, const struct merge_node *top)
{
	while (at != top) {
		struct merge_node *next = at->next, *parent = at->parent;

		at->cleared = m->layers;
		if (at->layer < m->layers && !at->first)
			detach(m, at);
		if (next)
			return next;
		at = parent;
	}
	return NULL;
}

void merge_clear(struct oci_merge *m, struct merge_node *node)
{
	struct merge_node *at = node->cleared == m->layers ? NULL : node->first;

	node->cleared = m->layers;
	while (at)
		at = at->first && at->cleared != m->layers ? at->first : leave(m, at, node);
}

void merge_path(const struct merge_node *node, char out[TREE_PATH_MAX])
{
	size_t at = node->path_len; /* below TREE_PATH_MAX: merge_attach */

	out[at] = '\0';
	for (; node->parent; node = node->parent) {
		size_t n = node->name_len;

		at -= n;
		memcpy(out + at, node->name, n);
		if (at > 0)
			out[--at] = '/';
	}
}
