/* The messages between mayfly and mayfly-pull, its jailed process for registries, over a pair of
 * pipes. Both come from the same build, so structs are sent as they are in memory.
 *
 *	mayfly -> mayfly-pull	struct pull_start, then one struct pull_ask after the other
 *	mayfly-pull -> mayfly	for each pull_ask: struct pull_heads, each followed by its `bytes`
 *				bytes; the last one is PULL_END
 *
 * mayfly treats the answers as hostile and checks them (pull.c). */
#ifndef OCI_PULL_WIRE_H
#define OCI_PULL_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "oci/credentials.h"
#include "oci/destination.h"
#include "oci/reference.h"

enum { PULL_PIECE_MAX = 64 << 10, PULL_PATH_MAX = 4096 };

struct pull_start {
	struct oci_reference reference;
	struct oci_credentials credentials;
	struct oci_reach reach;
};

struct pull_ask {
	bool manifest; /* or a blob */
	char version[OCI_TAG_MAX];
	char path[PULL_PATH_MAX]; /* of a file that is no image's part, with its query; or "" */
	uint64_t bytes_max;	  /* more is ERROR_BAD_IMAGE */
};

enum pull_kind {
	PULL_DATA = 1, /* a piece of the body: PULL_PIECE_MAX bytes at most */
	PULL_WAITS,    /* no bytes: a sign of life while it waits for the registry */
	PULL_END       /* struct error: ERROR_NONE when the body is complete */
};

struct pull_head {
	uint32_t kind, bytes;
};

#endif
