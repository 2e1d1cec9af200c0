/* The worker's event loop: descriptors by epoll, level-triggered, and timers. One thread.
 *
 * Watches and timers lie in their owners' structures. Zeroed ones are off. A callback may remove
 * any watch and stop any timer, including its own. They are not called after that. */
#ifndef EGRESS_LOOP_H
#define EGRESS_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

enum { LOOP_EVENTS_MAX = 64 };

struct loop_watch {
	void (*on)(void *arg, uint32_t events);
	void *arg;
	int fd; /* borrowed; close it after loop_remove */
	uint32_t events;
	bool added;
};

struct loop_timer {
	void (*on)(void *arg);
	void *arg;
	uint64_t at_ns; /* 0: stopped */
	struct loop_timer *previous, *next;
};

struct loop {
	int epoll_fd;
	int broker_fd;	 /* where connections come from (dialler/broker.h) */
	bool over;	 /* set it to end loop_run */
	uint64_t now_ns; /* monotonic, of this turn */
	struct loop_timer *first, *last;
	struct epoll_event events[LOOP_EVENTS_MAX];
	int count, at;
};

int loop_init(struct loop *l); /* 0 or -errno */

/* Watches a descriptor for EPOLLIN or EPOLLOUT. Errors and hang-ups are always reported. Returns 0
 * or -errno. */
int loop_add(struct loop *l, struct loop_watch *w, int fd, uint32_t events);
void loop_change(struct loop *l, struct loop_watch *w, uint32_t events);
void loop_remove(struct loop *l, struct loop_watch *w); /* does nothing if off */

/* Calls `on` once, after ms milliseconds. Replaces an earlier time. */
void loop_start(struct loop *l, struct loop_timer *t, uint64_t ms);
void loop_stop(struct loop *l, struct loop_timer *t);

/* Calls `on` once, at the end of this turn. Does nothing if the timer is set already. */
void loop_after(struct loop *l, struct loop_timer *t);

void loop_run(struct loop *l);

#endif
