/* Gets documents and blobs from a registry, through mayfly-pull: a process in a workshop
 * (io/workshop.h) that keeps the host's network. mayfly-pull resolves names, speaks HTTP and TLS,
 * follows redirects and answers requests for credentials. It gets the credentials over a pipe, and
 * no file but the host's certificates. What it returns is checked. */
#ifndef OCI_PULL_H
#define OCI_PULL_H

#include <limits.h>

#include "image/progress.h"
#include "io/child.h"
#include "oci/credentials.h"
#include "oci/destination.h"
#include "oci/reference.h"

struct oci_pull {
	const struct oci_reference *reference; /* borrowed, as the next three are */
	const struct oci_credentials *credentials;
	const struct oci_reach *reach; /* NULL: anywhere; to be set after oci_pull_init() */
	const struct progress *progress;
	struct child child; /* runs since the first request */
	char path[PATH_MAX];
	int ask_fd;
	uint64_t reported_ns;
};

struct oci_pull_request {
	bool manifest;	     /* or a blob */
	const char *version; /* a tag or a digest; of a file, what progress calls it */
	const char *path;    /* of a file that is no part of an image; NULL: a manifest or blob */
	uint64_t bytes_max;  /* more is ERROR_BAD_IMAGE */
	/* Takes the body, in pieces. 0, or -errno with e filled. */
	int (*take)(void *opaque, const void *data, size_t n, struct error *e);
	void *opaque;
};

/* Fills p; starts nothing. The arguments are borrowed until oci_pull_done. */
void oci_pull_init(struct oci_pull *p, const struct oci_reference *r,
	const struct oci_credentials *c, const struct progress *progress);

/* Returns 0 when the body is complete. Otherwise -errno: the registry or the network failed
 * (-EAGAIN: another try may succeed), or progress cancelled it. Blocks. */
int oci_pull_get(struct oci_pull *p, const struct oci_pull_request *q, struct error *e);

/* Ends the process. */
void oci_pull_done(struct oci_pull *p);

#endif
