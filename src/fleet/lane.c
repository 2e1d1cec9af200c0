#include "fleet/lane.h"

#include <errno.h>
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

static void add_up(const struct lane_job *list, const char *key_id, struct lane_promise *sum)
{
	for (const struct lane_job *j = list; j; j = j->next)
		if (!key_id || strcmp(j->key_id, key_id) == 0) {
			sum->states += j->promise.states;
			sum->bytes += j->waiting ? 0 : j->promise.bytes;
			sum->writes += j->waiting ? 0 : j->promise.writes;
		}
}

struct lane_promise lane_promised(const struct lane *l, const char *key_id)
{
	struct lane_promise sum = {0};

	add_up(l->running, key_id, &sum);
	add_up(l->waiting, key_id, &sum);
	return sum;
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
	j->done(j, j->cancelled); /* first, for others may wait until its promise is kept */
	start_some(l);
}

static void start(struct lane_job *j)
{
	take_out(&j->lane->waiting, j);
	j->waiting = false;
	(void)uv_queue_work(j->lane->loop, &j->work, work, work_done); /* cannot fail */
}

/* Keys with a job that is not admitted yet: their other jobs are not asked. */
struct held {
	const char *keys[LANE_HELD_MAX];
	unsigned count;
};

static bool is_held(const struct held *h, const char *key_id)
{
	for (unsigned i = 0; i < h->count; i++)
		if (strcmp(h->keys[i], key_id) == 0)
			return true;
	return false;
}

static bool may_start(struct lane_job *j, struct held *h)
{
	int r;

	if (count_in(j->lane->running, j->key_id) >= j->lane->key_max || is_held(h, j->key_id))
		return false;
	r = j->admit ? j->admit(j) : 0;
	if (r == -EAGAIN)
		h->keys[h->count++] = j->key_id;
	else if (r < 0)
		lane_cancel(j);
	return r == 0;
}

static void start_some(struct lane *l)
{
	struct held held = {.count = 0};

	for (struct lane_job *j = l->waiting, *next;
		j && l->count < l->max && held.count < LANE_HELD_MAX; j = next) {
		next = j->next;
		if (!may_start(j, &held))
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

void lane_ask_again(struct lane *l)
{
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
