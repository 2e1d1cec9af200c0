/* Work that a tenant can make long. A lane has `max` places, and `key_max` of them for one key, so that
 * no tenant holds up the creates and kills of all, nor such work of others. The daemon has three:
 *
 *	lane	pauses and snapshots, which wait for a guest's agent and the host's disk
 *	boots	new pairs of sizes, for which a template is booted once
 *	diffs	comparisons; they run on the loop and hold a place meanwhile
 *
 * Work of a thread that finds no place waits, in the order of its coming; it goes past whatever waits
 * for its own key's share only. Work of the loop is refused instead. On the loop's thread. */
#ifndef DAEMON_LANE_H
#define DAEMON_LANE_H

#include <stdbool.h>
#include <uv.h>

enum {
	LANE_MAX = 8,
	LANE_KEY_MAX = 4,
	BOOTS_MAX = 2,
	BOOTS_KEY_MAX = 1,
	BOOTS_KEY_WAITING = 8, /* creations of one key that wait or boot */
	DIFFS_MAX = 4,
	DIFFS_KEY_MAX = 2,
};

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
	unsigned max, key_max;
	struct lane_job *waiting, *running;
	unsigned count; /* running */
};

void lane_add(struct lane *l, struct lane_job *j);
/* Jobs of the key that wait or run. */
unsigned lane_count_of(const struct lane *l, const char *key_id);

/* A place for work of the loop: run and done are not called. False: there is none. lane_leave() comes
 * next. */
bool lane_enter(struct lane *l, struct lane_job *j);
void lane_leave(struct lane_job *j);

/* One that has not begun does not: `done` comes next. Nothing else is changed. */
void lane_cancel(struct lane_job *j);
/* All that have not begun. */
void lane_cancel_all(struct lane *l);

#endif
