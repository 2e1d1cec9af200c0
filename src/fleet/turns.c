#include "fleet/turns.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

/* Exists while it has members. */
struct turns {
	uv_idle_t idle; /* active while a member waits, so that the loop does not sleep */
	unsigned members;
	struct turn *first, *last;
};

static struct turns *turns;

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

static void take_out(struct turn *t)
{
	if (!t->waiting)
		return;
	t->waiting = false;
	*(t->prev ? &t->prev->next : &t->line->first) = t->next;
	*(t->next ? &t->next->prev : &t->line->last) = t->prev;
	t->next = t->prev = NULL;
}

static void on_turn(uv_idle_t *h)
{
	struct turns *s = h->data;
	uint64_t end_ns = clock_monotonic_ns() + TURNS_MS * NS_PER_MS;
	struct turn end = {.line = s}; /* members that ask from now on stand behind this mark */

	turn_ask(&end);
	/* the last member may leave meanwhile; the line stays until its handle is closed */
	while (s->first != &end && clock_monotonic_ns() < end_ns) {
		struct turn *t = s->first;

		take_out(t);
		t->serve(t);
	}
	take_out(&end);
	if (s->members && !s->first)
		(void)uv_idle_stop(&s->idle); /* always 0 */
}

int turn_join(struct turn *t, uv_loop_t *loop, void (*serve)(struct turn *t), void *arg)
{
	if (!turns) {
		turns = calloc(1, sizeof(*turns));
		if (!turns)
			return -ENOMEM;
		(void)uv_idle_init(loop, &turns->idle); /* cannot fail */
		turns->idle.data = turns;
	}
	turns->members++;
	*t = (struct turn){.serve = serve, .arg = arg, .line = turns};
	return 0;
}

void turn_ask(struct turn *t)
{
	struct turns *s = t->line;

	if (!s || t->waiting)
		return;
	t->waiting = true;
	t->next = NULL;
	t->prev = s->last;
	*(t->prev ? &t->prev->next : &s->first) = t;
	s->last = t;
	(void)uv_idle_start(&s->idle, on_turn); /* cannot fail: it has a callback */
}

void turn_leave(struct turn *t)
{
	struct turns *s = t->line;

	if (!s)
		return;
	take_out(t);
	t->line = NULL;
	if (--s->members)
		return;
	uv_close((uv_handle_t *)&s->idle, on_closed);
	turns = NULL;
}
