#include "cli/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/json.h"
#include "cli/terminal.h"

enum { BAR_CELLS = 24, DRAW_MS = 80, SLOW_STAGE_MS = 1000, PASSING_MS = 300 };

/* --- events (docs/cli.md) --- */

static void write_event(json_t *event)
{
	(void)json_dumpf(event, stderr, JSON_COMPACT); /* a lost line is a lost line */
	(void)fputc('\n', stderr);
	json_decref(event);
}

static void write_output(const char *data, size_t n)
{
	json_t *text = json_stringn(data, n);
	_cleanup_free_ char *ascii = text ? NULL : strndup(data, n);

	if (n)
		write_event(
			json_pack("{s:o}", "output", text ? text : json_text(ascii ? ascii : "")));
	else
		json_decref(text);
}

/* What was held back of output is no character then. */
static void say(struct progress_view *v, json_t *event)
{
	write_output(v->rest, v->rest_bytes);
	v->rest_bytes = 0;
	write_event(event);
}

/* Bytes at the end that are the beginning of a character of UTF-8. */
static size_t unfinished(const char *data, size_t n)
{
	for (size_t k = 1; k <= PROGRESS_REST_MAX && k <= n; k++) {
		unsigned char c = (unsigned char)data[n - k];

		if ((c & 0xc0) == 0x80)
			continue;
		return (c >= 0xf0 && k < 4) || (c >= 0xe0 && k < 3) || (c >= 0xc0 && k < 2) ? k : 0;
	}
	return 0;
}

static void say_output(struct progress_view *v, const char *data, size_t n)
{
	_cleanup_free_ char *all = malloc(v->rest_bytes + n);
	size_t bytes = v->rest_bytes + n;

	if (!all)
		return; /* lost, as a line that cannot be written */
	memcpy(all, v->rest, v->rest_bytes);
	memcpy(all + v->rest_bytes, data, n);
	v->rest_bytes = unfinished(all, bytes);
	bytes -= v->rest_bytes;
	memcpy(v->rest, all + bytes, v->rest_bytes);
	write_output(all, bytes);
}

void progress_view_step(struct progress_view *v, const struct progress_step *s)
{
	char prefix[64];

	progress_view_close(v); /* ends the line that it draws; so below */
	if (v->json) {
		say(v, json_pack("{s:I, s:I, s:i, s:o, s:b}", "step", (json_int_t)s->number, "of",
			       (json_int_t)s->count, "line", (int)s->line, "text",
			       json_text(s->text), "cached", s->cached));
		return;
	}
	(void)snprintf(prefix, sizeof(prefix), "%s[%zu/%zu] ", s->cached ? "CACHED " : "",
		s->number, s->count); /* fits */
	clean_print_error(prefix, s->text);
}

void progress_view_output(struct progress_view *v, const void *data, size_t n)
{
	progress_view_close(v);
	if (v->json)
		say_output(v, data, n);
	else
		clean_write(&v->output, stderr, data, n);
}

void progress_view_note(struct progress_view *v, unsigned line, const char *text)
{
	char prefix[32];

	progress_view_close(v);
	if (v->json) {
		say(v, json_pack("{s:o, s:i}", "note", json_text(text), "line", (int)line));
		return;
	}
	(void)snprintf(prefix, sizeof(prefix), "line %u: ", line); /* fits */
	clean_print_error(prefix, text);
}

void progress_view_failed(struct progress_view *v, const struct error *e)
{
	progress_view_close(v);
	if (v->json)
		say(v, json_pack("{s:o, s:s}", "failed", json_text(e->message), "code",
			       error_code_name(e->code)));
}

/* --- stages --- */

static void end_stage(struct progress_view *v)
{
	uint64_t ms = (clock_monotonic_ns() - v->stage_ns) / NS_PER_MS;

	if (v->json) {
		if (*v->stage)
			say(v, json_pack("{s:o, s:I}", "done", json_text(v->stage), "ms",
				       (json_int_t)ms));
		v->stage[0] = '\0';
		return;
	}
	if (v->drawn)
		fprintf(stderr, "\r\033[K");
	v->drawn = false;
	if (!*v->stage || v->passing)
		return;
	if (v->tty || ms >= SLOW_STAGE_MS)
		fprintf(stderr, "%s: done in %llu.%llu s\n", v->stage,
			(unsigned long long)(ms / 1000), (unsigned long long)(ms % 1000 / 100));
	v->stage[0] = '\0';
}

static void begin_stage(struct progress_view *v, const char *stage)
{
	end_stage(v);
	(void)snprintf(v->stage, sizeof(v->stage), "%s", stage); /* may be cut */
	v->stage_ns = clock_monotonic_ns();
	v->drawn_ns = 0;
	if (v->json)
		say(v, json_pack("{s:o}", "stage", json_text(stage)));
	else if (!v->tty && !v->passing)
		fprintf(stderr, "%s ...\n", v->stage);
}

/* What happens right now, without what would disturb a terminal. */
static void print_line(const char *line, int room)
{
	for (; *line && room > 0; line++, room--)
		fputc(*line >= ' ' && *line <= '~' ? *line : '?', stderr);
}

static void draw(struct progress_view *v, int percent, const char *line)
{
	uint64_t now = clock_monotonic_ns();
	unsigned short cols, rows;
	int used;

	if (v->drawn_ns && now - v->drawn_ns < DRAW_MS * NS_PER_MS)
		return;
	v->drawn_ns = now;
	if (v->json) {
		if (percent >= 0)
			say(v, json_pack("{s:o, s:i}", "stage", json_text(v->stage), "percent",
				       percent));
		return;
	}
	v->drawn = true;
	terminal_size(&cols, &rows);
	used = fprintf(stderr, "\r\033[K%s ", v->stage) - 4;
	if (percent >= 0) {
		int full = (percent > 100 ? 100 : percent) * BAR_CELLS / 100;

		used += fprintf(stderr, "[%.*s%*s] %3d%% ", full, "########################",
			BAR_CELLS - full, "", percent);
	}
	if (line && cols > used + 1)
		print_line(line, cols - used - 1);
}

static int on_progress(void *opaque, const char *stage, int percent, const char *line)
{
	struct progress_view *v = opaque;

	if (strncmp(stage, v->stage, sizeof(v->stage) - 1) != 0)
		begin_stage(v, stage);
	if (v->json || (v->tty && (!v->passing || clock_monotonic_ns() - v->stage_ns >
							  PASSING_MS * NS_PER_MS)))
		draw(v, percent, line);
	return 0;
}

void progress_view_open(struct progress_view *v, bool passing)
{
	*v = (struct progress_view){
		.progress = {.fn = on_progress, .opaque = v},
		.tty = isatty(STDERR_FILENO),
		.passing = passing,
		.begin_ns = clock_monotonic_ns(),
	};
}

int progress_view_choose(struct progress_view *v, const char *how, struct error *e)
{
	v->json = strcmp(how, "json") == 0;
	if (strcmp(how, "auto") == 0)
		return 0;
	v->tty = false;
	return v->json || strcmp(how, "plain") == 0
		       ? 0
		       : error_set(e, ERROR_USAGE, EINVAL,
				 "--progress %.40s: must be auto, plain or json", how);
}

void progress_view_close(struct progress_view *v)
{
	end_stage(v);
}
