#include "fleet/lane.h"

#include <string.h>

static unsigned count_in(const struct lane_job *list, const char *key_id)
{
	unsigned n = 0;

	for (const struct lane_job *j = list; j; j = j->next)
		n += strcmp(j->key_id, key_id) == 0;
	return n;
}

unsigned lane_count_of(const struct lane *l, const char *key_id)
{
	return count_in(l->running, key_id) + count_in(l->waiting, key_id);
}

static void take_out(struct lane_job **list, const struct lane_job *j)
{
	while (*list != j)
		list = &(*list)->next;
	*list = j->next;
}

static void work(uv_work_t *w)
{
	struct lane_job *j = w->data;

	if (!j->cancelled)
		j->run(j);
}

static void start_some(struct lane *l);

static void work_done(uv_work_t *w, int status)
{
	struct lane_job *j = w->data;
	struct lane *l = j->lane;

	if (!j->cancelled) {
		take_out(&l->running, j);
		l->count--;
	}
	start_some(l);
	j->done(j, j->cancelled);
}

static void start(struct lane_job *j)
{
	take_out(&j->lane->waiting, j);
	j->waiting = false;
	(void)uv_queue_work(j->lane->loop, &j->work, work, work_done); /* cannot fail */
}

static void start_some(struct lane *l)
{
	for (struct lane_job *j = l->waiting, *next; j && l->count < l->max; j = next) {
		next = j->next;
		if (count_in(l->running, j->key_id) >= l->key_max)
			continue;
		start(j);
		j->next = l->running;
		l->running = j;
		l->count++;
	}
}

void lane_add(struct lane *l, struct lane_job *j)
{
	struct lane_job **end = &l->waiting;

	while (*end)
		end = &(*end)->next;
	*end = j;
	j->next = NULL;
	j->lane = l;
	j->work.data = j;
	j->waiting = true;
	start_some(l);
}

void lane_cancel(struct lane_job *j)
{
	if (!j->waiting)
		return;
	j->cancelled = true;
	start(j); /* the thread finds nothing to do */
}

void lane_cancel_all(struct lane *l)
{
	while (l->waiting)
		lane_cancel(l->waiting);
}

bool lane_enter(struct lane *l, struct lane_job *j)
{
	if (l->count >= l->max || count_in(l->running, j->key_id) >= l->key_max)
		return false;
	j->lane = l;
	j->next = l->running;
	l->running = j;
	l->count++;
	return true;
}

void lane_leave(struct lane_job *j)
{
	struct lane *l = j->lane;

	take_out(&l->running, j);
	l->count--;
	start_some(l);
}
