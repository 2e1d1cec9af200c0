/* Blobs in the state directory: blobs/<hexadecimal SHA-256>, shared by all images that have them.
 *
 * A blob appears as a whole or not at all, and only under the digest of its content. Opening a blob
 * reads all of it and checks the digest again; a damaged blob is removed and counts as missing. The
 * store is a cache: it keeps the most recently used blobs, up to OCI_BLOBS_BYTES_MAX, and may be
 * deleted at any time. Several processes may use it at once.
 *
 * A blob has no owner. The directory blobs/from/ records which origins gave which blobs: it has an
 * empty file for each such pair, named by a SHA-256 over both. */
#ifndef OCI_BLOBS_H
#define OCI_BLOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "oci/digest.h"

#define OCI_BLOBS_BYTES_MAX (UINT64_C(16) << 30)

struct oci_blobs {
	int fd; /* the directory */
};

/* Asked before a blob is fetched. A negative result prevents that. */
struct oci_allowance {
	int (*take)(void *opaque, uint64_t bytes, struct error *e);
	void *opaque;
};

#define OCI_BLOBS_INIT                                                                             \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Opens the store below home_fd, and makes it when missing. Removes what killed writers left. */
int oci_blobs_open(int home_fd, struct oci_blobs *ret, struct error *e);

/* Removes what was not used for longest, until at most `bytes` are left. Failures only cost
 * space. */
void oci_blobs_trim(const struct oci_blobs *b, uint64_t bytes);
void oci_blobs_close(struct oci_blobs *b);

/* Opens a blob for reading. -ENOENT when it is missing or damaged; otherwise 0 or another -errno of
 * the host. */
int oci_blobs_find(const struct oci_blobs *b, const char *digest, int *ret_fd);

/* Notes that `origin`, any text, gave the blob, and asks for that. A failure only costs another
 * download. */
void oci_blobs_mark(const struct oci_blobs *b, const char *origin, const char *digest);
bool oci_blobs_marked(const struct oci_blobs *b, const char *origin, const char *digest);

/* A blob on its way in. */
struct oci_blob_writer {
	const struct oci_blobs *blobs;
	struct oci_hash *hash; /* owned */
	int fd;
	uint64_t size; /* so far */
	char name[32]; /* "" when there is none */
};

#define OCI_BLOB_WRITER_INIT                                                                       \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Begins a blob, and adds its content in pieces. ERROR_NO_SPACE or ERROR_HOST. */
int oci_blob_begin(const struct oci_blobs *b, struct oci_blob_writer *ret, struct error *e);
int oci_blob_add(struct oci_blob_writer *w, const void *data, size_t n, struct error *e);

/* Puts the blob in place and says its digest. Returns a descriptor for reading, or -errno. wanted:
 * the digest that it must have, or NULL; ERROR_BAD_IMAGE (-EBADMSG) otherwise. */
int oci_blob_end(struct oci_blob_writer *w, const char *wanted, char digest[OCI_DIGEST_MAX],
	struct error *e);

/* Frees the writer, and removes what is not complete. Call it in any case. */
void oci_blob_abort(struct oci_blob_writer *w);

/* The digest of a file from its start; its offset ends there, too. */
int oci_digest_of_file(int fd, char out[OCI_DIGEST_MAX]);

#endif
