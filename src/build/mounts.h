/* Mounts of `RUN --mount`: files that a command sees while it runs, and that the image does not
 * get.
 *
 *   secret	a file in /run, which is memory. Another target gets a link to it.
 *   bind	a copy of files of the build's directory or a stage.
 *   tmpfs	an empty directory.
 *   cache	the same, or a copy of what `from` and `source` name. If the stage has caches:
 *		what the last step left there (cache_mount.h).
 *
 * What is at the target is moved aside and comes back. What the command writes there is lost,
 * except in caches. Links need `ln` in the image. Type ssh is refused. */
#ifndef BUILD_MOUNTS_H
#define BUILD_MOUNTS_H

#include "build/stage_internal.h"

enum { MOUNTS_MAX = DOCKERFILE_FLAGS_MAX };

struct mounts;

/* Sets up all mounts of a step. Adds variables for secrets to env. On failure it undoes
 * everything. */
int mounts_begin(struct stage *s, const struct dockerfile_step *step, struct machine *m,
	struct vars *env, struct mounts **ret, struct error *e);

/* Removes the mounts and frees x. NULL is fine. */
int mounts_end(struct mounts *x, struct error *e);

/* Adds the content of the mounts to a digest, without secrets. Of a cache it adds only whether it
 * is kept, and for whom. So a build that keeps no caches never shares a step with a build that
 * does, and no step goes from one scope to another. */
int mounts_key(
	struct stage *s, const struct dockerfile_step *step, struct step_key *k, struct error *e);

#endif
