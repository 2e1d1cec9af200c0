/* One stage while it is built: what its instructions have set so far, and the machine that its
 * steps run in. */
#ifndef BUILD_STAGE_H
#define BUILD_STAGE_H

#include <stdbool.h>

#include "base/error.h"
#include "build/dockerfile.h"
#include "build/expand.h"
#include "build/files.h"
#include "build/machine.h"
#include "build/step_cache.h"
#include "build/vars.h"
#include "image/config.h"

enum { STAGE_STEP_S = 3600 }; /* that a RUN may take */

/* What a stage hands on: a disk, and how its commands want to run. */
struct stage_state {
	int image_fd;		  /* its disk, as layers.h has it; -1: none yet */
	char key[STEP_KEY_BYTES]; /* the digest of what made that */
	uint32_t disk_mb;
	struct vars env;
	char *user, *workdir;  /* owned, as the next; "root" and "/" at first */
	char *entry, *command; /* words for a shell; "" when there is none */
	char *network;	       /* what the base's sandboxes may reach at most; "": anything */
	bool entry_is_shell;   /* which takes no command */
	struct words shell;    /* borrowed from the Dockerfile; none: /bin/sh -c */
};

int stage_state_init(struct stage_state *s); /* 0 or -ENOMEM */
void stage_state_done(struct stage_state *s);
int stage_state_copy(const struct stage_state *from, struct stage_state *to);
int stage_state_set(char **slot, const char *value); /* one of its strings; 0 or -ENOMEM */
int stage_no_memory(struct error *e);

struct stage;

struct build_secrets;
struct disk_budget;
struct home;

/* Where caches of RUN are kept, and what they may take of the disk. Borrowed. */
struct stage_caches {
	const struct home *home;
	struct disk_budget *budget;
};

struct stage_ops {
	/* The machine, which is booted when it is asked for the first time. */
	int (*machine)(void *opaque, struct machine **ret, struct error *e);
	/* The files that --from names; "": the build's directory. Valid until the next call. */
	int (*files)(void *opaque, const char *from, struct files **ret, struct error *e);
	/* A file of the network: its content and its digest ("sha256:..."), borrowed until the end
	 * of the build. Fetched once. NULL: there is none. */
	int (*fetch)(void *opaque, const char *url, int *ret_fd, const char **ret_digest,
		struct error *e);
	/* What names the disk of --from: a stage's key. */
	int (*source_key)(
		void *opaque, const char *from, char ret[STEP_KEY_BYTES], struct error *e);
	/* What commands write, and notes for people. Negative: the build ends. */
	int (*output)(void *opaque, const void *data, size_t n);
	void (*note)(void *opaque, unsigned line, const char *text);
	void *opaque;
};

struct stage {
	const struct dockerfile *file;
	const struct vars *global; /* ARGs before the first FROM, and what is predefined */
	const struct vars *build_args;
	const struct build_secrets *secrets; /* or NULL */
	const struct stage_caches *caches;   /* NULL: they are not kept */
	unsigned line;			     /* of the step that runs, for notes */
	struct stage_ops ops;
	struct stage_state state;
	struct vars args;
	bool command_is_own; /* CMD of this stage */
};

/* Whether a step changes the disk. The others only change the state. */
bool stage_changes_disk(const struct dockerfile_step *step);

/* The digest of a step that changes the disk: of all that it depends on, which includes the disk's
 * own. */
int stage_key(struct stage *s, const struct dockerfile_step *step, char ret[STEP_KEY_BYTES],
	struct error *e);

/* Changes the state as a step that changes the disk does, without doing it. */
int stage_skip(struct stage *s, const struct dockerfile_step *step, struct error *e);

/* Does one step. Errors say what is wrong; the caller adds which step it was. */
int stage_step(struct stage *s, const struct dockerfile_step *step, struct error *e);

/* Sets the variables of an ARG in `args`: with a value of the build, of `global`, or its own. */
int stage_take_arg(struct vars *args, const struct dockerfile_step *step,
	const struct expand_scope *scope, const struct vars *build_args, const struct vars *global,
	struct error *e);

#endif
