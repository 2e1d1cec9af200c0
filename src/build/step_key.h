/* Digests that name the results of steps: SHA-256 over values, each after its length. */
#ifndef BUILD_STEP_KEY_H
#define BUILD_STEP_KEY_H

#include "base/error.h"
#include "build/files.h"
#include "build/step_cache.h"
#include "dockerfile/vars.h"

struct oci_hash;

/* A digest that is being computed. It keeps the first failure, which step_key_end() returns. */
struct step_key {
	struct oci_hash *hash; /* owned */
	int r;
};

/* what: the kind of digest, so that different kinds never collide. */
void step_key_begin(struct step_key *k, const char *what);
void step_key_text(struct step_key *k, const char *text);
void step_key_number(struct step_key *k, uint64_t n);
void step_key_vars(struct step_key *k, const struct vars *v);

/* Adds a file: its attributes, except times, and its content. path: its name in the step. */
int step_key_file(struct step_key *k, struct files *from, const struct files_entry *f,
	const char *path, struct error *e);

/* Ends the digest and frees it. Call it in any case. */
int step_key_end(struct step_key *k, char out[STEP_KEY_BYTES], struct error *e);

#endif
