/* A file of the network as a source of COPY's kind: of ADD. */
#ifndef BUILD_FETCHED_H
#define BUILD_FETCHED_H

#include "build/copy_file.h"
#include "build/stage.h"
#include "build/step_key.h"

bool fetched_is_url(const char *word);

/* Puts it to the destination, as docker does: for its owner only (0600), and not unpacked. checksum:
 * its digest, or NULL: any. */
int fetched_copy(struct stage *s, const struct copy *c, const char *url, const char *checksum,
	bool several, const char *destination, struct error *e);

/* Adds its digest: the checksum, without a request; or else what is fetched. */
int fetched_key(struct stage *s, const char *url, const char *checksum, struct step_key *k,
	struct error *e);

#endif
