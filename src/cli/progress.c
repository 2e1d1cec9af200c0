#include "cli/progress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/json.h"
#include "cli/terminal.h"

enum { BAR_CELLS = 24, DRAW_MS = 80, SLOW_STAGE_MS = 1000, PASSING_MS = 300 };

void progress_view_say(struct progress_view *v, json_t *line)
{
	(void)json_dumpf(line, stderr, JSON_COMPACT); /* a lost line is a lost line */
	(void)fputc('\n', stderr);
	json_decref(line);
}

static void end_stage(struct progress_view *v)
{
	uint64_t ms = (clock_monotonic_ns() - v->stage_ns) / NS_PER_MS;

	if (v->json) {
		if (*v->stage)
			progress_view_say(v, json_pack("{s:o, s:I}", "done", json_text(v->stage),
						     "ms", (json_int_t)ms));
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
		progress_view_say(v, json_pack("{s:o}", "stage", json_text(stage)));
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
			progress_view_say(v, json_pack("{s:o, s:i}", "stage", json_text(v->stage),
						     "percent", percent));
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
