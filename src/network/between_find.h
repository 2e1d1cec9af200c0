/* Finds the sandbox that a program of another sandbox wants to connect to, and checks that it lets
 * the caller in (between.h). */
#ifndef NETWORK_BETWEEN_FIND_H
#define NETWORK_BETWEEN_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/network_in.h"
#include "sandbox/sandbox_dir.h"
#include "store/store.h"

struct fleet;

struct between_caller {
	char id[SANDBOX_ID_BYTES];
	char key_id[STORE_UUID_BYTES];
	bool name_known;
	char name[NETWORK_IN_NAME_MAX + 1]; /* of its metadata, valid once name_known; "": none */
};

struct between_found {
	char id[SANDBOX_ID_BYTES]; /* "": no sandbox, or several */
	int rule;		   /* index of the entry of its allowIn; -1: none */
	bool resumes;		   /* it is paused and may be resumed by traffic */
};

/* to: an id, or the value of the metadata `name`, of a sandbox of the same key. Returns NULL, or a
 * static reason why not. The sandbox of another key is refused like one that does not exist. */
const char *between_find(struct fleet *f, struct between_caller *caller, const char *to,
	uint16_t port, struct between_found *ret);

#endif
