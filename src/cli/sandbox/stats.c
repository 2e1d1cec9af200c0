/* `mayfly stats`: what sandboxes use, from the daemon's metrics. The daemon samples each sandbox
 * every 5 seconds, so a new one has no sample yet. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/client.h"
#include "cli/remote/known.h"
#include "cli/sandbox/filter.h"
#include "cli/sandbox/row.h"
#include "cli/table.h"

enum {
	PERIOD_S = 2,
	CELL_BYTES = 48,
	ASKED_MAX = 100, /* of one request for metrics */
	TARGET_MAX = 64 + ASKED_MAX * (ROUTE_SANDBOX_ID_MAX + 1),
};

struct stats_options {
	struct cli_common common;
	struct filter filter;
	bool once;
};

static const struct option_spec options[] = {
	{"no-stream", 0, OPTION_FLAG, NULL, "print once instead of every 2 seconds",
		offsetof(struct stats_options, once), 0, 0, false},
	CLI_OPTION_FILTER(struct stats_options),
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

struct stats {
	const struct stats_options *options;
	json_t *named;	       /* an array of ids; empty: all that run */
	json_t *ids, *metrics; /* of this round: an array, and by id */
	json_t *list;	       /* with --json */
	struct table table;
};

/* --- asking --- */

static bool is_named(const struct stats *s, const char *id)
{
	const json_t *name;
	size_t i;

	json_array_foreach(
		s->named, i, name) if (strcmp(json_string_value(name), id) == 0) return true;
	return json_array_size(s->named) == 0;
}

struct choice {
	const struct known *known;
	struct stats *stats;
};

static int choose(void *arg, const char *id)
{
	const struct choice *c = arg;
	const struct row r = row_of(c->known, id);

	if (r.served && is_named(c->stats, id) && filter_selects(&c->stats->options->filter, &r))
		(void)json_array_append_new(c->stats->ids, json_string(id)); /* shows as missing */
	return 0;
}

/* Up to ASKED_MAX of the ids, from `first` on. */
static int ask_some(struct stats *s, struct client *c, size_t first, struct error *e)
{
	_cleanup_(buf_done) struct buf target = BUF_INIT(TARGET_MAX);
	struct client_request q = {.method = "GET"};
	json_t *answer = NULL;
	int r = buf_add_str(&target, "/sandboxes/metrics?sandbox_ids=");

	for (size_t i = first; r == 0 && i < first + ASKED_MAX && i < json_array_size(s->ids); i++)
		r = buf_printf(&target, "%s,", json_string_value(json_array_get(s->ids, i)));
	if (r < 0 || buf_add_u8(&target, 0) < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	q.target = (const char *)buf_head(&target);
	r = client_call(c, &q, NULL, CLIENT_PATIENCE_S, &answer, e);
	if (r == 0)
		(void)json_object_update(
			s->metrics, json_object_get(answer, "sandboxes")); /* shows as "-" */
	json_decref(answer);
	return r;
}

static int ask_all(struct stats *s, const struct known *k, struct error *e)
{
	struct choice choice = {k, s};
	_cleanup_(client_closep) struct client *c = NULL;
	int r = client_open(&k->home, &c, e);

	(void)known_each(k, choose, &choice); /* goes through all */
	for (size_t i = 0; r == 0 && i < json_array_size(s->ids); i += ASKED_MAX)
		r = ask_some(s, c, i, e);
	return r;
}

/* --- showing --- */

static double number(const json_t *m, const char *name)
{
	return json_number_value(json_object_get(m, name));
}

/* 100 is one CPU, as docker counts. */
static double cpu_percent(const json_t *m)
{
	return number(m, "cpuUsedPct") * number(m, "cpuCount");
}

static void format_use(double used, double total, char out[CELL_BYTES])
{
	char a[16], b[16];

	(void)snprintf(out, CELL_BYTES, "%s / %s (%.0f%%)", str_format_bytes((uint64_t)used, a),
		str_format_bytes((uint64_t)total, b),
		total > 0 ? 100 * used / total : 0); /* fits */
}

static void add_row(struct stats *s, const struct row *r, const json_t *m)
{
	char cpu[CELL_BYTES] = "-", memory[CELL_BYTES] = "-", disk[CELL_BYTES] = "-";
	const char *template = row_template(r), *key = row_key(r);
	const char *const cells[] = {
		r->id, *template ? template : "-", *key ? key : "-", cpu, memory, disk};

	if (m) {
		(void)snprintf(cpu, sizeof(cpu), "%.1f%%", cpu_percent(m)); /* fits */
		format_use(number(m, "memUsed"), number(m, "memTotal"), memory);
		format_use(number(m, "diskUsed"), number(m, "diskTotal"), disk);
	}
	table_add(&s->table, cells);
}

static void add_json(struct stats *s, const struct row *r, const json_t *m)
{
	json_t *one = json_pack("{s:s, s:o, s:o}", "id", r->id, "template",
		json_text(row_template(r)), "key", json_text(row_key(r)));

	/* what is missing shows as missing, as without a sample */
	if (m)
		(void)json_object_update_new(
			one, json_pack("{s:O*, s:f, s:i, s:I, s:I, s:I, s:I}", "time",
				     json_object_get(m, "timestamp"), "cpu_percent", cpu_percent(m),
				     "cpus", (int)number(m, "cpuCount"), "memory_used_bytes",
				     (json_int_t)number(m, "memUsed"), "memory_bytes",
				     (json_int_t)number(m, "memTotal"), "disk_used_bytes",
				     (json_int_t)number(m, "diskUsed"), "disk_bytes",
				     (json_int_t)number(m, "diskTotal")));
	(void)json_array_append_new(s->list, one);
}

static int print(struct stats *s, const struct known *k, struct error *e)
{
	static const char *const heading[] = {"ID", "TEMPLATE", "KEY", "CPU", "MEMORY", "DISK"};
	bool live = !s->options->once && isatty(STDOUT_FILENO);
	const json_t *id;
	size_t i;

	s->table = (struct table){.columns = ARRAY_SIZE(heading)};
	s->list = s->options->common.json ? json_array() : NULL;
	if (!s->list)
		table_add(&s->table, heading);
	json_array_foreach(s->ids, i, id)
	{
		const struct row r = row_of(k, json_string_value(id));
		const json_t *m = row_is_paused(&r) ? NULL : json_object_get(s->metrics, r.id);

		if (s->list)
			add_json(s, &r, m);
		else
			add_row(s, &r, m);
	}
	if (s->list)
		return s->options->once ? json_print(s->list, e) : json_print_line(s->list, e);
	if (live)
		fputs("\033[H\033[J", stdout); /* over the round before */
	if (table_print(&s->table) < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return fflush(stdout) ? error_set(e, ERROR_INTERNAL, EIO, "cannot write the output") : 0;
}

/* --- rounds --- */

/* 1: none of those that were named is left. */
static int run_round(struct stats *s, struct error *e)
{
	struct known k = KNOWN_INIT;
	int r = known_open(&k, e);

	s->ids = json_array();
	s->metrics = json_object();
	if (r == 0)
		r = ask_all(s, &k, e);
	if (r == 0 && json_array_size(s->named) && !json_array_size(s->ids))
		r = 1;
	if (r == 0)
		r = print(s, &k, e);
	json_decref(s->ids);
	json_decref(s->metrics);
	known_close(&k);
	return r;
}

/* Each word must name one sandbox of the daemon's at the beginning. */
static int take_names(struct stats *s, int argc, char **argv, struct error *e)
{
	struct known k = KNOWN_INIT;
	char id[ROUTE_SANDBOX_ID_MAX + 1];
	int r = known_open(&k, e);

	for (int i = 0; r == 0 && i < argc; i++) {
		r = known_find(&k, argv[i], id, e);
		if (r == 0 && !known_served(&k, id))
			r = error_set(e, ERROR_NOT_FOUND, ENOENT,
				"%s is not a sandbox of the daemon, and only the daemon takes "
				"samples",
				id);
		if (r == 0 && json_array_append_new(s->named, json_string(id)) < 0)
			r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	known_close(&k);
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct timespec period = {.tv_sec = PERIOD_S};
	struct stats_options *o = values;
	struct stats s = {.options = o, .named = json_array()};
	int r = filter_check(&o->filter, e);

	o->filter.all = argc > 0; /* a paused one that is named shows without figures */
	if (r == 0 && argc)
		r = take_names(&s, argc, argv, e);
	if (r == 0)
		r = run_round(&s, e);
	while (r == 0 && !o->once) {
		(void)nanosleep(&period, NULL); /* a shorter one is fine */
		r = run_round(&s, e);
	}
	json_decref(s.named);
	return r > 0 ? 0 : r;
}

const struct cli_verb cli_verb_stats = {
	.name = "stats",
	.arguments = "[ID...]",
	.summary = "Show what sandboxes use",
	.description = "Prints CPU (100% is one CPU), memory and disk of the daemon's sandboxes "
		       "every 2 seconds.\n"
		       "Each sandbox has a new sample every 5 seconds. Ends when the named "
		       "sandboxes have ended.\n"
		       "With --json, each round is a line, or with --no-stream one document.",
	.options = options,
	.values_bytes = sizeof(struct stats_options),
	.run = run,
};
