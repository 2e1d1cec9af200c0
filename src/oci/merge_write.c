/* Writes the merged tree into an image. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "oci/merge_internal.h"

/* The next node in the order of a directory before its content. */
static const struct merge_node *next_node(const struct merge_node *node)
{
	if (node->first)
		return node->first;
	while (node && !node->next)
		node = node->parent;
	return node ? node->next : NULL;
}

static int write_directory(const struct merge_node *node, struct tree_sink *to, struct error *e)
{
	const struct merge_file *f = node->file;
	char path[TREE_PATH_MAX];
	struct tree_entry t = {.path = path,
		.mode = f->mode,
		.uid = f->uid,
		.gid = f->gid,
		.mtime = f->mtime,
		.xattrs = f->xattrs,
		.xattr_count = f->xattr_count};

	merge_path(node, path);
	return to->ops->add(to, &t, NULL, e);
}

int oci_merge_write_directories(struct oci_merge *m, struct tree_sink *to, struct error *e)
{
	int r = 0;

	for (const struct merge_node *n = m->root; n && r == 0; n = next_node(n))
		if (S_ISDIR(n->file->mode))
			r = write_directory(n, to, e);
	return r;
}

static uint64_t end_of(const struct oci_merge *m, size_t layer)
{
	return layer + 1 < m->layers ? m->first_entry[layer + 1] : m->entries;
}

bool oci_merge_needs(const struct oci_merge *m, size_t layer)
{
	uint64_t end = end_of(m, layer);

	for (uint64_t i = m->first_entry[layer]; i < end; i++)
		if (m->files[i])
			return true;
	return false;
}

static int changed(struct error *e, const char *path)
{
	return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
		"a layer of the image changed while it was read, at /%.200s: try again", path);
}

static int write_links(
	const struct merge_file *f, const char *first, struct tree_sink *to, struct error *e)
{
	char path[TREE_PATH_MAX];
	int r = 0;

	for (const struct merge_node *n = f->names->next_name; n && r == 0; n = n->next_name) {
		struct tree_entry t = {.path = path, .mode = f->mode, .hardlink = first};

		merge_path(n, path);
		r = to->ops->add(to, &t, NULL, e);
	}
	return r;
}

static size_t keep_xattrs(const struct tree_entry *t, struct tree_xattr out[TREE_XATTRS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < t->xattr_count; i++)
		if (merge_keeps_xattr(t->xattrs[i].name))
			out[n++] = t->xattrs[i];
	return n;
}

static int give(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	struct oci_merge *m =
		(struct oci_merge *)(void *)((char *)s - offsetof(struct oci_merge, replay));
	struct tree_xattr xattrs[TREE_XATTRS_MAX];
	struct tree_entry out = *t;
	char path[TREE_PATH_MAX];
	struct merge_file *f;
	int r;

	if (m->at >= end_of(m, m->replayed))
		return changed(e, t->path);
	f = m->files[m->at++];
	if (!f)
		return 0;
	if (t->hardlink || f->written || (t->mode & S_IFMT) != (f->mode & S_IFMT) ||
		(S_ISREG(t->mode) && t->size != f->size))
		return changed(e, t->path);
	merge_path(f->names, path);
	out.path = path;
	out.xattrs = xattrs;
	out.xattr_count = keep_xattrs(t, xattrs);
	f->written = true;
	r = m->to->ops->add(m->to, &out, d, e);
	return r < 0 ? r : write_links(f, path, m->to, e);
}

struct tree_sink *oci_merge_replay(struct oci_merge *m, size_t layer, struct tree_sink *to)
{
	static const struct tree_sink_ops ops = {.add = give};

	m->replay.ops = &ops;
	m->to = to;
	m->replayed = layer;
	m->at = m->first_entry[layer];
	return &m->replay;
}

int oci_merge_finish(const struct oci_merge *m, struct error *e)
{
	char path[TREE_PATH_MAX];

	for (uint64_t i = 0; i < m->entries; i++)
		if (m->files[i] && !m->files[i]->written) {
			merge_path(m->files[i]->names, path);
			return changed(e, path);
		}
	return 0;
}
