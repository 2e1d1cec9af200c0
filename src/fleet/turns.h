/* Shares of the event loop, for work whose amount somebody else decides: a guest that talks without
 * an end.
 *
 * Members with work stand in a line. Once per turn of the loop those in front are served, each one
 * share, until TURNS_MS have passed. The others keep their places for the next turn, which comes
 * after the loop has looked at clients, timers and everything else. So nobody starves, and all of
 * them together hold the loop for TURNS_MS and one share.
 *
 * One line for the process, for its event-loop thread only. */
#ifndef FLEET_TURNS_H
#define FLEET_TURNS_H

#include <stdbool.h>
#include <uv.h>

enum { TURNS_MS = 4 };

struct turns;

/* Part of the member; all zero before turn_join(). */
struct turn {
	void (*serve)(struct turn *t); /* one share; may ask again, or leave */
	void *arg;
	struct turn *next, *prev;
	struct turns *line; /* NULL: has not joined */
	bool waiting;
};

/* 0 or -ENOMEM. */
int turn_join(struct turn *t, uv_loop_t *loop, void (*serve)(struct turn *t), void *arg);
void turn_leave(struct turn *t); /* whether or not it has joined */
void turn_ask(struct turn *t);	 /* for a share, in the next turn at the earliest; once is enough */

#endif
