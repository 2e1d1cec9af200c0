/* Layers, from arbitrary bytes: what is written is a tree, each name in it once and below a
 * directory, and all that the tree kept is written.
 *
 * The input is entries: a byte for the kind, then up to two texts that end in a zero. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "oci/merge.h"

enum { DIRECTORY, FILE_, SYMLINK, HARDLINK, DEVICE, NEXT_LAYER, KINDS };

/* --- where it is written --- */

enum { WRITTEN_MAX = 2048 };

struct writing {
	struct tree_sink sink;
	char *paths[WRITTEN_MAX];
	bool directory[WRITTEN_MAX];
	size_t count;
};

static long find(const struct writing *w, const char *path, size_t n)
{
	for (size_t i = 0; i < w->count; i++)
		if (strncmp(w->paths[i], path, n) == 0 && w->paths[i][n] == '\0')
			return (long)i;
	return -1;
}

static int write_entry(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	struct writing *w = (struct writing *)(void *)s;
	const char *slash = strrchr(t->path, '/');
	long parent = find(w, t->path, slash ? (size_t)(slash - t->path) : 0);
	char clean[TREE_PATH_MAX];

	check(w->count < WRITTEN_MAX);
	check(tree_clean_path(t->path, clean) && strcmp(clean, t->path) == 0);
	check(find(w, t->path, strlen(t->path)) < 0);
	check(!*t->path || (parent >= 0 && w->directory[parent]));
	if (t->hardlink) {
		long target = find(w, t->hardlink, strlen(t->hardlink));

		check(target >= 0 && !w->directory[target]);
	}
	w->directory[w->count] = S_ISDIR(t->mode) && !t->hardlink;
	w->paths[w->count] = strdup(t->path);
	check(w->paths[w->count++]);
	return 0;
}

/* --- what is read --- */

struct input {
	const uint8_t *p;
	size_t left;
};

static const char *take_text(struct input *in, char out[TREE_PATH_MAX])
{
	size_t n = strnlen((const char *)in->p, in->left), k = n < 200 ? n : 200;

	memcpy(out, in->p, k);
	out[k] = '\0';
	n += n < in->left;
	in->p += n;
	in->left -= n;
	return out;
}

/* One entry. Returns false when it is none that a reader of archives would give. */
static bool take_entry(struct input *in, uint8_t kind, struct tree_entry *t,
	char path[TREE_PATH_MAX], char target[TREE_PATH_MAX])
{
	static const uint32_t modes[] = {
		S_IFDIR | 0755, S_IFREG | 0644, S_IFLNK | 0777, S_IFREG, S_IFBLK};
	char raw[TREE_PATH_MAX];

	*t = (struct tree_entry){.path = path, .mode = modes[kind], .size = kind == FILE_};
	if (!tree_clean_path(take_text(in, raw), path))
		return false;
	if (kind == SYMLINK)
		t->symlink = take_text(in, target);
	if (kind == HARDLINK)
		t->hardlink = tree_clean_path(take_text(in, raw), target) ? target : NULL;
	return kind == SYMLINK ? *target : kind != HARDLINK || (t->hardlink && *target && *path);
}

static int read_layers(
	struct oci_merge *m, struct input in, struct tree_sink *replay, struct error *e)
{
	char path[TREE_PATH_MAX], target[TREE_PATH_MAX];
	struct tree_sink *to = NULL;
	struct tree_entry t;
	size_t layer = 0;
	int r = 0;
	bool begin = true;

	while (r == 0 && in.left > 0) {
		uint8_t kind = *in.p++ % KINDS;

		in.left--;
		if (begin && replay)
			to = oci_merge_replay(m, layer++, replay);
		else if (begin)
			r = oci_merge_next(m, &to, e);
		begin = kind == NEXT_LAYER;
		if (r == 0 && !begin && take_entry(&in, kind, &t, path, target))
			r = to->ops->add(to, &t, NULL, e);
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tree_sink_ops ops = {.add = write_entry};
	static const struct oci_merge_limits limits = {
		.entries = 500, .bytes = 300, .nodes = 1000, .memory = 1 << 20, .steps = 4000};
	static struct writing w;
	struct input in = {data, size};
	struct oci_merge *m = oci_merge_new(&limits);
	struct error e = {0};
	int r;

	check(m);
	w.sink.ops = &ops;
	w.count = 0;
	r = read_layers(m, in, NULL, &e);
	if (r == 0) {
		check(oci_merge_write_directories(m, &w.sink, &e) == 0);
		check(read_layers(m, in, &w.sink, &e) == 0);
		check(oci_merge_finish(m, &e) == 0);
		check(w.count == oci_merge_count(m).entries);
	} else {
		check(e.code != ERROR_NONE && e.message[0]);
	}
	for (size_t i = 0; i < w.count; i++)
		free(w.paths[i]);
	oci_merge_free(m);
	return 0;
}
