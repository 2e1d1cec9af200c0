/* Shared by the modules that implement rootfs.h. */
#ifndef IMAGE_ROOTFS_INTERNAL_H
#define IMAGE_ROOTFS_INTERNAL_H

#include <openssl/evp.h>

#include "image/rootfs.h"

struct rootfs {
	struct tree_sink entrance; /* first member: rootfs_sink() */
	struct tree_sink *sink;	   /* borrowed */
	int64_t epoch;
	struct progress progress;
	EVP_MD_CTX *digest; /* owned */
	uint64_t entries, bytes;
	uint64_t last_report_ns;
};

/* Adds one entry to digest and sink, and reports progress. */
int rootfs_add(
	struct rootfs *f, const struct tree_entry *t, const struct tree_data *d, struct error *e);

/* The same for a small regular file. owner.mode is its permissions. */
int rootfs_put(struct rootfs *f, const char *path, const char *text, struct tree_stat owner,
	int64_t mtime, struct error *e);

#endif
