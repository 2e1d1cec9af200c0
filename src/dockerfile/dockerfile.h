/* Parses a Dockerfile into stages and steps, as docker's reference describes it (docker/dockerfile
 * 1.7). Words are kept as written, with quotes and variables, because only the build knows the
 * values that expand.h needs.
 *
 * Other frontends and unknown flags are errors. Errors name the line, the instruction and the
 * flag. */
#ifndef DOCKERFILE_DOCKERFILE_H
#define DOCKERFILE_DOCKERFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "dockerfile/arena.h"
#include "dockerfile/split.h"

enum {
	DOCKERFILE_STAGES_MAX = 64,
	DOCKERFILE_STEPS_MAX = 1000, /* of all stages */
	DOCKERFILE_FLAGS_MAX = 32,   /* of a step, like the next */
	DOCKERFILE_HEREDOCS_MAX = 16,
	DOCKERFILE_MEMORY_MAX = 32 << 20,
};

enum dockerfile_kind {
	DOCKERFILE_RUN,
	DOCKERFILE_COPY,
	DOCKERFILE_ADD,
	DOCKERFILE_ENV,
	DOCKERFILE_ARG,
	DOCKERFILE_WORKDIR,
	DOCKERFILE_USER,
	DOCKERFILE_SHELL,
	DOCKERFILE_ENTRYPOINT,
	DOCKERFILE_CMD,
	DOCKERFILE_EXPOSE,
	DOCKERFILE_LABEL,
	DOCKERFILE_VOLUME,
	DOCKERFILE_STOPSIGNAL,
	DOCKERFILE_HEALTHCHECK,
	DOCKERFILE_MAINTAINER,
	DOCKERFILE_ONBUILD,
	DOCKERFILE_KINDS_,
};

struct dockerfile_flag {
	const char *name, *value; /* without a value: "true" */
};

struct dockerfile_heredoc {
	const char *name, *text;
	bool expand;	 /* variables in the text of COPY and ADD */
	bool strip_tabs; /* already done to the text */
	size_t word;	 /* COPY and ADD: index of the word that it stands for */
};

/* What `words` are:
 *   RUN, CMD, ENTRYPOINT	exec form: arguments; shell form: one word, the command
 *   HEALTHCHECK		"NONE", or "CMD" and then as CMD
 *   SHELL			arguments
 *   COPY, ADD			sources, which may be marks of heredocs, and last the destination
 *   ENV, LABEL			name, value, name, value, ...
 *   ARG			"NAME" or "NAME=VALUE"
 *   EXPOSE, VOLUME		one or more
 *   ONBUILD			the instruction, with the lines of its heredocs
 *   the others			one, the rest of the line */
struct dockerfile_step {
	enum dockerfile_kind kind;
	unsigned line;
	const char *text; /* the whole instruction, for messages */
	bool exec;	  /* JSON form: RUN, CMD, ENTRYPOINT, HEALTHCHECK */
	bool force;	  /* it and later steps of its stage do not use the cache */
	/* Only for steps that spec.h adds, in an image without a shell: the user that the step
	 * makes, or the line that it runs if the line is plain words. Else NULL. */
	const char *bare_user, *bare_line;
	const char *trigger_of; /* the image whose ONBUILD it is; NULL: of the file */
	struct words words;
	struct dockerfile_flag *flags;
	size_t flag_count;
	struct dockerfile_heredoc *heredocs; /* in the order of their marks */
	size_t heredoc_count;
};

struct dockerfile_steps {
	struct dockerfile_step *items;
	size_t count;
};

struct dockerfile_stage {
	unsigned line;
	const char *base;     /* as written: an image, or the name of a stage above */
	const char *name;     /* in lower case; "" without one */
	const char *platform; /* as written; "" without one */
	struct dockerfile_steps steps;
};

struct dockerfile {
	struct arena arena;
	char escape;
	struct dockerfile_steps
		args; /* ARGs before the first FROM; FROM and ARGs without a value use them */
	struct dockerfile_stage *stages;
	size_t stage_count; /* at least one */
	size_t step_count;  /* of all stages, and args */
};

/* Parses n bytes. Fails with ERROR_USAGE or ERROR_LIMIT. Call dockerfile_done() in any case. */
int dockerfile_parse(const char *text, size_t n, struct dockerfile *ret, struct error *e);
void dockerfile_done(struct dockerfile *d);

/* Parses one instruction, which ONBUILD has kept. Its memory is in the arena. Fails as above, also
 * for what ONBUILD cannot have: FROM, MAINTAINER, ONBUILD. */
int dockerfile_parse_trigger(
	const char *text, struct arena *a, struct dockerfile_step *ret, struct error *e);

const char *dockerfile_kind_name(enum dockerfile_kind kind); /* "RUN" */

/* Returns the value of a flag that can be given once, or NULL if it is not given. */
const char *dockerfile_flag(const struct dockerfile_step *s, const char *name);

/* Returns the heredoc that a word of COPY or ADD stands for, or NULL. */
const struct dockerfile_heredoc *dockerfile_heredoc(const struct dockerfile_step *s, size_t word);

/* Finds the stage with that name or number, among those before stage `before`. Case does not
 * matter. Returns its index, or -1. */
int dockerfile_find_stage(const struct dockerfile *d, const char *name, size_t before);

/* Makes the stage with that name or number the last one. ERROR_USAGE if there is none. */
int dockerfile_end_at(struct dockerfile *d, const char *name, struct error *e);

#endif
