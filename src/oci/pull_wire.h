/* What mayfly and mayfly-pull, its jailed process for registries, say to each other, over a pair of
 * pipes. Both are of one build, so structs go as they are.
 *
 *	mayfly -> mayfly-pull	struct pull_start, then a struct pull_ask at a time
 *	mayfly-pull -> mayfly	for each: heads, each with so many bytes behind it, to PULL_END
 *
 * mayfly believes nothing that comes back (pull.c). */
#ifndef OCI_PULL_WIRE_H
#define OCI_PULL_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "oci/credentials.h"
#include "oci/destination.h"
#include "oci/reference.h"

enum { PULL_PIECE_MAX = 64 << 10 };

struct pull_start {
	struct oci_reference reference;
	struct oci_credentials credentials;
	struct oci_reach reach;
};

struct pull_ask {
	bool manifest; /* or a blob */
	char version[OCI_TAG_MAX];
	uint64_t bytes_max; /* more is ERROR_BAD_IMAGE */
};

enum pull_kind {
	PULL_DATA = 1, /* a piece of the body: PULL_PIECE_MAX bytes at most */
	PULL_WAITS,    /* no bytes: it works, or waits for the registry */
	PULL_END       /* struct error: ERROR_NONE when all came */
};

struct pull_head {
	uint32_t kind, bytes;
};

#endif
