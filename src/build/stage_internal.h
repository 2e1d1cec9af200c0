/* What the files of a stage share: stage.c, and its instructions with much to do. */
#ifndef BUILD_STAGE_INTERNAL_H
#define BUILD_STAGE_INTERNAL_H

#include "build/stage.h"
#include "build/step_key.h"

enum { STAGE_ARGV_MAX = SPLIT_WORDS_MAX + 1 };

struct expand_scope stage_scope(struct stage *s);
int stage_expand(struct stage *s, const char *word, char **ret, struct error *e);
int stage_of_vars(int r, struct error *e); /* an error of vars.h */

/* The words of the shell that runs commands. Returns their number. */
size_t stage_shell(const struct stage *s, const char *argv[STAGE_ARGV_MAX]);

/* The instructions, and what their result depends on beside the disk. */
int stage_run(struct stage *s, const struct dockerfile_step *step, struct error *e);
int stage_run_key(
	struct stage *s, const struct dockerfile_step *step, struct step_key *k, struct error *e);
int stage_copy(struct stage *s, const struct dockerfile_step *step, struct error *e);
int stage_copy_key(
	struct stage *s, const struct dockerfile_step *step, struct step_key *k, struct error *e);

/* --- files of the network, of ADD (stage_fetch.c) --- */

struct copy;

bool stage_is_url(const char *word);

/* Puts it to the destination, as docker does: for its owner only (0600), not unpacked. checksum:
 * its digest, or NULL: any. */
int stage_fetch_copy(struct stage *s, const struct copy *c, const char *url, const char *checksum,
	bool several, const char *destination, struct error *e);

/* Adds its digest: the checksum, without a request; or else that of what is fetched. */
int stage_fetch_key(struct stage *s, const char *url, const char *checksum, struct step_key *k,
	struct error *e);

#endif
