#include "loop.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

enum { EVENTS_PER_ROUND = 64, DEFERRED_MAX = 2048 };

static int epoll_fd = -1;
static bool stopping;
static struct timer *timers; /* unsorted: usually a handful, at most a few hundred */
static void *deferred[DEFERRED_MAX];
static unsigned deferred_count;

int loop_open(void)
{
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return epoll_fd < 0 ? -errno : 0;
}

void loop_stop(void)
{
	stopping = true;
}

void loop_defer_free(void *p)
{
	if (deferred_count < DEFERRED_MAX)
		deferred[deferred_count++] = p;
	/* otherwise leaked: more owners than can exist ended in one round */
}

void source_open(struct source *s, int fd, void (*ready)(struct source *, uint32_t))
{
	*s = (struct source){.fd = fd, .ready = ready};
}

int source_wait(struct source *s, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = s};
	int op = !events ? EPOLL_CTL_DEL : s->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (s->fd < 0 || events == s->events)
		return 0;
	if (epoll_ctl(epoll_fd, op, s->fd, &ev) < 0)
		return -errno;
	s->events = events;
	return 0;
}

void source_close(struct source *s)
{
	if (s->fd < 0)
		return;
	/* Close alone does not remove it from the set: a child may hold a copy. A helper has one
	 * until it closes what it does not need. Any other child has one until its exec, after
	 * vfork has returned. */
	(void)source_wait(s, 0); /* fails only for a source that is not in the set */
	(void)close(s->fd);	 /* closing pipes and sockets loses nothing */
	s->fd = -1;
	s->events = 0;
}

void timer_cancel(struct timer *t)
{
	if (!t->at_ns)
		return;
	*t->link = t->next;
	if (t->next)
		t->next->link = t->link;
	t->at_ns = 0;
}

void timer_set(struct timer *t, uint64_t after_ns, void (*fire)(struct timer *))
{
	timer_cancel(t);
	t->at_ns = clock_monotonic_ns() + after_ns;
	t->fire = fire;
	t->next = timers;
	t->link = &timers;
	if (timers)
		timers->link = &t->next;
	timers = t;
}

static int next_timeout_ms(void)
{
	uint64_t first = UINT64_MAX, now;

	if (!timers)
		return -1;
	for (const struct timer *t = timers; t; t = t->next)
		if (t->at_ns < first)
			first = t->at_ns;
	now = clock_monotonic_ns();
	if (first <= now)
		return 0;
	first = (first - now + NS_PER_MS - 1) / NS_PER_MS;
	return first > 3600000 ? 3600000 : (int)first;
}

/* A timer's function may set and cancel any timer, so restart the search after each. */
static void fire_timers(void)
{
	uint64_t now = timers ? clock_monotonic_ns() : 0;
	struct timer *t = timers;

	while (t) {
		if (t->at_ns > now) {
			t = t->next;
			continue;
		}
		timer_cancel(t);
		t->fire(t);
		t = timers;
	}
}

static void free_deferred(void)
{
	while (deferred_count)
		free(deferred[--deferred_count]);
}

void loop_run(void (*after_round)(void))
{
	struct epoll_event events[EVENTS_PER_ROUND];

	while (!stopping) {
		int n = epoll_wait(epoll_fd, events, EVENTS_PER_ROUND, next_timeout_ms());

		for (int i = 0; i < n; i++) {
			struct source *s = events[i].data.ptr;

			if (s->fd >= 0 && s->events)
				s->ready(s, events[i].events);
		}
		fire_timers();
		after_round();
		free_deferred();
	}
}
