/* Limits work that a tenant can make long. A lane has `max` places, of which one key gets at most
 * `key_max`. So no tenant delays everybody's creates and kills, or the same work of others. The
 * daemon has three lanes:
 *
 *	lane	pauses and snapshots, which wait for a guest's agent and the host's disk
 *	boots	new pairs of sizes, for which a template is booted once
 *	diffs	comparisons, which run on the loop and hold a place meanwhile
 *
 * A job for a thread that finds no place waits, in order of arrival. It may overtake only jobs
 * whose own key has no place left. Work on the loop does not wait; it is refused. All functions are
 * for the loop's thread.
 *
 * A job may promise how much it will add to something that has a limit (kept.h). Code that checks
 * this limit adds lane_promised(), because nothing else counts what jobs under way will add. */
#ifndef FLEET_LANE_H
#define FLEET_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum {
	LANE_MAX = 8,
	LANE_KEY_MAX = 4,
	BOOTS_MAX = 2,
	BOOTS_KEY_MAX = 1,
	BOOTS_KEY_WAITING = 8, /* creations of one key that wait or boot */
	/* Keys with a job that `admit` put off; with this many, all other jobs wait, too. */
	LANE_HELD_MAX = 8,
	DIFFS_MAX = 4,
	DIFFS_KEY_MAX = 2,
};

struct lane;

struct lane_promise {
	unsigned states; /* what it keeps is counted from lane_add() to `done` */
	/* From its beginning to `done`, at most: */
	uint64_t bytes;	 /* of what it keeps */
	uint64_t writes; /* of these, those that are not on the disk yet */
};

/* The caller owns the job and keeps it from lane_add() until `done`. */
struct lane_job {
	const char *key_id; /* borrowed, like the job itself */
	struct lane_promise promise;
	/* Whether the job may begin, asked when there is a place for it. -EAGAIN: not before
	 * another job of the lane is done, or lane_ask_again(). Any other error:
	 * never, it is cancelled. NULL: it may. */
	int (*admit)(struct lane_job *j);
	void (*run)(struct lane_job *j); /* in a thread */
	/* Called after the job has run, or was cancelled instead; never from within a function of
	 * this module. Its promise ends when this returns. */
	void (*done)(struct lane_job *j, bool cancelled);
	void *data;
	/* Private. */
	struct lane_job *next;
	struct lane *lane;
	bool waiting, cancelled;
	uv_work_t work;
};

struct lane {
	uv_loop_t *loop;
	unsigned max, key_max;
	struct lane_job *waiting, *running;
	unsigned count; /* running */
};

/* Adds a job for a thread. It begins now or when it has a place; `done` is called in any case. */
void lane_add(struct lane *l, struct lane_job *j);
/* The number of the key's jobs that wait or run. */
unsigned lane_count_of(const struct lane *l, const char *key_id);

/* The sum of what the key's jobs promise; key_id NULL: of all. */
struct lane_promise lane_promised(const struct lane *l, const char *key_id);

/* Takes a place for work on the loop; run and done are not called. Returns false if there is none.
 * On true, lane_leave() must follow. */
bool lane_enter(struct lane *l, struct lane_job *j);
void lane_leave(struct lane_job *j);

/* Asks `admit` of waiting jobs again. Call it when something that an `admit` looks at has
 * changed. */
void lane_ask_again(struct lane *l);

/* Cancels a job that has not begun: `done` follows. No effect on any other job. */
void lane_cancel(struct lane_job *j);
/* Cancels all jobs that have not begun. */
void lane_cancel_all(struct lane *l);

#endif
