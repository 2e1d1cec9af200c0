/* Shares the event loop fairly among work whose amount others decide, such as a guest that talks
 * without end. Every link that a guest can fill is a member: agents (agent_link.c), ports
 * (upstream.c), workers (network/egress_link.c), and the processes of builds (catalog/jobs.c).
 *
 * Members with work stand in a line. In each turn of the loop those in front are served, one share
 * each, until TURNS_MS have passed. The others keep their places for the next turn, after the loop
 * has served clients, timers and everything else. So nobody starves, and all members together hold
 * the loop for at most TURNS_MS plus one share.
 *
 * One line per process, for its event-loop thread only. */
#ifndef FLEET_TURNS_H
#define FLEET_TURNS_H

#include <stdbool.h>
#include <uv.h>

enum { TURNS_MS = 4 };

struct turns;

/* Embedded in the member; all zero before turn_join(). */
struct turn {
	void (*serve)(struct turn *t); /* does one share of work; may ask again, or leave */
	void *arg;
	struct turn *next, *prev;
	struct turns *line; /* NULL: not joined */
	bool waiting;
};

/* 0 or -ENOMEM. */
int turn_join(struct turn *t, uv_loop_t *loop, void (*serve)(struct turn *t), void *arg);
void turn_leave(struct turn *t); /* also fine if it has not joined */
void turn_ask(struct turn *t);	 /* asks for a share, next turn at the earliest; once is enough */

#endif
