/* A stream of what the kernel tells the agent about the guest: the mechanism of TRACE and
 * TRACE_FILES.
 *
 * One connection has the events, the newest. It gets AGENT_REPORTS_PER_S; the others are counted.
 * Beyond the rate, events wait in the kernel for a second, and the kernel drops those that do not
 * fit. So a guest that makes events without end does not keep the agent busy. An agent under test
 * tells of its descendants only. */
#ifndef AGENT_REPORT_H
#define AGENT_REPORT_H

#include "conn.h"

struct report {
	struct timer second; /* the first member: report.c finds the report by it */
	struct source events;
	struct conn *reader; /* NULL: nobody asks */
	unsigned left;	     /* of this second */
	uint32_t lost;	     /* not told yet */
	bool late;	     /* what is read has waited for a second: it is only counted */
	/* Takes about `max` events from the descriptor; may lose the reader. */
	void (*read)(struct report *r, unsigned max);
	void (*tell_lost)(struct report *r, uint32_t count);
	void (*close)(struct report *r); /* before the descriptor is closed; or NULL */
};

/* Ends what an older connection has. Call it before the descriptor is made. */
void report_end(struct report *r);
/* Takes the descriptor over, and the connection. Answers OK. */
void report_begin(struct report *r, struct conn *c, int fd);
/* Whether an event is to be told now. If not, it is counted. */
bool report_may_tell(struct report *r);
/* For an event that is not told. */
void report_lose(struct report *r, uint32_t count);

uint32_t report_parent_of(uint32_t pid); /* 0: it is gone */
/* False in an agent under test for what it has not started. */
bool report_is_ours(uint32_t pid);

#endif
