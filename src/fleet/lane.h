/* Work of the daemon's threads that a guest can make long, such as a pause, which waits for the
 * guest's agent and the host's disk. No more than LANE_MAX of the threads are at it, and no more than
 * LANE_KEY_MAX for one key, so that no tenant holds up the creates and kills of all, nor the pauses
 * of others. What comes beyond waits, in the order of its coming; it goes past whatever waits for its
 * own key's share only. On the loop's thread. */
#ifndef DAEMON_LANE_H
#define DAEMON_LANE_H

#include <stdbool.h>
#include <uv.h>

enum { LANE_MAX = 8, LANE_KEY_MAX = 4 };

struct lane;

/* The owner's, from lane_add() until `done`. */
struct lane_job {
	const char *key_id;		 /* borrowed, like the job itself */
	void (*run)(struct lane_job *j); /* in a thread */
	/* When it has run, or was cancelled instead; never within a call of this module. */
	void (*done)(struct lane_job *j, bool cancelled);
	void *data;
	/* Ours. */
	struct lane_job *next;
	struct lane *lane;
	bool waiting, cancelled;
	uv_work_t work;
};

struct lane {
	uv_loop_t *loop;
	struct lane_job *waiting, *running;
	unsigned count; /* running */
};

void lane_add(struct lane *l, struct lane_job *j);
/* One that has not begun does not: `done` comes next. Nothing else is changed. */
void lane_cancel(struct lane_job *j);
/* All that have not begun. */
void lane_cancel_all(struct lane *l);

#endif
