#include "network/programs.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rate.h"
#include "fleet/agent_link.h"
#include "fleet/fleet.h"
#include "network/activity.h"
#include "network/activity_process.h"

struct programs {
	struct agent_link *link;
	struct activity_log *log;
	struct rate rate;
};

static void note(struct programs *p, const struct agent_program *m)
{
	json_t *said = activity_program(m);

	if (said)
		activity_note(p->log, STORE_ACTIVITY_PROGRAM, said);
	else
		activity_lost(p->log, 1);
	json_decref(said);
}

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct programs *p = arg;
	const struct agent_program *m = &ev->program;

	if (ev->type == AGENT_ERROR)
		log_debug("an agent reports no programs: %s", ev->error.message);
	if (ev->type != AGENT_PROGRAM)
		return;
	if (!rate_take(&p->rate, PROGRAMS_PER_S, clock_monotonic_ns()))
		activity_lost(p->log, 1);
	else if (m->event == AGENT_PROGRAM_LOST)
		activity_lost(p->log, m->value < PROGRAMS_LOST_MAX ? m->value : PROGRAMS_LOST_MAX);
	else
		note(p, m);
}

/* The owner closes it at the sandbox's end. */
static void on_lost(struct agent_link *l, const struct error *why, void *arg)
{
	log_debug("no more programs from an agent: %s", why->message);
}

static const struct agent_link_ops ops = {.event = on_event, .lost = on_lost};

static void programs_close(struct programs *p)
{
	agent_link_close(p->link);
	activity_log_close(p->log);
	free(p);
}

static int ask(struct programs *p, struct instance *i, struct error *e)
{
	int r = instance_agent_connect(i, LINK_OWN, &ops, p, &p->link, e);

	if (r == 0)
		r = agent_request(agent_link_conn(p->link), AGENT_TRACE, NULL, e);
	if (r == 0)
		agent_link_send(p->link);
	return r;
}

void programs_begin(struct instance *i)
{
	struct programs *p;
	struct error e = {0};

	if (i->fleet->options.no_programs || i->transient)
		return;
	if (i->programs) /* of the microVM that this one replaces */
		programs_close(TAKE_PTR(i->programs));
	p = calloc(1, sizeof(*p));
	if (!p)
		return;
	if (ask(p, i, &e) < 0) {
		log_debug("an agent reports no programs: %s sandbox=%s", e.message, i->sandbox.id);
		programs_close(p);
		return;
	}
	p->log = activity_log_open(i->fleet, i->sandbox.id, i->key_id); /* NULL: notes nothing */
	i->programs = p;
	i->programs_close = programs_close;
}
