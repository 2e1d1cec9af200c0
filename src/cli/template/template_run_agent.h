/* What the build of a hosted agent's version does beside that of a template (agent_plan.h). */
#ifndef CLI_TEMPLATE_RUN_AGENT_H
#define CLI_TEMPLATE_RUN_AGENT_H

#include <jansson.h>
#include <stdbool.h>

#include "build/agent_plan.h"
#include "build/disk_budget.h"
#include "build/ignore.h"
#include "build/spec.h"
#include "image/home.h"

struct run_agent {
	bool is; /* a build of an agent */
	struct agent_plan plan;
	const char *registry; /* borrowed of the specification, or NULL */
	int fd;		      /* of the unpacked files; -1: not yet */
	char *dir, *user;     /* owned: where the program runs, and as whom */
};

/* Unpacks the files into `agent` of dirfd, finds out what they are, and adds the plan to s. */
int run_agent_unpack(struct run_agent *a, struct spec *s, int dirfd, struct disk_budget *budget,
	struct error *e);

/* `.dockerignore`, and for other kinds than docker what no build wants. */
int run_agent_ignore(const struct run_agent *a, struct ignore *ret, struct error *e);

/* The program starts when it is invoked, so the template does not start it. */
int run_agent_take_config(
	struct run_agent *a, const struct home *home, const char *name, struct error *e);

/* {"agent": {"kind", "entry", "protocol", "dir", "user", "settings"}}. NULL: out of memory. */
json_t *run_agent_json(const struct run_agent *a);

void run_agent_done(struct run_agent *a);

#endif
