/* Digests that name what steps make: SHA-256 over values with their lengths before them. */
#ifndef BUILD_STEP_KEY_H
#define BUILD_STEP_KEY_H

#include "base/error.h"
#include "build/files.h"
#include "build/step_cache.h"
#include "build/vars.h"

struct oci_hash;

/* A digest in the making. The first failure is kept: step_key_end tells. */
struct step_key {
	struct oci_hash *hash; /* owned */
	int r;
};

/* what: sets digests of one kind apart from others. */
void step_key_begin(struct step_key *k, const char *what);
void step_key_text(struct step_key *k, const char *text);
void step_key_number(struct step_key *k, uint64_t n);
void step_key_vars(struct step_key *k, const struct vars *v);

/* What a file is, but for its time; and its content. path: its name for the step. */
int step_key_file(struct step_key *k, struct files *from, const struct files_entry *f,
	const char *path, struct error *e);

/* Ends and frees it. Call it in any case. */
int step_key_end(struct step_key *k, char out[STEP_KEY_BYTES], struct error *e);

#endif
