/* `mayfly usage`: shows usage by key, day or sandbox. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/admin/ask.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/table.h"
#include "proto/uri.h"

enum { TARGET_MAX = 2048, CELL_BYTES = 64, COUNTER_CELLS = 9 };

struct usage_options {
	struct cli_common common;
	const char *key, *month, *from, *to, *by;
};

static const struct usage_options defaults = {.by = "key"};

static const struct option_spec options[] = {
	{"by", 0, OPTION_STRING, "key|day|sandbox", "what a line is about (key)",
		offsetof(struct usage_options, by), 0, 0, false},
	{"key", 0, OPTION_STRING, "ID", "only this key's: see mayfly keys ls",
		offsetof(struct usage_options, key), 0, 0, false},
	{"month", 0, OPTION_STRING, "YYYY-MM", "another month than the current one",
		offsetof(struct usage_options, month), 0, 0, false},
	{"from", 0, OPTION_STRING, "YYYY-MM-DD", "first day (UTC)",
		offsetof(struct usage_options, from), 0, 0, false},
	{"to", 0, OPTION_STRING, "YYYY-MM-DD", "last day", offsetof(struct usage_options, to), 0, 0,
		false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* --- asking --- */

static int add_pair(struct buf *target, const char *name, const char *value)
{
	int r = value ? buf_add_u8(target, '&') : 0;

	if (r == 0 && value)
		r = buf_add_str(target, name);
	if (r == 0 && value)
		r = buf_add_u8(target, '=');
	return r == 0 && value ? uri_encode(target, value, strlen(value)) : r;
}

static int ask_usage(const struct usage_options *o, json_t **ret, struct error *e)
{
	_cleanup_(buf_done) struct buf target = BUF_INIT(TARGET_MAX);

	if (buf_add_str(&target, "/usage?") < 0 || add_pair(&target, "by", o->by) < 0 ||
		add_pair(&target, "key", o->key) < 0 || add_pair(&target, "month", o->month) < 0 ||
		add_pair(&target, "from", o->from) < 0 || add_pair(&target, "to", o->to) < 0 ||
		buf_add_u8(&target, 0) < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "an option is too long");
	return ask("GET", (const char *)buf_head(&target), NULL, ret, e);
}

/* --- the table --- */

static double number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static void format_time(double s, char out[CELL_BYTES])
{
	if (s < 120)
		(void)snprintf(out, CELL_BYTES, "%.1f s", s); /* all of these fit */
	else if (s < 120 * 60)
		(void)snprintf(out, CELL_BYTES, "%.1f min", s / 60);
	else
		(void)snprintf(out, CELL_BYTES, "%.1f h", s / 3600);
}

static void format_size(double mib_s, char out[CELL_BYTES])
{
	(void)snprintf(out, CELL_BYTES, "%.3f", mib_s / 1024 / 3600); /* fits */
}

static void format_bytes(double bytes, char out[CELL_BYTES])
{
	char text[16];

	(void)snprintf(out, CELL_BYTES, "%s", str_format_bytes((uint64_t)bytes, text));
}

static void format_flows(const json_t *total, char out[CELL_BYTES])
{
	double denied = number(total, "flowsDenied");

	(void)snprintf(out, CELL_BYTES, denied > 0 ? "%.0f, %.0f denied" : "%.0f",
		number(total, "flowsAllowed"), denied); /* fits */
}

static void format_counters(const json_t *total, char out[COUNTER_CELLS][CELL_BYTES])
{
	format_time(number(total, "uptimeSeconds"), out[0]);
	format_time(number(total, "cpuSeconds"), out[1]);
	format_size(number(total, "memoryMiBSeconds"), out[2]);
	format_size(number(total, "diskMiBSeconds"), out[3]);
	format_bytes(number(total, "bytesIn"), out[4]);
	format_bytes(number(total, "bytesOut"), out[5]);
	format_bytes(number(total, "networkBytesIn"), out[6]);
	format_bytes(number(total, "networkBytesOut"), out[7]);
	format_flows(total, out[8]);
}

/* "0.75 EUR (13 of 10 min)"; "-" for a key without a tier. */
static void format_bill(const json_t *bill, char out[CELL_BYTES])
{
	if (!json_is_string(json_object_get(bill, "tier")))
		(void)snprintf(out, CELL_BYTES, "%s", bill ? "-" : "");
	else
		(void)snprintf(out, CELL_BYTES, "%s %s (%.0f of %.0f min)%s",
			ask_text(bill, "charge"), ask_text(bill, "currency"),
			number(bill, "minutes"), number(bill, "includedMinutes"),
			json_is_true(json_object_get(bill, "stopped")) ? " STOPPED" : "");
}

static void add_line(struct table *t, const char *name, const json_t *total, const char *last)
{
	char cells[COUNTER_CELLS][CELL_BYTES];
	const char *const row[] = {name, cells[0], cells[1], cells[2], cells[3], cells[4], cells[5],
		cells[6], cells[7], cells[8], last};

	format_counters(total, cells);
	table_add(t, row);
}

/* What is told of each kind of line. */
static const struct kind {
	const char *by, *list, *name, *heading, *last;
} kinds[] = {
	{"key", "keys", "name", "KEY", "BILL"},
	{"day", "days", "day", "DAY", ""},
	{"sandbox", "sandboxes", "sandboxID", "SANDBOX", "LAST SEEN"},
};

static int print(const json_t *report, const struct kind *k, struct error *e)
{
	const char *const heading[] = {k->heading, "TIME", "CPU", "MEM GiB*h", "DISK GiB*h", "IN",
		"OUT", "NET IN", "NET OUT", "FLOWS", k->last};
	struct table t = {.columns = ARRAY_SIZE(heading)};
	json_t *line;
	size_t i;

	printf("%s to %s\n", ask_text(report, "from"), ask_text(report, "to"));
	table_add(&t, heading);
	json_array_foreach(json_object_get(report, k->list), i, line)
	{
		char bill[CELL_BYTES];

		format_bill(json_object_get(line, "bill"), bill);
		add_line(&t, ask_text(line, k->name), json_object_get(line, "total"),
			*bill ? bill : ask_text(line, "lastAt"));
	}
	if (strcmp(k->by, "sandbox") != 0) /* their totals are of their whole lives */
		add_line(&t, "total", json_object_get(report, "total"), "");
	return table_print(&t) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct usage_options *o = values;
	const struct kind *kind = NULL;
	json_t *report = NULL;
	int r = cli_no_arguments(argc, argv, e);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i].by, o->by) == 0)
			kind = &kinds[i];
	if (r == 0 && !kind)
		r = error_set(e, ERROR_USAGE, EINVAL, "--by is key, day or sandbox");
	if (r == 0)
		r = ask_usage(o, &report, e);
	if (r == 0 && o->common.json)
		return json_print(report, e);
	if (r == 0)
		r = print(report, kind, e);
	json_decref(report);
	return r;
}

const struct cli_verb cli_verb_usage = {
	.name = "usage",
	.arguments = "",
	.summary = "What was used, by key, day or sandbox",
	.description = "Shows the time that sandboxes ran, the CPU time of their microVMs, their "
		       "promised memory and disk, the bytes to and from clients, and the bytes and "
		       "flows to and from servers (NET). Covers whole days, by default those of "
		       "the current month. With --by sandbox, lines cover whole lives.",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct usage_options),
	.run = run,
};
