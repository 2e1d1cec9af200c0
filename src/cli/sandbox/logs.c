/* `mayfly logs`: shows what a guest wrote to its console. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/admin.h"
#include "cli/remote/known.h"
#include "image/template.h"
#include "proto/timestamp.h"
#include "sandbox/launch.h"

enum { CHUNK = 64 * 1024, LINE_MAX_BYTES = 64 * 1024, FOLLOW_MS = 100, EVENTS_TURNS = 10 };

struct logs_options {
	struct cli_common common;
	const char *template;
	bool follow;
};

static const struct option_spec options[] = {
	{"follow", 'f', OPTION_FLAG, NULL, "go on until the sandbox ends",
		offsetof(struct logs_options, follow), 0, 0, false},
	{"template", 'T', OPTION_STRING, "NAME", "the boot that made this template's snapshot",
		offsetof(struct logs_options, template), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* The output of a log: unchanged, or with --json an object for each line. */
struct output {
	bool json, tty;
	struct buf line; /* with json: the beginning of one whose end is not there yet */
};

/* Prints out->line in the form of the daemon's API for a line of the console. */
static int print_line(struct output *out, struct error *e)
{
	size_t len = buf_len(&out->line);
	const uint8_t *data = buf_head(&out->line);
	_cleanup_free_ char *text = malloc(len + 1);

	if (!text)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	for (size_t i = 0; i < len; i++)
		text[i] = data[i] ? (char)data[i] : '?';
	text[len] = '\0';
	text[strcspn(text, "\r")] = '\0'; /* consoles end a line with both */
	buf_clear(&out->line);
	return json_print_line(json_pack("{s:o, s:s, s:{s:s}}", "message", json_text(text), "level",
				       "info", "fields", "logger", "console"),
		e);
}

static int print_lines(struct output *out, const char *data, size_t n, struct error *e)
{
	for (size_t i = 0; i < n; i++) {
		bool end = data[i] == '\n';

		if (!end && buf_add(&out->line, &data[i], 1) < 0)
			return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		if ((end || buf_len(&out->line) == LINE_MAX_BYTES) && print_line(out, e) < 0)
			return -EIO;
	}
	return 0;
}

/* A guest may write anything, so on a terminal its control characters are replaced. */
static int print_raw(const struct output *out, char *data, size_t n, struct error *e)
{
	int r;

	for (size_t i = 0; out->tty && i < n; i++)
		if ((data[i] < ' ' && !strchr("\n\r\t", data[i])) || data[i] == 0x7f ||
			data[i] == '\0')
			data[i] = '?';
	r = fd_write_full(STDOUT_FILENO, data, n);
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "cannot write the output") : 0;
}

/* Copies what is there from the current offset on. */
static int copy(int fd, struct output *out, struct error *e)
{
	char data[CHUNK];
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) > 0) {
		int r = out->json ? print_lines(out, data, (size_t)n, e)
				  : print_raw(out, data, (size_t)n, e);

		if (r < 0)
			return r;
	}
	return n < 0 ? error_set_errno(e, ERROR_INTERNAL, errno, "cannot read the log") : 0;
}

/* -1 and no error: the guest has not written anything yet. */
static int open_log(int dirfd, const char *whose, struct error *e)
{
	int fd = file_open_foreign(dirfd, "console.log", O_RDONLY, UINT64_MAX);

	if (fd < 0 && fd != -ENOENT)
		return error_set_errno(e, ERROR_INTERNAL, -fd, "boot log of %s", whose);
	return fd < 0 ? -1 : fd;
}

/* --- what happened to a sandbox of the daemon --- */

struct events {
	const struct home *home;
	const char *id;
	uint64_t since_ms; /* of the next one; 0: all of them */
	const struct output *out;
};

static void print_event(struct events *ev, json_t *entry)
{
	struct error ignored = {0}; /* a failure shows at exit */
	const json_t *fields = json_object_get(entry, "fields");
	const char *logger = json_string_value(json_object_get(fields, "logger"));
	const char *time = json_string_value(json_object_get(entry, "timestamp"));
	const char *message = json_string_value(json_object_get(entry, "message"));
	uint64_t ns;

	/* lines of the console are read from its file, which has all of them */
	if (!logger || strcmp(logger, "lifecycle") != 0 || !time || !message ||
		timestamp_parse_ns(time, &ns) < 0)
		return;
	if (ev->out->json)
		(void)json_print_line(json_incref(entry), &ignored);
	else
		printf("%s %s\n", time, message);
	ev->since_ms = ns / NS_PER_MS + 1;
}

/* Prints the lines since the last call. It is no failure if the daemon stops or has forgotten the
 * sandbox. */
static void print_events(struct events *ev)
{
	_cleanup_free_ char *target =
		str_printf("/v2/sandboxes/%s/logs?direction=forward&cursor=%llu", ev->id,
			(unsigned long long)ev->since_ms);
	json_t *answer = NULL, *logs, *entry;
	struct error ignored = {0};
	size_t i;

	if (target && admin_call(ev->home, "GET", target, NULL, &answer, &ignored) == 0) {
		logs = json_object_get(answer, "logs");
		json_array_foreach(logs, i, entry) print_event(ev, entry);
	}
	json_decref(answer);
	(void)fflush(stdout); /* before the console's bytes; a failure shows at exit */
}

static int follow(int dirfd, struct events *ev, struct output *out, bool served, struct error *e)
{
	const struct timespec pause = {.tv_nsec = FOLLOW_MS * (long)NS_PER_MS};
	_cleanup_close_ int fd = -1;

	for (unsigned turn = 1;; turn++) {
		/* asked first, so that nothing written before the end is missed */
		bool live = vmm_dir_is_live(dirfd) == 1;
		int r = 0;

		if (served && (turn % EVENTS_TURNS == 0 || !live))
			print_events(ev);
		if (fd < 0)
			fd = open_log(dirfd, ev->id, e);
		if (fd >= 0)
			r = copy(fd, out, e);
		else if (e->code != ERROR_NONE)
			r = fd;
		if (r < 0 || !live)
			return r;
		(void)nanosleep(&pause, NULL); /* a shorter one is fine */
	}
}

/* --- whose --- */

static int print_log(int dirfd, const char *whose, struct output *out, struct error *e)
{
	_cleanup_close_ int fd = open_log(dirfd, whose, e);

	if (fd >= 0)
		return copy(fd, out, e);
	return e->code != ERROR_NONE ? fd : 0;
}

static int template_log(
	const struct home *home, const char *name, struct output *out, struct error *e)
{
	_cleanup_close_ int fd = template_open(home, name, e);

	return fd < 0 ? fd : print_log(fd, name, out, e);
}

static int sandbox_log(const char *prefix, bool following, struct output *out, struct error *e)
{
	struct known k = KNOWN_INIT;
	char id[ROUTE_SANDBOX_ID_MAX + 1];
	struct events ev = {.home = &k.home, .id = id, .out = out};
	_cleanup_close_ int fd = -1;
	bool served = false;
	int r = known_open(&k, e);

	if (r == 0)
		r = known_find(&k, prefix, id, e);
	if (r == 0) {
		served = known_served(&k, id) != NULL;
		if (served)
			print_events(&ev);
		fd = sandbox_open_dir(&k.dirs, id, served ? NULL : e);
		if (fd >= 0)
			r = following ? follow(fd, &ev, out, served, e) : print_log(fd, id, out, e);
		else if (!served) /* without a directory there is no console */
			r = fd;
	}
	known_close(&k);
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct logs_options *o = values;
	struct output out = {.json = o->common.json,
		.tty = isatty(STDOUT_FILENO),
		.line = BUF_INIT(LINE_MAX_BYTES)};
	struct home home = HOME_INIT;
	int r;

	if ((argc == 1) == (o->template != NULL) || argc > 1)
		return error_set(
			e, ERROR_USAGE, EINVAL, "give the id of a sandbox, or --template NAME");
	if (o->template) {
		r = home_open(NULL, &home, e);
		if (r == 0)
			r = template_log(&home, o->template, &out, e);
		home_close(&home);
	} else {
		r = sandbox_log(argv[0], o->follow, &out, e);
	}
	if (r == 0 && buf_len(&out.line))
		r = print_line(&out, e);
	buf_done(&out.line);
	return r;
}

const struct cli_verb cli_verb_logs = {
	.name = "logs",
	.arguments = "ID",
	.summary = "Print a sandbox's or template's log",
	.description = "Prints the events of a daemon's sandbox with their times, and what the "
		       "guest's kernel wrote\n"
		       "to its console. The console of a restored sandbox begins empty; the boot "
		       "is in its template's\n"
		       "log. With --json, each line is an object as in the daemon's API.",
	.options = options,
	.values_bytes = sizeof(struct logs_options),
	.run = run,
};
