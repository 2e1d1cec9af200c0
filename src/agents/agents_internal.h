/* What the modules of this room share. */
#ifndef AGENTS_AGENTS_INTERNAL_H
#define AGENTS_AGENTS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/uploads.h"
#include "store/store.h"

struct error;
struct fleet;
struct store_agent;
struct store_agent_version;

struct version_use {
	struct version_use *next;
	char build_id[STORE_UUID_BYTES];
	unsigned count;
};

/* A build that waits or runs. */
struct agent_build {
	struct agent_build *next;
	char build_id[STORE_UUID_BYTES], key_id[STORE_UUID_BYTES];
	char upload[UPLOAD_HASH_BYTES]; /* "": none */
};

struct agents {
	struct version_use *holds;  /* one entry for each version in use */
	struct agent_build *builds; /* builds that wait or run */
};

/* Whether s is 1 to 64 characters of a-z, 0-9, '_' and '-'. */
bool agent_alias_is_name(const char *s);

/* Finds a version that is READY. Fails with ERROR_NOT_FOUND, and the message says why it is not
 * ready. */
int agents_get_ready(struct fleet *f, const struct store_agent *a, uint32_t number,
	struct store_agent_version *ret, struct error *e);

bool agents_is_held(struct fleet *f, const char *build_id);

/* Called after the last use of a version. Removes its files if no name and no alias leads to it. */
void agents_unused(struct fleet *f, const char *build_id);

#endif
