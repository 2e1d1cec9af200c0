/* What stage.c shares with the files of its larger instructions. */
#ifndef BUILD_STAGE_INTERNAL_H
#define BUILD_STAGE_INTERNAL_H

#include "build/stage.h"
#include "build/step_key.h"

enum { STAGE_ARGV_MAX = SPLIT_WORDS_MAX + 1 };

struct expand_scope stage_scope(struct stage *s);
int stage_expand(struct stage *s, const char *word, char **ret, struct error *e);
int stage_of_vars(int r, struct error *e); /* reports an error of vars.h */

/* Writes the words of the shell that runs commands. Returns their number. */
size_t stage_shell(const struct stage *s, const char *argv[STAGE_ARGV_MAX]);

/* The instructions, and digests of what their result depends on besides the disk. */
int stage_run(struct stage *s, const struct dockerfile_step *step, struct error *e);
int stage_run_key(
	struct stage *s, const struct dockerfile_step *step, struct step_key *k, struct error *e);
/* Lets commands trust the operator's authorities: adds variables, unless they are set. */
int stage_add_trust(const struct stage *s, struct machine *m, struct vars *env, struct error *e);
int stage_copy(struct stage *s, const struct dockerfile_step *step, struct error *e);
int stage_copy_key(
	struct stage *s, const struct dockerfile_step *step, struct step_key *k, struct error *e);

/* --- URLs of ADD (stage_fetch.c) --- */

struct copy;

bool stage_is_url(const char *word);

/* Fetches a URL and writes it to the destination, as docker does: with mode 0600, and not unpacked.
 * checksum: the digest that it must have, or NULL. */
int stage_fetch_copy(struct stage *s, const struct copy *c, const char *url, const char *checksum,
	bool several, const char *destination, struct error *e);

/* Adds the file's digest to k. That is the checksum, without a request, or else the digest of what
 * it fetches. */
int stage_fetch_key(struct stage *s, const char *url, const char *checksum, struct step_key *k,
	struct error *e);

#endif
