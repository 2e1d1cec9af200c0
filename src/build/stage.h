/* One stage while it is being built: the state that its instructions have set so far, and callbacks
 * for the machine and the files that its steps use. */
#ifndef BUILD_STAGE_H
#define BUILD_STAGE_H

#include <stdbool.h>

#include "base/error.h"
#include "build/files.h"
#include "build/machine.h"
#include "build/step_cache.h"
#include "dockerfile/dockerfile.h"
#include "dockerfile/expand.h"
#include "dockerfile/vars.h"
#include "image/config.h"

enum {
	STAGE_STEP_S = 3600,			   /* a RUN may take that long */
	STAGE_TRIGGERS_MAX = CONFIG_TRIGGERS_MAX,  /* of an image */
	STAGE_TRIGGER_BYTES_MAX = CONFIG_TEXT_MAX, /* of one, with its heredocs */
};

/* Triggers: instructions of ONBUILD, as text. A build FROM the image that keeps them runs them
 * before its own steps, and its result has none of them. Their text is untrusted: it is parsed when
 * a build uses it. */
struct stage_triggers {
	char **items; /* owned, as the list is */
	size_t count;
};

/* The result of a stage: a disk, and the settings for commands. */
struct stage_state {
	int image_fd;		       /* its disk, as layers.h has it; -1: none yet */
	char key[STEP_KEY_BYTES];      /* the digest of the steps that made the disk */
	char base_key[STEP_KEY_BYTES]; /* that of the stage's base */
	unsigned base_deltas;	       /* of the base's disk */
	uint32_t disk_mb;
	struct vars env;
	char *user, *workdir;		/* owned, like the next; "root" and "/" at first */
	char *entry, *command;		/* words for a shell; "" if there is none */
	char *network;			/* network list of the base; "": anything */
	bool entry_is_shell;		/* the entry is for a shell, so it takes no command */
	struct words shell;		/* borrowed from the Dockerfile; if empty, /bin/sh -c */
	struct stage_triggers triggers; /* of ONBUILD; those of the base are steps instead */
};

int stage_state_init(struct stage_state *s); /* 0 or -ENOMEM */
void stage_state_done(struct stage_state *s);
int stage_state_copy(const struct stage_state *from, struct stage_state *to);
int stage_state_set(char **slot, const char *value); /* sets a string of it; 0 or -ENOMEM */

/* Adds a copy of a trigger. Returns 0, -ENOMEM, or -E2BIG beyond STAGE_TRIGGERS_MAX and
 * STAGE_TRIGGER_BYTES_MAX. */
int stage_state_add_trigger(struct stage_state *s, const char *text);
void stage_state_clear_triggers(struct stage_state *s);

int stage_no_memory(struct error *e);

struct stage;

struct build_secrets;
struct disk_budget;
struct home;

/* Where caches of RUN are kept, for whom, and how much of the disk they may take. Borrowed. */
struct stage_caches {
	const struct home *home;
	struct disk_budget *budget;
	const char *scope; /* cache_mount.h */
};

struct stage_ops {
	/* Returns the machine. The first call boots it. */
	int (*machine)(void *opaque, struct machine **ret, struct error *e);
	/* Returns the files that --from names; "" is the build's directory. Valid until the next
	 * call. */
	int (*files)(void *opaque, const char *from, struct files **ret, struct error *e);
	/* Fetches a URL, once in a build. Its content and its digest ("sha256:...") are borrowed
	 * until the end of the build. The callback is NULL if URLs are not served. */
	int (*fetch)(void *opaque, const char *url, int *ret_fd, const char **ret_digest,
		struct error *e);
	/* Returns the key that names the disk of --from. */
	int (*source_key)(
		void *opaque, const char *from, char ret[STEP_KEY_BYTES], struct error *e);
	/* Get what commands write, and notes for people. A negative result ends the build. */
	int (*output)(void *opaque, const void *data, size_t n);
	void (*note)(void *opaque, unsigned line, const char *text);
	void *opaque;
};

struct stage {
	const struct dockerfile *file;
	const struct vars *global; /* ARGs before the first FROM, and predefined ones */
	const struct vars *build_args;
	const struct build_secrets *secrets; /* or NULL */
	const struct stage_caches *caches;   /* NULL: caches are not kept */
	const char *trust; /* PEM of authorities that commands trust besides the image's; or NULL */
	unsigned line;	   /* line of the present step, for notes */
	struct stage_ops ops;
	struct stage_state state;
	struct vars args;
	bool command_is_own; /* this stage has its own CMD */
	bool saw_secret;     /* a step had one, so the machine's memory may hold it */
};

/* Whether a step changes the disk. Other steps only change the state. */
bool stage_changes_disk(const struct dockerfile_step *step);

/* Makes the digest of a step that changes the disk. It covers all that the step depends on,
 * including the disk. */
int stage_key(struct stage *s, const struct dockerfile_step *step, char ret[STEP_KEY_BYTES],
	struct error *e);

/* Changes the state as a step would that changes the disk, without running it. */
int stage_skip(struct stage *s, const struct dockerfile_step *step, struct error *e);

/* Runs one step. Errors say what is wrong; the caller adds which step it was. */
int stage_step(struct stage *s, const struct dockerfile_step *step, struct error *e);

/* Sets the variables of an ARG in `args`. The value comes from build_args, from `global`, or from
 * the instruction. */
int stage_take_arg(struct vars *args, const struct dockerfile_step *step,
	const struct expand_scope *scope, const struct vars *build_args, const struct vars *global,
	struct error *e);

#endif
