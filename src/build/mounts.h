/* What `RUN --mount` shows a command while it runs, and nobody afterwards.
 *
 *   secret	a file in /run, which is memory. At another place there is a link to it.
 *   bind	a copy of files of the build's directory or a stage.
 *   tmpfs	an empty directory.
 *   cache	the same, or a copy of what `from` and `source` name. Where the stage has caches:
 *		what the last step left there (cache_mount.h).
 *
 * What stands at the target is moved aside and comes back. What the command writes there is gone.
 * Links need an `ln` in the image. ssh is refused. */
#ifndef BUILD_MOUNTS_H
#define BUILD_MOUNTS_H

#include "build/stage_internal.h"

enum { MOUNTS_MAX = DOCKERFILE_FLAGS_MAX };

struct mounts;

/* Sets up all mounts of a step. Variables for secrets are added to env. On failure all is as
 * before. */
int mounts_begin(struct stage *s, const struct dockerfile_step *step, struct machine *m,
	struct vars *env, struct mounts **ret, struct error *e);

/* Ends them, and frees. NULL is fine. */
int mounts_end(struct mounts *x, struct error *e);

/* What they show, without secrets. Of caches only whether they are kept: so a step of a build that
 * keeps none is never taken for one of a build that does. */
int mounts_key(
	struct stage *s, const struct dockerfile_step *step, struct step_key *k, struct error *e);

#endif
