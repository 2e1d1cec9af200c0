#include "oci/merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "oci/merge_internal.h"

#define WHITEOUT                                                                                   \
	"."                                                                                        \
	"wh."

static const char opaque[] = WHITEOUT WHITEOUT ".opq";

const struct oci_merge_limits oci_merge_limits = {
	.entries = 4 << 20,
	.bytes = UINT64_C(64) << 30,
	.nodes = 2 << 20,
	.memory = UINT64_C(1) << 30,
	.steps = UINT64_C(1) << 28,
};

/* --- errors --- */

static const char *reason(int r)
{
	switch (r) {
	case -ENOTDIR:
		return "leads through something that is not a directory";
	case -ELOOP:
		return "leads through too many links";
	case -ENAMETOOLONG:
		return "has a path that is too long";
	case -ENOENT:
		return "is a link to something that is not there";
	case -EISDIR:
		return "is a link to a directory";
	case -EMLINK:
		return "is one link too many to a file";
	case -EPERM:
		return "would take the place of the root";
	default:
		return "removes its own directory";
	}
}

static int fail(const struct oci_merge *m, struct error *e, int r, const char *path)
{
	if (r == -ENOMEM)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (r == -E2BIG)
		return error_set(e, ERROR_LIMIT, E2BIG,
			"layer %u makes too much of the image, at /%.200s: at most %llu entries of "
			"%llu GiB in all layers, %llu names at a time",
			m->layers, path, (unsigned long long)m->limits.entries,
			(unsigned long long)m->limits.bytes >> 30,
			(unsigned long long)m->limits.nodes);
	return error_set(e, ERROR_BAD_IMAGE, -r, "layer %u: the entry /%.200s %s", m->layers, path,
		reason(r));
}

/* --- one entry --- */

static bool is_directory(const struct merge_node *node)
{
	return S_ISDIR(node->file->mode);
}

/* Removes a name's node, or the part of it that lower layers brought. */
static int white_out_name(struct oci_merge *m, struct merge_node *dir, const char *name)
{
	struct merge_node *node = merge_find(dir, name, strlen(name));

	if (node)
		merge_clear(m, node);
	if (node && node->layer < m->layers && !node->first)
		merge_remove(m, node);
	return 0;
}

/* name: the last one of the path. */
static int white_out(struct oci_merge *m, const char *path, const char *name)
{
	const char *removed = name + strlen(WHITEOUT);
	struct merge_node *dir;
	int r;

	if (!*removed || strcmp(removed, ".") == 0 || strcmp(removed, "..") == 0)
		return -EINVAL;
	if (str_starts_with(removed, WHITEOUT) && strcmp(name, opaque) != 0)
		return 0; /* AUFS's */
	r = merge_walk(m, path, NULL, &dir, &name);
	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? 0 : r;
	if (strcmp(name, opaque) != 0)
		return white_out_name(m, dir, removed);
	merge_clear(m, dir);
	return 0;
}

/* Puts a file at a place, and removes what was there. */
static int place(
	struct oci_merge *m, struct merge_node *dir, const char *name, struct merge_file *f)
{
	struct merge_node *old = merge_find(dir, name, strlen(name)), *made;

	f->name_count++; /* its only name may be in the tree that is removed */
	if (old)
		merge_remove(m, old);
	f->name_count--;
	return merge_attach(m, dir, name, strlen(name), f, &made);
}

static int find_target(struct oci_merge *m, const char *path, struct merge_node **ret)
{
	struct merge_node *dir;
	const char *name;
	int r = merge_walk(m, path, NULL, &dir, &name);

	if (r < 0)
		return r;
	*ret = merge_find(dir, name, strlen(name));
	if (!*ret)
		return -ENOENT;
	return is_directory(*ret) ? -EISDIR : 0;
}

enum { NAMES_MAX = 60000 }; /* of a file; ext4 has 65,000 */

static int add_link(struct oci_merge *m, struct merge_node *dir, const char *name, const char *to)
{
	struct merge_node *target = NULL, *old;
	struct merge_file *f;
	int r = find_target(m, to, &target);

	if (r < 0)
		return r;
	old = merge_find(dir, name, strlen(name));
	if (old && old->file == target->file) {
		old->layer = m->layers;
		return 0;
	}
	f = target->file;
	if (f->name_count >= NAMES_MAX)
		return -EMLINK;
	r = place(m, dir, name, f);
	if (r < 0)
		merge_file_drop(m, f);
	return r;
}

static int add_directory(
	struct oci_merge *m, struct merge_node *dir, const char *name, const struct tree_entry *t)
{
	struct merge_node *old = *name ? merge_find(dir, name, strlen(name)) : m->root;
	struct merge_file *f = NULL;
	int r;

	if (old && is_directory(old)) {
		old->layer = m->layers;
		return merge_set_directory(m, old->file, t);
	}
	r = merge_file_new(m, t, &f);
	if (r == 0)
		r = place(m, dir, name, f);
	if (r < 0 && f)
		merge_file_drop(m, f);
	return r;
}

static int add_file(
	struct oci_merge *m, struct merge_node *dir, const char *name, const struct tree_entry *t)
{
	struct merge_file *f = NULL;
	int r = merge_file_new(m, t, &f);

	if (r < 0)
		return r;
	m->files[f->entry] = f;
	r = place(m, dir, name, f);
	if (r < 0)
		merge_file_drop(m, f);
	return r;
}

static int add_entry(struct oci_merge *m, const struct tree_entry *t)
{
	const char *name = strrchr(t->path, '/');
	struct merge_node *dir;
	int r;

	name = name ? name + 1 : t->path;
	if (str_starts_with(name, WHITEOUT))
		return white_out(m, t->path, name);
	if (!t->hardlink && (S_ISCHR(t->mode) || S_ISBLK(t->mode))) {
		m->devices++;
		return 0;
	}
	r = merge_walk(m, t->path, t, &dir, &name);
	if (r < 0)
		return r;
	if (t->hardlink)
		return *name ? add_link(m, dir, name, t->hardlink) : -EPERM;
	if (S_ISDIR(t->mode))
		return add_directory(m, dir, name, t);
	return *name ? add_file(m, dir, name, t) : -EPERM;
}

/* Makes room for one more entry. */
static int grow(struct oci_merge *m)
{
	uint64_t capacity = m->capacity ? 2 * m->capacity : 4096;
	struct merge_file **files;

	if (m->entries < m->capacity)
		return 0;
	files = reallocarray(m->files, capacity, sizeof(struct merge_file *));
	if (!files)
		return -ENOMEM;
	memset(files + m->capacity, 0, (capacity - m->capacity) * sizeof(struct merge_file *));
	m->files = files;
	m->capacity = capacity;
	return 0;
}

static int count(struct oci_merge *m, const struct tree_entry *t)
{
	uint64_t size = S_ISREG(t->mode) && !t->hardlink ? t->size : 0;

	if (m->entries == m->limits.entries || size > m->limits.bytes - m->bytes)
		return -E2BIG;
	m->bytes += size;
	return grow(m);
}

static int take(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	struct oci_merge *m = (struct oci_merge *)(void *)s; /* its first member */
	int r = count(m, t);

	if (r == 0)
		r = add_entry(m, t);
	m->entries++;
	return r < 0 ? fail(m, e, r, t->path) : 0;
}

/* --- the whole --- */

struct oci_merge *oci_merge_new(const struct oci_merge_limits *limits)
{
	static const struct tree_sink_ops ops = {.add = take};
	static const struct tree_entry root = {.mode = S_IFDIR | 0755};
	_cleanup_(cleanup_free_p) struct merge_file *f = NULL;
	struct oci_merge *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->sink.ops = &ops;
	m->limits = *limits;
	if (merge_file_new(m, &root, &f) < 0 || merge_attach(m, NULL, "", 0, f, &m->root) < 0) {
		free(m);
		return NULL;
	}
	f = NULL; /* the root's */
	return m;
}

void oci_merge_free(struct oci_merge *m)
{
	if (!m)
		return;
	merge_remove(m, m->root);
	free(m->files);
	free(m);
}

int oci_merge_next(struct oci_merge *m, struct tree_sink **ret, struct error *e)
{
	if (m->layers == OCI_LAYERS_MAX)
		return error_set(
			e, ERROR_LIMIT, E2BIG, "the image has more than %d layers", OCI_LAYERS_MAX);
	m->first_entry[m->layers++] = m->entries;
	*ret = &m->sink;
	return 0;
}

int oci_merge_make_directory(struct oci_merge *m, const char *path, int64_t mtime, struct error *e)
{
	const struct tree_entry like = {.mtime = mtime};
	char below[TREE_PATH_MAX + 2];
	struct merge_node *dir;
	const char *name;
	int r;

	if (strlen(path) >= TREE_PATH_MAX)
		return fail(m, e, -ENAMETOOLONG, path);
	(void)snprintf(below, sizeof(below), "%s/.", path); /* fits */
	r = merge_walk(m, below, &like, &dir, &name);
	return r < 0 ? fail(m, e, r, path) : 0;
}

struct oci_merge_counts oci_merge_count(const struct oci_merge *m)
{
	struct oci_merge_counts c = {
		.entries = m->nodes, .read = m->entries, .devices = m->devices};

	for (uint64_t i = 0; i < m->entries; i++)
		if (m->files[i])
			c.bytes += m->files[i]->size;
	return c;
}
