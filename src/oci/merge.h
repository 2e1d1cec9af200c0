/* Layers, from the bottom, become one tree.
 *
 * Each layer is read twice. First come the names and attributes of all layers, from which the tree
 * is made in memory: what is whited out, replaced or linked is settled here, and nothing else. Then
 * the directories are written, and the layers that have something left are read again: what the
 * tree kept is written, with its content. So nothing is written that a later layer removes, and
 * sinks need not remove anything.
 *
 * What a layer means (OCI image specification, layer.md; where it is silent, docker and umoci):
 *   - `.wh.NAME` removes NAME of the layers below, `.wh..wh..opq` all that they have in this
 *     directory. Both spare what their own layer brings, wherever it stands. Other names with
 *     `.wh..wh.` are AUFS's own and skipped.
 *   - An entry replaces what has its name, with all below it, but a directory keeps what is in it.
 *   - A path leads through links that earlier entries made, inside the tree: its root is the end of
 *     every "..". The last name is never followed.
 *   - Missing parents are made (root, 0755).
 *   - Nodes of devices are skipped, as docker does in a user namespace: guests have /dev of their
 *     own, and a node elsewhere would only be a way to their disks.
 *   - Of the extended attributes, capabilities, POSIX ACLs and user.* stay. Others mean something
 *     to the host that made them.
 *
 * The entries are hostile. All is bounded; errors are ERROR_BAD_IMAGE or ERROR_LIMIT, and name the
 * entry. */
#ifndef OCI_MERGE_H
#define OCI_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "image/tree.h"

struct oci_merge_limits {
	uint64_t entries; /* of all layers */
	uint64_t bytes;	  /* of content, of all layers */
	uint64_t nodes;	  /* of the tree at any time */
	uint64_t memory;  /* bytes that the tree may take */
	uint64_t steps;	  /* of paths, and of the links on the way */
};

/* What no image of use reaches. */
extern const struct oci_merge_limits oci_merge_limits;

struct oci_merge_counts {
	uint64_t entries, bytes; /* of the tree; bytes of regular files */
	uint64_t read;		 /* entries of all layers */
	uint64_t devices;	 /* that were skipped */
};

struct oci_merge;

/* NULL: out of memory. */
struct oci_merge *oci_merge_new(const struct oci_merge_limits *limits);
void oci_merge_free(struct oci_merge *m); /* NULL is fine */

/* Begins the next layer. The sink takes its entries in their order and needs no content. */
int oci_merge_next(struct oci_merge *m, struct tree_sink **ret, struct error *e);

/* Makes a directory where a path leads, after all layers were taken; one that is there stays as it
 * is. */
int oci_merge_make_directory(struct oci_merge *m, const char *path, int64_t mtime, struct error *e);

struct oci_merge_counts oci_merge_count(const struct oci_merge *m);

/* Writes all directories, after all layers were taken. */
int oci_merge_write_directories(struct oci_merge *m, struct tree_sink *to, struct error *e);

/* Whether anything of a layer (from 0) is left to write. */
bool oci_merge_needs(const struct oci_merge *m, size_t layer);

/* A sink that takes the same layer again, with content, and hands on what the tree kept. It lives
 * as long as m, for one layer at a time. */
struct tree_sink *oci_merge_replay(struct oci_merge *m, size_t layer, struct tree_sink *to);

/* Whether all was written. ERROR_BAD_IMAGE: a layer was not what it was before. */
int oci_merge_finish(const struct oci_merge *m, struct error *e);

#endif
