#include "fleet/gate.h"

#include <assert.h>
#include <stdlib.h>

#include "base/metrics.h"

struct gate {
	uv_timer_t late; /* runs out when the first of the line has waited for too long */
	struct gate_ticket *first, *last; /* the line */
	unsigned taken;			  /* places */
	unsigned waiting, tickets;	  /* tickets in the line; those and the ones inside */
	bool closed, timer_open;
};

static void on_late(uv_timer_t *t);

/* --- its life --- */

struct gate *gate_new(uv_loop_t *loop)
{
	struct gate *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	(void)uv_timer_init(loop, &g->late); /* cannot fail */
	uv_unref((uv_handle_t *)&g->late);
	g->late.data = g;
	g->timer_open = true;
	return g;
}

static void free_if_unused(struct gate *g)
{
	if (g->closed && !g->timer_open && !g->tickets)
		free(g);
}

static void on_timer_closed(uv_handle_t *h)
{
	struct gate *g = h->data;

	g->timer_open = false;
	free_if_unused(g);
}

/* --- the line --- */

/* Whoever entered the line first is late first, as all may wait equally long. */
static void set_timer(struct gate *g)
{
	uint64_t now_ms = uv_now(g->late.loop);

	if (g->closed)
		return;
	if (!g->first)
		(void)uv_timer_stop(&g->late); /* always 0 */
	else				       /* cannot fail: it has a callback */
		(void)uv_timer_start(&g->late, on_late,
			g->first->late_ms > now_ms ? g->first->late_ms - now_ms : 0, 0);
}

static void join(struct gate *g, struct gate_ticket *t)
{
	t->state = GATE_WAITS;
	t->late_ms = uv_now(g->late.loop) + GATE_WAIT_MS;
	t->next = NULL;
	t->prev = g->last;
	*(t->prev ? &t->prev->next : &g->first) = t;
	g->last = t;
	g->waiting++;
	metrics_add(METRIC_LINKS_WAITING, NULL, NULL, 1);
}

static void take_out(struct gate *g, struct gate_ticket *t)
{
	*(t->prev ? &t->prev->next : &g->first) = t->next;
	*(t->next ? &t->next->prev : &g->last) = t->prev;
	t->next = t->prev = NULL;
	g->waiting--;
	metrics_add(METRIC_LINKS_WAITING, NULL, NULL, -1);
}

static bool has_room(const struct gate *g, const struct gate_ticket *t)
{
	return g->taken + t->places <= GATE_PLACES;
}

static void let_in(struct gate *g, struct gate_ticket *t)
{
	t->state = GATE_IN;
	g->taken += t->places;
}

/* Ends the wait of the line's first. */
static void call(struct gate *g, enum gate_state state)
{
	struct gate_ticket *t = g->first;

	take_out(g, t);
	if (state == GATE_IN)
		let_in(g, t);
	else
		t->state = state;
	t->called(t);
}

/* Lets in those of the line that have room now. */
static void advance(struct gate *g)
{
	while (g->first && has_room(g, g->first))
		call(g, GATE_IN);
	set_timer(g);
}

static void refuse(struct gate *g, const char *reason, bool first)
{
	metrics_add(METRIC_LINKS_REFUSED, reason, NULL, 1);
	if (first)
		call(g, GATE_REFUSED);
}

static void on_late(uv_timer_t *timer)
{
	struct gate *g = timer->data;

	while (g->first && g->first->late_ms <= uv_now(timer->loop))
		refuse(g, "late", true);
	advance(g); /* the next one may need fewer places */
}

void gate_close(struct gate *g)
{
	if (!g)
		return;
	g->closed = true;
	while (g->first)
		call(g, GATE_CLOSED);
	uv_close((uv_handle_t *)&g->late, on_timer_closed);
}

/* --- tickets --- */

void gate_enter(struct gate *g, struct gate_ticket *t, unsigned places)
{
	assert(t->state == GATE_NONE && places >= 1 && places <= GATE_TICKET_PLACES_MAX);
	t->gate = g;
	t->places = places;
	g->tickets++;
	if (g->closed) {
		t->state = GATE_CLOSED;
	} else if (!g->first && has_room(g, t)) {
		let_in(g, t);
	} else if (g->waiting < GATE_WAITING_MAX) {
		join(g, t);
		set_timer(g);
	} else {
		t->state = GATE_REFUSED;
		refuse(g, "full", false);
	}
}

void gate_leave(struct gate_ticket *t)
{
	struct gate *g = t->gate;

	if (t->state == GATE_NONE)
		return;
	if (t->state == GATE_WAITS)
		take_out(g, t);
	if (t->state == GATE_IN)
		g->taken -= t->places;
	t->state = GATE_NONE;
	t->gate = NULL;
	g->tickets--;
	advance(g);
	free_if_unused(g);
}

void gate_pass(struct gate_ticket *from, struct gate_ticket *to)
{
	assert(from->state == GATE_NONE || from->state == GATE_IN);
	assert(to->state == GATE_NONE);
	to->state = from->state;
	to->gate = from->gate;
	to->places = from->places;
	from->state = GATE_NONE;
	from->gate = NULL;
}
