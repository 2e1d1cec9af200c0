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
	struct version_use *holds;  /* one for each version in use */
	struct agent_build *builds; /* that wait or run */
};

/* 1 to 64 of a-z 0-9 _ -. */
bool agent_alias_is_name(const char *s);

/* ERROR_NOT_FOUND says why it is not ready. */
int agents_get_ready(struct fleet *f, const struct store_agent *a, uint32_t number,
	struct store_agent_version *ret, struct error *e);

bool agents_is_held(struct fleet *f, const char *build_id);

/* The last use of a version is over: its files go if nothing leads to it any more. */
void agents_unused(struct fleet *f, const char *build_id);

#endif
