#include "network/reports.h"

#include <jansson.h>
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

/* Of one kind. */
struct report {
	enum agent_type request;
	struct activity_log *log; /* of all */
	struct agent_link *link;  /* NULL: not asked for */
	struct rate rate;
};

struct reports {
	struct activity_log *log;
	struct report programs, files;
};

static void note(struct report *p, enum store_activity_kind kind, json_t *said)
{
	if (said)
		activity_note(p->log, kind, said);
	else
		activity_lost(p->log, 1);
	json_decref(said);
}

static void note_lost(struct report *p, uint32_t count)
{
	activity_lost(p->log, count < REPORTS_LOST_MAX ? count : REPORTS_LOST_MAX);
}

static void take_program(struct report *p, const struct agent_program *m)
{
	if (m->event == AGENT_PROGRAM_LOST)
		note_lost(p, m->value);
	else
		note(p, STORE_ACTIVITY_PROGRAM, activity_program(m));
}

static void take_file(struct report *p, const struct agent_file *m)
{
	if (m->event == AGENT_FILE_LOST)
		note_lost(p, m->value);
	else
		note(p, STORE_ACTIVITY_FILE, activity_file(m));
}

static void take_none(struct report *p, const char *why)
{
	log_debug("an agent makes no reports: %s", why);
	if (p->request == AGENT_TRACE_FILES)
		note(p, STORE_ACTIVITY_FILE, activity_no_files(why));
}

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct report *p = arg;

	if (ev->type == AGENT_ERROR)
		take_none(p, ev->error.message);
	if (ev->type != AGENT_PROGRAM && ev->type != AGENT_FILE)
		return;
	if (!rate_take(&p->rate, REPORTS_PER_S, clock_monotonic_ns()))
		activity_lost(p->log, 1);
	else if (ev->type == AGENT_PROGRAM)
		take_program(p, &ev->program);
	else
		take_file(p, &ev->file);
}

/* The owner closes it at the sandbox's end. */
static void on_lost(struct agent_link *l, const struct error *why, void *arg)
{
	log_debug("no more reports from an agent: %s", why->message);
}

static const struct agent_link_ops ops = {.event = on_event, .lost = on_lost};

static void reports_close(struct reports *all)
{
	agent_link_close(all->programs.link);
	agent_link_close(all->files.link);
	activity_log_close(all->log);
	free(all);
}

static void ask(struct report *p, struct instance *i, const void *message)
{
	struct error e = {0};
	int r = instance_agent_connect(i, LINK_OWN, &ops, p, &p->link, &e);

	if (r == 0)
		r = agent_request(agent_link_conn(p->link), p->request, message, &e);
	if (r == 0)
		agent_link_send(p->link);
	else
		take_none(p, e.message);
}

/* Unless files_outside_json is NULL. */
static void ask_for_files(struct report *p, struct instance *i)
{
	const char *list[AGENT_OUTSIDE_MAX];
	struct agent_trace_files m = {.outside = {.array = list}};
	json_t *outside = json_loads(i->files_outside_json, 0, NULL);

	for (size_t k = 0; k < json_array_size(outside) && k < AGENT_OUTSIDE_MAX; k++)
		list[m.outside.count++] = json_string_value(json_array_get(outside, k));
	ask(p, i, &m);
	json_decref(outside);
}

void reports_begin(struct instance *i)
{
	struct reports *all;
	bool programs = !i->fleet->options.no_programs;

	if (i->transient || (!programs && !i->files_outside_json))
		return;
	if (i->reports) /* of the microVM that this one replaces */
		reports_close(TAKE_PTR(i->reports));
	all = calloc(1, sizeof(*all));
	if (!all)
		return;
	all->log = activity_log_open(i->fleet, i->sandbox.id, i->key_id); /* NULL: notes nothing */
	all->programs = (struct report){.request = AGENT_TRACE, .log = all->log};
	all->files = (struct report){.request = AGENT_TRACE_FILES, .log = all->log};
	i->reports = all;
	i->reports_close = reports_close;
	if (programs)
		ask(&all->programs, i, NULL);
	if (i->files_outside_json)
		ask_for_files(&all->files, i);
}
