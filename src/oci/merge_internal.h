/* Shared by the files of merge.h. */
#ifndef OCI_MERGE_INTERNAL_H
#define OCI_MERGE_INTERNAL_H

#include "oci/document.h"
#include "oci/merge.h"

/* A file of the tree, which may have several names (hard links). */
struct merge_file {
	uint32_t mode, uid, gid;
	bool written;
	int64_t mtime;
	uint64_t size;
	uint64_t entry;		  /* the entry that it comes from, by its number over all layers */
	struct merge_node *names; /* by next_name */
	uint32_t name_count;
	char *symlink;		   /* owned */
	struct tree_xattr *xattrs; /* of directories; owned, one block with its texts */
	size_t xattr_count, xattr_bytes;
};

struct merge_node {
	struct merge_node *parent, *first, *next, *previous; /* children are a list */
	void *by_name;					     /* and a tree (tsearch) */
	struct merge_node *next_name, *previous_name;	     /* of its file */
	struct merge_file *file;			     /* owned together with other names */
	uint32_t layer;					     /* that brought it last, from 1 */
	uint32_t cleared;  /* in this layer, what lower layers had below it was removed */
	uint32_t path_len; /* of its whole path */
	uint32_t name_len;
	const char *name; /* behind the node */
};

struct oci_merge {
	struct tree_sink sink;	 /* takes a layer; first member */
	struct tree_sink replay; /* takes a layer for the second time */
	struct tree_sink *to;
	struct oci_merge_limits limits;
	struct merge_node *root;
	uint64_t nodes, memory, steps, bytes, devices;
	struct merge_file **files; /* by entry; NULL: nothing to write */
	uint64_t entries, capacity;
	uint64_t first_entry[OCI_LAYERS_MAX + 1]; /* of each layer */
	uint32_t layers;			  /* so far; the last one is being taken */
	size_t replayed;			  /* the layer that is taken for the second time */
	uint64_t at;				  /* the entry that replay expects */
};

/* The child of that name, or NULL. */
struct merge_node *merge_find(const struct merge_node *parent, const char *name, size_t n);

/* Gives a file, which may have names already, the name n in parent. There must be no child of that
 * name yet. -ENOMEM, -ENAMETOOLONG, -E2BIG (a limit). */
int merge_attach(struct oci_merge *m, struct merge_node *parent, const char *name, size_t n,
	struct merge_file *file, struct merge_node **ret);

/* A new file without a name, freed with its last one. */
int merge_file_new(struct oci_merge *m, const struct tree_entry *t, struct merge_file **ret);
void merge_file_drop(struct oci_merge *m, struct merge_file *f); /* if it has no name */

/* Removes a node with all below it. */
void merge_remove(struct oci_merge *m, struct merge_node *node);

/* Removes everything below a directory that came from lower layers than the present one. */
void merge_clear(struct oci_merge *m, struct merge_node *node);

/* Takes the attributes of an entry for a directory. 0 or -ENOMEM. */
int merge_set_directory(struct oci_merge *m, struct merge_file *f, const struct tree_entry *t);

/* The path of a node: "" is the root. */
void merge_path(const struct merge_node *node, char out[TREE_PATH_MAX]);

/* Whether an extended attribute of this name is kept. */
bool merge_keeps_xattr(const char *name);

enum { MERGE_LINKS_MAX = 40 }; /* symbolic links on one path, as in the kernel */

/* Finds the directory that a path's last name is in, through links that earlier entries made.
 * *ret_name is that name, inside path; "" for the root itself, whose directory is the root.
 *
 * like: the entry whose path it is; missing directories are made at its time. NULL: they are
 * -ENOENT. -ENOTDIR, -ELOOP, -ENAMETOOLONG, -E2BIG (a limit), -ENOMEM. */
int merge_walk(struct oci_merge *m, const char *path, const struct tree_entry *like,
	struct merge_node **ret_dir, const char **ret_name);

#endif
