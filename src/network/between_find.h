/* Which sandbox a program of another one means, and whether it lets that one in (between.h). */
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
	char name[NETWORK_IN_NAME_MAX + 1]; /* of its metadata, once known; "": none */
};

struct between_found {
	char id[SANDBOX_ID_BYTES]; /* "": none, or several */
	int rule;		   /* of its allowIn; -1: none */
	bool resumes;		   /* it is paused, and traffic resumes it */
};

/* to: an id, or the value of the metadata `name`; of the same key. Returns why not, or NULL. A
 * refusal by another key's sandbox is that of one that does not exist. */
const char *between_find(struct fleet *f, struct between_caller *caller, const char *to,
	uint16_t port, struct between_found *ret);

#endif
