/* The additional work for a build of a hosted agent's version (build/agent_plan.h). */
#ifndef CLI_TEMPLATE_RUN_AGENT_H
#define CLI_TEMPLATE_RUN_AGENT_H

#include <jansson.h>
#include <stdbool.h>

#include "build/agent_plan.h"
#include "build/disk_budget.h"
#include "build/spec.h"
#include "dockerfile/ignore.h"
#include "image/home.h"

struct run_agent {
	bool is; /* a build of an agent */
	struct agent_plan plan;
	const char *registry; /* borrowed from the specification, or NULL */
	const char *caches;   /* likewise; NULL for Dockerfiles, whose RUN says what is kept */
	int fd;		      /* directory of the unpacked files; -1: not unpacked yet */
	char *dir, *user;     /* owned: working directory and user of the program */
	char *trust;	      /* owned: PEM of the authorities that its guest trusts, or NULL */
	uint32_t disk_mb;     /* that its disk grows to; 0: it stays as it is */
};

/* Unpacks the files into `agent` of dirfd, finds out what they are, and adds the plan to s, but for
 * what it stands on (run_agent_needs). */
int run_agent_unpack(struct run_agent *a, struct spec *s, int dirfd, struct disk_budget *budget,
	struct error *e);

/* Waits for a template that a build stands on: that of a runtime, or the operator's of this name,
 * if a runtime has it. *ret is malloc'ed: the template's name. */
typedef int (*run_agent_need_fn)(
	void *opaque, bool runtime, const char *name, char **ret, struct error *e);

/* Calls `need` for the plan's runtime, whose template becomes the base of s. Of a Dockerfile it
 * calls it for names behind FROM that may be templates that are not there. */
int run_agent_needs(const struct run_agent *a, struct spec *s, const struct home *home,
	run_agent_need_fn need, void *opaque, struct error *e);

/* Makes the list of ignored files: `.dockerignore`, and for kinds other than docker also files that
 * no build wants. */
int run_agent_ignore(const struct run_agent *a, struct ignore *ret, struct error *e);

/* Takes the program's command, directory and user from the image. */
int run_agent_take_config(
	struct run_agent *a, const struct home *home, const char *name, struct error *e);

/* {"agent": {"kind", "entry", "protocol", "dir", "user", "settings"}}. Returns NULL when out of
 * memory. */
json_t *run_agent_json(const struct run_agent *a);

/* Takes the daemon's answer to that (agents/warm.h), and the size of the disk from it. Writes into
 * the image what its program is started with before the snapshot (sandbox/entry.h). */
int run_agent_take_answer(struct run_agent *a, const struct home *home, const char *name,
	const char *text, struct error *e);

void run_agent_done(struct run_agent *a);

#endif
