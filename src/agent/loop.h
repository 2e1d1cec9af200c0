/* The agent's event loop: one epoll set, one thread, no signal handlers.
 *
 * A source is embedded in its owner. An owner may close its sources at any time, but its memory
 * must live until the round of events ends: pass it to loop_defer_free(). */
#ifndef AGENT_LOOP_H
#define AGENT_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct source {
	int fd;		 /* owned; -1 when closed */
	uint32_t events; /* epoll events to wait for; 0: not in the set, so not even hang-ups are
			  * reported */
	void (*ready)(struct source *s, uint32_t events);
};

struct timer {
	uint64_t at_ns; /* CLOCK_MONOTONIC; 0: not set */
	void (*fire)(struct timer *t);
	struct timer *next, **link;
};

int loop_open(void);
/* Runs rounds until loop_stop(): events, due timers, then after_round(). */
void loop_run(void (*after_round)(void));
void loop_stop(void);
void loop_defer_free(void *p);

/* The descriptor must be non-blocking. */
void source_open(struct source *s, int fd, void (*ready)(struct source *, uint32_t));
int source_wait(struct source *s, uint32_t events); /* 0 or -errno */
void source_close(struct source *s);

/* timer_set sets a timer, or sets it anew; timer_cancel does nothing if it is not set. */
void timer_set(struct timer *t, uint64_t after_ns, void (*fire)(struct timer *));
void timer_cancel(struct timer *t);

#endif
