#include "report.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "guest.h"
#include "procfs.h"

enum {
	READS_PER_ROUND = 64,
	WAITING_MAX = 1024, /* of a second */
	ANCESTORS_MAX = 64,
};

uint32_t report_parent_of(uint32_t pid)
{
	_cleanup_free_ char *text = NULL;
	struct task_stat st;
	char dir[32];

	(void)snprintf(dir, sizeof(dir), "/proc/%u", pid); /* fits */
	return task_read(dir, &text, &st) < 0 ? 0 : st.parent;
}

bool report_is_ours(uint32_t pid)
{
	for (int i = 0; !guest.init && pid != (uint32_t)getpid(); i++) {
		if (pid <= 1 || i == ANCESTORS_MAX)
			return false;
		pid = report_parent_of(pid);
	}
	return true;
}

static void next_second(struct timer *t)
{
	struct report *r = (struct report *)t;
	uint32_t lost;

	r->left = AGENT_REPORTS_PER_S;
	r->late = true;
	r->read(r, WAITING_MAX);
	r->late = false;
	if (!r->reader)
		return;
	lost = r->lost;
	if (lost && conn_has_room(r->reader)) {
		r->lost = 0;
		r->tell_lost(r, lost);
	}
	if (r->lost)
		timer_set(t, NS_PER_S, next_second);
	(void)source_wait(&r->events, EPOLLIN); /* it was before */
}

void report_lose(struct report *r, uint32_t count)
{
	r->lost += count;
	if (!r->second.at_ns && !r->late)
		timer_set(&r->second, NS_PER_S, next_second);
}

bool report_may_tell(struct report *r)
{
	if (!r->second.at_ns)
		timer_set(&r->second, NS_PER_S, next_second);
	if (r->left && conn_has_room(r->reader)) {
		r->left--;
		return true;
	}
	r->lost++;
	(void)source_wait(&r->events, 0); /* it is in the set */
	return false;
}

static void events_ready(struct source *s, uint32_t unused)
{
	struct report *r = (void *)((char *)s - offsetof(struct report, events));

	r->read(r, READS_PER_ROUND);
}

/* --- the stream --- */

static void close_report(struct conn *c)
{
	struct report *r = c->stream;

	if (r->close)
		r->close(r);
	source_close(&r->events);
	timer_cancel(&r->second);
	r->reader = NULL;
}

static bool take_message(struct conn *c, const struct agent_frame *f)
{
	if (f->type != AGENT_STOP)
		return false;
	close_report(c);
	conn_end_stream(c);
	conn_send(c, AGENT_END, NULL);
	return true;
}

static const struct stream_ops report_ops = {.message = take_message, .lost = close_report};

void report_end(struct report *r)
{
	if (r->reader)
		conn_close(r->reader);
}

void report_begin(struct report *r, struct conn *c, int fd)
{
	source_open(&r->events, fd, events_ready);
	r->left = AGENT_REPORTS_PER_S;
	r->lost = 0;
	r->reader = c;
	(void)source_wait(&r->events, EPOLLIN); /* else nothing is told */
	conn_send(c, AGENT_OK, NULL);
	conn_take_over(c, &report_ops, r);
}
