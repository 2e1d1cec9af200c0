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
	struct catalog_removal *removals; /* that wait */
	uv_timer_t retry;		  /* for places on the host */
	uv_timer_t look;		  /* at what builds run beside; while one runs */
	bool idle;			  /* builds run at idle priority */
	bool stopping;
};

#endif
