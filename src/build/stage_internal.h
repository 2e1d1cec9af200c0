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

#endif
