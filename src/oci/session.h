/* Requests to the registry of one image, with a login if the registry asks for one. Only
 * mayfly-pull uses this. */
#ifndef OCI_SESSION_H
#define OCI_SESSION_H

#include "oci/pull_wire.h"
#include "oci/transfer.h"

struct oci_session {
	const struct pull_start *with; /* borrowed */
	struct oci_client *client;     /* borrowed */
	char *authorization; /* owned secret: the header, once the registry asked for it */
};

/* Sends a GET. If the registry asks for credentials, sends them, to the registry or to the token
 * server that it names, and repeats the GET. take: as in transfer.h. */
int oci_session_get(struct oci_session *s, const struct pull_ask *ask,
	int (*take)(void *opaque, const void *data, size_t n, struct error *e), struct error *e);

#endif
