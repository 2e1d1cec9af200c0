/* Finds where the path of an entry leads in the tree. */
#include "oci/merge_internal.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

struct walk {
	struct oci_merge *m;
	const struct tree_entry *like;
	struct merge_node *at;
	unsigned links;
	/* The rest of the path. It stands at the end of the buffer, so that a link's target can be
	 * put in front of it. */
	char left[2 * TREE_PATH_MAX];
	size_t start;
};

static int push(struct walk *w, const char *path, size_t n)
{
	if (n + 1 > w->start)
		return -ENAMETOOLONG;
	w->left[--w->start] = '/';
	w->start -= n;
	memcpy(w->left + w->start, path, n);
	return 0;
}

static int follow(struct walk *w, const struct merge_node *link)
{
	const char *target = link->file->symlink;

	if (++w->links > MERGE_LINKS_MAX)
		return -ELOOP;
	if (*target == '/')
		w->at = w->m->root;
	return push(w, target, strlen(target));
}

static int make_directory(struct walk *w, const char *name, size_t n)
{
	const struct tree_entry t = {.mode = S_IFDIR | 0755, .mtime = w->like->mtime};
	struct merge_file *f = NULL;
	struct merge_node *made = NULL;
	int r = n <= 255 ? merge_file_new(w->m, &t, &f) : -ENAMETOOLONG;

	if (r < 0)
		return r;
	r = merge_attach(w->m, w->at, name, n, f, &made);
	if (r < 0)
		merge_file_drop(w->m, f);
	else
		w->at = made;
	return r;
}

static int step(struct walk *w, const char *name, size_t n)
{
	struct merge_node *child;

	if (++w->m->steps > w->m->limits.steps)
		return -E2BIG;
	if (n == 0 || (n == 1 && name[0] == '.'))
		return 0;
	if (n == 2 && name[0] == '.' && name[1] == '.') {
		w->at = w->at->parent ? w->at->parent : w->at;
		return 0;
	}
	child = merge_find(w->at, name, n);
	if (!child)
		return w->like ? make_directory(w, name, n) : -ENOENT;
	if (S_ISLNK(child->file->mode))
		return follow(w, child);
	if (!S_ISDIR(child->file->mode))
		return -ENOTDIR;
	w->at = child;
	return 0;
}

int merge_walk(struct oci_merge *m, const char *path, const struct tree_entry *like,
	struct merge_node **ret_dir, const char **ret_name)
{
	struct walk w = {.m = m, .like = like, .at = m->root, .start = sizeof(w.left)};
	const char *slash = strrchr(path, '/');
	int r = slash ? push(&w, path, (size_t)(slash - path)) : 0;

	while (r == 0 && w.start < sizeof(w.left)) {
		const char *name = w.left + w.start,
			   *end = memchr(name, '/', sizeof(w.left) - w.start);
		char part[256];
		size_t n = (size_t)(end - name);

		if (n >= sizeof(part))
			return -ENAMETOOLONG;
		memcpy(part, name, n); /* a link's target goes over it */
		w.start += n + 1;
		r = step(&w, part, n);
	}
	*ret_dir = w.at;
	*ret_name = slash ? slash + 1 : path;
	return r;
}
