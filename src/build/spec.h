/* The specification of a build, which the daemon hands to the process that builds. It is a JSON
 * object with a list of E2B's steps. The steps become those of a Dockerfile with one stage.
 *
 *	{"build": the id, which becomes the name of image and template,
 *	 "cpus", "memoryMB", "freeMB": sizes,
 *	 "reserveBytes": of the host's disk, to leave free,
 *	 "force": no step is taken from the cache,
 *	 "base": {"template": NAME},
 *	 	{"snapshot": ID, "memory": false if it has none, "cpus", "memoryMB", "diskMB":
 *	 	sizes of its sandbox}, or {"image": REFERENCE, "auth": "USER:PASSWORD",
 *	 	"own": true if its registry is the operator's, which may be anywhere},
 *	 "start", "ready": commands, may be missing,
 *	 "trust": PEM of authorities that RUN trusts, may be missing,
 *	 "owner": of the steps that are kept (step_cache.h), missing for the operator,
 *	 "cacheMaxSeconds": a step kept longer runs again; may be missing,
 *	 "steps": [{"type", "args", "files": a path of this host,
 *	 	"force": neither it nor a step after it is taken from the cache,
 *	 	"cache": of RUN: the id of a cache (cache_mount.h), which is SPEC_CACHE_DIR then}],
 *	 "agent": of a hosted agent (agent_plan.h); its plan adds base and steps}
 *
 * On a template, steps run as the template's user in its directory. Its start command stays, if the
 * build has none of its own, and begins in the template's directory. On an image, they run as the
 * user `user` in its home; the user is made if the image has none. RUN is a command for a login
 * shell. Files of COPY belong to the current user unless the step says otherwise.
 *
 * The build's directory holds the unpacked files: those of step N in `N`. Steps with the same
 * archive share the directory of the first one. With "context": true instead of "files", a step
 * takes its files from the top of the build's directory. */
#ifndef BUILD_SPEC_H
#define BUILD_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "build/base_snapshot.h"
#include "dockerfile/dockerfile.h"
#include "image/home.h"

#define SPEC_CACHE_DIR "/var/cache/mayfly-packages"

enum {
	SPEC_BYTES_MAX = 4 << 20,
	SPEC_MEMORY_MAX = 32 << 20,
	SPEC_STEPS_MAX = 500,
	SPEC_USER_MAX = 32,
	SPEC_NUMBER_BYTES = 16,
};

struct spec_step {
	unsigned number;   /* from 1 */
	const char *files; /* path of an archive, or NULL */
};

struct spec {
	json_t *root;		/* owned; the strings below are in it */
	struct dockerfile file; /* `line` of a step is its number in the list, 0 for our own */
	const char *build, *auth, *start, *ready; /* the last three may be NULL */
	char *inherited; /* owned: the base's start command, if a step changes its directory */
	bool on_template, own_registry;
	struct base_snapshot snapshot; /* without an id if the base is another */
	uint32_t cpus, memory_mb, free_mb;
	uint64_t reserve_bytes;	 /* of the host's disk, to leave free */
	bool force;		 /* the whole build ignores the cache */
	struct spec_step *steps; /* in the arena: steps with files, each archive once */
	size_t step_count;
};

/* Reads n bytes, except base and steps. Fails with ERROR_USAGE. Call spec_done() in any case. */
int spec_read(const char *text, size_t n, struct spec *ret, struct error *e);
/* Makes a Dockerfile of base and steps. Fails with ERROR_USAGE. */
int spec_make_steps(const struct home *home, struct spec *s, struct error *e);
void spec_done(struct spec *s);

/* Makes the start command of a template, which a login shell runs as it does RUN. *ret is
 * malloc'ed. */
int spec_login_command(const char *command, char **ret, struct error *e);

/* What clients are told of their step `number` (from 1) that failed, where E2B has words. why:
 * what the builder says, without the step's name. malloc'ed; NULL: why has to do (or no memory). */
char *spec_words_of_failure(const struct spec *s, unsigned number, const char *why);

#endif
