/* Merges the layers of an image, lowest first, into one tree.
 *
 * Each layer is read twice. The first pass reads the names and attributes of all layers and builds
 * the tree in memory; it applies whiteouts, replacements and links. Then the directories are
 * written. The second pass reads only layers that still have files in the tree, and writes these
 * files with their content. So nothing is written that a later layer removes, and sinks need not
 * remove anything.
 *
 * What a layer means (OCI image specification, layer.md; where it is silent, docker and umoci):
 *   - `.wh.NAME` removes NAME of the layers below, `.wh..wh..opq` everything that they have in this
 *     directory. Neither affects entries of the same layer, whatever their order. Other names that
 *     begin with `.wh..wh.` belong to AUFS and are skipped.
 *   - An entry replaces an earlier one of its name, with everything below it. But a directory that
 *     replaces a directory keeps the content.
 *   - Symbolic links of earlier entries are followed inside the tree; ".." at its root stays there.
 *     The last component of a path is never followed.
 *   - Missing parents are made (root, 0755).
 *   - Device nodes are skipped, as docker does in a user namespace. Guests have their own /dev, and
 *     a node elsewhere would only give access to their disks.
 *   - Of the extended attributes, capabilities, POSIX ACLs and user.* are kept. Others only have a
 *     meaning on the host that made them.
 *
 * The entries are untrusted, and everything is bounded (struct oci_merge_limits). Errors are
 * ERROR_BAD_IMAGE or ERROR_LIMIT and name the entry. */
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
	uint64_t steps;	  /* components of paths that are walked, links included */
};

/* The default limits, far above what real images need. */
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

/* Makes a directory at a path, following links. Call it after all layers were taken. An existing
 * directory stays as it is. */
int oci_merge_make_directory(struct oci_merge *m, const char *path, int64_t mtime, struct error *e);

struct oci_merge_counts oci_merge_count(const struct oci_merge *m);

/* Writes all directories, after all layers were taken. */
int oci_merge_write_directories(struct oci_merge *m, struct tree_sink *to, struct error *e);

/* Whether the tree has files of this layer (counted from 0) to write. */
bool oci_merge_needs(const struct oci_merge *m, size_t layer);

/* Returns a sink for the second pass over a layer, with content. It forwards to `to` only the files
 * that the tree kept. It is valid as long as m, for one layer at a time. */
struct tree_sink *oci_merge_replay(struct oci_merge *m, size_t layer, struct tree_sink *to);

/* Checks that all files were written. ERROR_BAD_IMAGE: a layer changed between the two passes. */
int oci_merge_finish(const struct oci_merge *m, struct error *e);

#endif
