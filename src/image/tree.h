/* Files on their way into an image: what a source (tar, directory, generated) yields and what a
 * sink (ext4 image, directory) takes.
 *
 * Paths are relative and "/"-separated, without ".", ".." or empty components; "" is the root. They
 * name places inside the image only: no path makes a sink touch a file of the host. */
#ifndef IMAGE_TREE_H
#define IMAGE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum {
	TREE_PATH_MAX = 4096,
	TREE_XATTRS_MAX = 32,
	TREE_XATTR_BYTES_MAX = 4000,
	TREE_XATTR_NAME_MAX = 255,
	TREE_SMALL_FILE_MAX = 4 << 20, /* for tree_put and the sink's read */
};

struct tree_xattr {
	const char *name;
	const void *value;
	size_t size;
};

struct tree_entry {
	const char *path;
	uint32_t mode; /* with the S_IFMT bits */
	uint32_t uid, gid;
	int64_t mtime;	      /* seconds */
	dev_t rdev;	      /* of device nodes */
	uint64_t size;	      /* of regular files */
	const char *symlink;  /* target of a symbolic link */
	const char *hardlink; /* path of an earlier entry; only path is used besides */
	const struct tree_xattr *xattrs;
	size_t xattr_count;
};

/* The content of a regular file, read sequentially: bytes, 0 at the end, or -errno. */
struct tree_data {
	ssize_t (*read)(void *opaque, void *buf, size_t n);
	void *opaque;
};

struct tree_stat {
	uint32_t mode, uid, gid;
};

struct tree_sink;

struct tree_sink_ops {
	/* Makes missing parents (root, 0755). Replaces an existing entry, except that a directory
	 * keeps its content. */
	int (*add)(struct tree_sink *s, const struct tree_entry *entry,
		const struct tree_data *data, struct error *e);
	/* Finds what a path leads to, following links inside the image; -ENOENT. */
	int (*lookup)(struct tree_sink *s, const char *path, struct tree_stat *ret);
	/* Reads a regular file of at most TREE_SMALL_FILE_MAX; malloc'ed, NUL-terminated. */
	int (*read)(struct tree_sink *s, const char *path, char **ret, size_t *ret_len);
};

struct tree_sink {
	const struct tree_sink_ops *ops;
};

/* Converts a path from outside into the form above. False when it has a ".." component or is too
 * long. */
bool tree_clean_path(const char *path, char out[TREE_PATH_MAX]);

/* Adds a small regular file, owned by uid and gid. */
int tree_put(struct tree_sink *s, const char *path, const void *data, size_t len, uint32_t mode,
	uint32_t uid, uint32_t gid, int64_t mtime, struct error *e);

#endif
