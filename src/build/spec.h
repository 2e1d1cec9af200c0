/* A build as a list of E2B's steps, as the daemon hands
 * it to the process that builds: a JSON object, whose steps become those of a Dockerfile with one
 * stage.
 *
 * 	{"build": the id, which becomes the name of image and template,
 * 	 "cpus", "memoryMB", "freeMB": sizes,
 * 	 "reserveBytes": of the host's disk, to leave free,
 * 	 "force": no step is taken from the cache,
 * 	 "base": {"template": NAME} or {"image": REFERENCE, "auth": "USER:PASSWORD",
 * 	 	"own": true if its registry is the operator's, which may be anywhere},
 * 	 "start", "ready": commands, may be missing,
 * 	 "steps": [{"type", "args", "files": a path of this host,
 * 	 	"force": neither it nor a step after it is taken from the cache}],
 * 	 "agent": of a hosted agent (agent_plan.h); its plan adds base and steps}
 *
 * Steps run as `user`, who is made where the base has no such user, in that user's home; on a
 * template, as its user in its directory. RUN is a command of a login shell. Files of COPY belong
 * to the current user unless the step says otherwise.
 *
 * Files are in the build's directory, unpacked: those of step N in `N`, or where the first step
 * with the same archive has them. With "context": true instead of files, the build's directory has
 * them as they are. */
#ifndef BUILD_SPEC_H
#define BUILD_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "build/dockerfile.h"
#include "image/home.h"

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
	json_t *root;		/* owned; has the strings */
	struct dockerfile file; /* `line` of a step is the number of E2B's, 0 for our own */
	const char *build, *auth, *start, *ready; /* the last three or NULL */
	bool on_template, own_registry;
	uint32_t cpus, memory_mb, free_mb;
	uint64_t reserve_bytes;	 /* of the host's disk, to leave free */
	bool force;		 /* the whole build */
	struct spec_step *steps; /* of the arena: those with files, an archive once */
	size_t step_count;
};

/* Reads n bytes, but for base and steps. ERROR_USAGE; call spec_done in any case. */
int spec_read(const char *text, size_t n, struct spec *ret, struct error *e);
/* Makes a Dockerfile of base and steps. ERROR_USAGE. */
int spec_make_steps(const struct home *home, struct spec *s, struct error *e);
void spec_done(struct spec *s);

/* The start command for a template: run by a login shell, as RUN is. *ret is malloc'ed. */
int spec_login_command(const char *command, char **ret, struct error *e);

#endif
