#include "sandbox/guest_command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/words.h"
#include "proto/agent_wire.h"
#include "sandbox/agent_call.h"
#include "sandbox/bare_command.h"
#include "sandbox/entry.h"

enum {
	PAUSE_MS = 20,
	RETRY_MS = 2000, /* of a ready command that failed for a second */
	PROGRAM_NAME_MAX = 255,
};

static int await(const struct guest_commands *g, bool detached, int *ret, struct error *e)
{
	struct agent_event ev;
	int r = 0;

	while (r == 0) {
		r = g->start ? start_follow_wait(g->start, g->agent, g->deadline_ns, &ev, e)
			     : agent_wait_event(g->agent, g->deadline_ns, &ev, e);
		if (r < 0 || (r == 1 && ev.type == AGENT_ERROR))
			return r < 0 ? r : agent_event_error(&ev, e);
		if (ev.type == AGENT_STARTED && detached) {
			*ret = (int)ev.started.pid;
			return 0;
		}
		if (ev.type == AGENT_EXIT) {
			*ret = (int)ev.exit.status +
			       (ev.exit.flags & AGENT_EXIT_SIGNALED ? 128 : 0);
			return 0;
		}
		r = 0; /* output does not matter */
	}
	return r;
}

int guest_command_await(
	struct agent_conn *agent, uint64_t deadline_ns, bool detached, int *ret, struct error *e)
{
	const struct guest_commands g = {.agent = agent, .deadline_ns = deadline_ns};

	return await(&g, detached, ret, e);
}

/* Whether the image has no shell, or -errno. */
static int is_bare(const struct guest_commands *g, struct error *e)
{
	struct agent_hello_reply hello;
	int r = agent_hello(g->agent, g->deadline_ns, &hello, e);

	return r < 0 ? r : !(hello.facts & AGENT_FACT_SHELL);
}

/* What runs a command: a shell, or itself where the image has none. The words are in `line`. */
static int command_words(const char *command, bool bare, char line[CONFIG_TEXT_MAX + 1],
	const char *argv[WORDS_MAX], struct error *e)
{
	int n;

	(void)snprintf(line, CONFIG_TEXT_MAX + 1, "%s", command); /* fits: config_set_text */
	if (!bare) {
		argv[0] = "/bin/sh";
		argv[1] = "-c";
		argv[2] = line;
		return 3;
	}
	n = bare_command_split(line, argv);
	return n > 0 ? n
		     : error_set(e, ERROR_BAD_IMAGE, EINVAL,
			       "the image has no /bin/sh to run a command: %.200s", command);
}

static int begin(const struct guest_commands *g, const char *command, bool bare, unsigned flags,
	const char *tag, struct error *e)
{
	const struct image_config *c = g->config;
	char line[CONFIG_TEXT_MAX + 1];
	const char *argv[WORDS_MAX];
	int count = command_words(command, bare, line, argv, e);
	const struct agent_exec x = {
		.flags = flags,
		.user = c->user,
		.cwd = c->workdir,
		.tag = tag,
		.argv = {.array = argv, .count = (uint32_t)count},
		.env = {.array = (const char *const *)c->env, .count = (uint32_t)c->env_count},
	};

	return count < 0 ? count : agent_exec_start(g->agent, &x, e);
}

int guest_command_start(const struct guest_commands *g, const char *command, struct error *e)
{
	int pid, bare = is_bare(g, e), r = bare < 0 ? bare : begin(g, command, bare, 0, "", e);

	return r < 0 ? r : await(g, true, &pid, e);
}

static int run(const struct guest_commands *g, const char *command, bool bare, unsigned flags,
	const char *tag, int *ret, struct error *e)
{
	int r = begin(g, command, bare, flags, tag, e);

	return r < 0 ? r : await(g, flags & AGENT_EXEC_DETACHED, ret, e);
}

int guest_command_run(const struct guest_commands *g, const char *command, unsigned flags,
	const char *tag, int *ret, struct error *e)
{
	int bare = is_bare(g, e);

	return bare < 0 ? bare : run(g, command, bare, flags, tag, ret, e);
}

/* --- the ready command --- */

static void pause_ms(unsigned ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	(void)nanosleep(&t, NULL); /* early is fine */
}

/* True if there are still so many ms. Else it is the deadline's error. */
static bool has_time(const struct guest_commands *g, uint64_t begin_ns, uint32_t ms,
	const char *name, struct error *e)
{
	if (clock_monotonic_ns() + ms * NS_PER_MS < g->deadline_ns)
		return true;
	(void)error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
		"the ready command of template '%s' did not succeed in %u s", name,
		(unsigned)((g->deadline_ns - begin_ns + NS_PER_S / 2) / NS_PER_S)); /* returned */
	return false;
}

/* --- what a ready command asks, without a shell --- */

/* The same for all: 1, 0, or -errno if the agent does not tell. */
static int is_file(const struct guest_commands *g, const char *name, struct error *e)
{
	const char *dir = *name == '/' || !g->config->workdir ? "" : g->config->workdir;
	char path[CONFIG_TEXT_MAX + BARE_READY_TEXT_MAX + 2];
	const struct agent_stat m = {.flags = AGENT_STAT_FOLLOW, .user = "root", .path = path};
	struct agent_event ev;
	int r;

	(void)snprintf(path, sizeof(path), "%s%s%s", dir, *name == '/' ? "" : "/", name); /* fits */
	r = agent_call(g->agent, g->deadline_ns, AGENT_STAT, &m, AGENT_ENTRY, &ev, e);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EACCES || r == -ENAMETOOLONG)
		return 0;
	return r < 0 ? r : S_ISREG(ev.entry.mode);
}

/* Of the program's name, as pgrep sees it. */
static bool is_named(const char *command, const char *part)
{
	size_t n = strcspn(command, " ");
	char name[PROGRAM_NAME_MAX + 1];
	const char *slash;

	(void)snprintf(name, sizeof(name), "%.*s", (int)n, command); /* a longer one is cut */
	slash = strrchr(name, '/');
	return strstr(slash ? slash + 1 : name, part) != NULL;
}

static int is_process(const struct guest_commands *g, const char *part, struct error *e)
{
	struct agent_event ev;
	bool found = false;
	int r = agent_request(g->agent, AGENT_LIST_TASKS, NULL, e);

	while (r == 0) {
		r = agent_wait_event(g->agent, g->deadline_ns, &ev, e);
		if (r < 0)
			return r;
		if (ev.type != AGENT_TASK)
			return ev.type == AGENT_ERROR ? agent_event_error(&ev, e) : found;
		found = found || is_named(ev.task.command, part);
		r = 0;
	}
	return r;
}

static int answers(const struct guest_commands *g, const struct bare_ready *want, struct error *e)
{
	int r = entry_port_listens(g->agent, g->deadline_ns, (uint16_t)want->number, e);

	return r != 1 ? r
		      : guest_http_get(&g->dialler, (uint16_t)want->number, want->text, NULL) ==
				want->status;
}

/* Tries once: runs the command, or does what it asks where there is no shell for it. *ret is its
 * status. *ret_ms: it is to wait so long, and then succeeds. */
static int try_ready(const struct guest_commands *g, int *ret, uint32_t *ret_ms, struct error *e)
{
	const char *command = g->config->ready_command;
	int bare = is_bare(g, e), r = 1;
	struct bare_ready want = {.kind = BARE_READY_COMMAND};

	*ret_ms = 0;
	if (bare < 0)
		return bare;
	if (bare)
		want = bare_ready_parse(command);
	if (want.kind == BARE_READY_COMMAND)
		return run(g, command, bare, 0, "", ret, e);
	if (want.kind == BARE_READY_SLEEP)
		*ret_ms = want.number;
	else if (want.kind == BARE_READY_PORT)
		r = entry_port_listens(g->agent, g->deadline_ns, (uint16_t)want.number, e);
	else if (want.kind == BARE_READY_FILE)
		r = is_file(g, want.text, e);
	else if (want.kind == BARE_READY_PROCESS)
		r = is_process(g, want.text, e);
	else
		r = answers(g, &want, e);
	*ret = r != 1;
	return r < 0 ? r : 0;
}

int guest_ready_await(const struct guest_commands *g, const char *name, struct error *e)
{
	uint64_t begin = clock_monotonic_ns();

	for (;;) {
		struct error why = {0};
		uint32_t sleep_ms;
		int status, r = try_ready(g, &status, &sleep_ms, &why);

		if (r == 0 && g->start) {
			why = (struct error){0}; /* of a look that found nothing */
			r = start_follow_read(g->start, &why);
		}
		if (r == 0 && status == 0 && !sleep_ms)
			return 0;
		if ((r == 0 || r == -ETIMEDOUT) && !has_time(g, begin, sleep_ms, name, e))
			return -ETIMEDOUT;
		if (r < 0 && e)
			*e = why;
		if (r < 0)
			return r;
		pause_ms(sleep_ms);
		if (sleep_ms)
			return 0;
		pause_ms(clock_monotonic_ns() - begin < NS_PER_S ? PAUSE_MS : RETRY_MS);
	}
}
