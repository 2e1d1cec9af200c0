#include "egress/loop.h"

#include <errno.h>

#include "base/clock.h"

enum { WAIT_MAX_MS = 60000 };

/* #calls egress: epoll_create1 */
int loop_init(struct loop *l)
{
	*l = (struct loop){.now_ns = clock_monotonic_ns()};
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return l->epoll_fd < 0 ? -errno : 0;
}

/* --- descriptors --- */

/* #calls egress: epoll_ctl */
int loop_add(struct loop *l, struct loop_watch *w, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = w};

	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		return -errno;
	w->fd = fd;
	w->events = events;
	w->added = true;
	return 0;
}

void loop_change(struct loop *l, struct loop_watch *w, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = w};

	if (!w->added || w->events == events)
		return;
	w->events = events;
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, w->fd, &e); /* it is in the set */
}

void loop_remove(struct loop *l, struct loop_watch *w)
{
	if (!w->added)
		return;
	w->added = false;
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL); /* it is in the set */
	for (int i = l->at; i < l->count; i++)
		if (l->events[i].data.ptr == w)
			l->events[i].data.ptr = NULL;
}

/* --- timers: a list in the order of time. Most are set for the end, or near it. --- */

void loop_stop(struct loop *l, struct loop_timer *t)
{
	if (!t->at_ns)
		return;
	t->at_ns = 0;
	*(t->previous ? &t->previous->next : &l->first) = t->next;
	*(t->next ? &t->next->previous : &l->last) = t->previous;
}

void loop_start(struct loop *l, struct loop_timer *t, uint64_t ms)
{
	struct loop_timer *before;

	loop_stop(l, t);
	t->at_ns = l->now_ns + ms * NS_PER_MS;
	for (before = l->last; before && before->at_ns > t->at_ns;)
		before = before->previous;
	t->previous = before;
	t->next = before ? before->next : l->first;
	*(before ? &before->next : &l->first) = t;
	*(t->next ? &t->next->previous : &l->last) = t;
}

void loop_after(struct loop *l, struct loop_timer *t)
{
	if (t->at_ns)
		return;
	t->at_ns = l->first && l->first->at_ns < l->now_ns ? l->first->at_ns : l->now_ns;
	t->previous = NULL;
	t->next = l->first;
	*(l->first ? &l->first->previous : &l->last) = t;
	l->first = t;
}

static void run_timers(struct loop *l)
{
	while (l->first && l->first->at_ns <= l->now_ns && !l->over) {
		struct loop_timer *t = l->first;

		loop_stop(l, t);
		t->on(t->arg);
	}
}

/* --- turns --- */

/* #calls musl egress: epoll_pwait
 * #calls glibc egress: epoll_wait */
static void wait_events(struct loop *l)
{
	int ms = l->first ? clock_ms_until(l->first->at_ns, WAIT_MAX_MS) : -1;

	l->at = 0;
	l->count = epoll_wait(l->epoll_fd, l->events, LOOP_EVENTS_MAX, ms);
	l->now_ns = clock_monotonic_ns();
}

void loop_run(struct loop *l)
{
	while (!l->over) {
		wait_events(l);
		while (l->at < l->count && !l->over) {
			struct epoll_event e = l->events[l->at++];
			struct loop_watch *w = e.data.ptr;

			if (w)
				w->on(w->arg, e.events);
		}
		run_timers(l);
	}
}
