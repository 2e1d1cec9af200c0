/* What the modules of this room share. */
#ifndef CATALOG_CATALOG_INTERNAL_H
#define CATALOG_CATALOG_INTERNAL_H

#include <uv.h>

#include "fleet/fleet.h"

struct build_job;
struct build_watch;
struct catalog_removal;
struct uploads;

struct catalog {
	struct fleet *fleet;
	struct uploads *uploads;
	const struct build_watch *watch;  /* or NULL */
	struct build_job *jobs;		  /* in the order of their arrival */
	struct catalog_removal *removals; /* removals that wait */
	uv_timer_t retry;		  /* tries again to find a place on the host */
	uv_timer_t look;		  /* sets the priority of builds; active while one runs */
	bool idle;			  /* builds run at idle priority */
	bool stopping;
};

/* Removes the steps that builds of a key have kept, in the background. */
void catalog_drop_steps(struct fleet *f, const char *key_id);

#endif
