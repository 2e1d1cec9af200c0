/* What the modules of this room share. */
#ifndef AGENTS_AGENTS_INTERNAL_H
#define AGENTS_AGENTS_INTERNAL_H

#include <stdbool.h>

#include "store/store.h"

struct fleet;

struct version_use {
	struct version_use *next;
	char build_id[STORE_UUID_BYTES];
	unsigned count;
};

struct agents {
	struct version_use *holds; /* one for each version in use */
};

/* 1 to 64 of a-z 0-9 _ -. */
bool agent_alias_is_name(const char *s);

bool agents_is_held(struct fleet *f, const char *build_id);

/* The last use of a version is over: its files go if nothing leads to it any more. */
void agents_unused(struct fleet *f, const char *build_id);

#endif
