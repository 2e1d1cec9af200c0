#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "host.h"

enum { SANDBOXES_MAX = 64, WAIT_S = 60 };

/* --- KVM's counters --- */

static uint64_t kvm_count(const char *name)
{
	_cleanup_free_ char *text = NULL;
	char path[64];

	(void)snprintf(path, sizeof(path), "/sys/kernel/debug/kvm/%s", name); /* fits */
	return file_read(AT_FDCWD, path, 64, &text, NULL) < 0 ? 0 : strtoull(text, NULL, 10);
}

/* --- one sandbox --- */

static struct sandbox *create(const struct place *p, uint64_t *ret_begin_ns)
{
	const struct sandbox_options o = {.template = p->template};
	struct error e = {0};
	struct sandbox *s;

	*ret_begin_ns = clock_monotonic_ns();
	if (sandbox_create(&p->home, &p->dirs, &o, &s, &e) < 0)
		die("create", e.message);
	return s;
}

static void queue_command(struct sandbox *s, const char *const *argv)
{
	struct agent_exec x = {.user = "", .cwd = "", .tag = ""};
	struct error e = {0};

	x.argv.array = argv;
	while (argv[x.argv.count])
		x.argv.count++;
	if (agent_exec_start(sandbox_agent(s), &x, &e) < 0)
		die("exec", e.message);
}

static void await(struct sandbox *s)
{
	struct pollfd fds[SANDBOX_POLL_FDS];

	sandbox_poll(s, false, fds);
	(void)poll(fds, SANDBOX_POLL_FDS, 100); /* the caller looks again in any case */
}

/* Takes one event; true when the command is over. argv is queued as soon as may be. */
static bool take_event(struct sandbox *s, const char *const *argv, uint64_t begin, struct life *l)
{
	struct agent_event ev;
	struct error e = {0};
	int r = sandbox_next_event(s, &ev, &e);
	uint64_t now = clock_monotonic_ns() - begin;

	if (r < 0)
		die("sandbox", e.message);
	if (sandbox_is_ready(s) && l->ready_ns == 0) {
		l->ready_ns = now;
		if (argv)
			queue_command(s, argv);
		return false;
	}
	if (r == 0) {
		await(s);
		return false;
	}
	if (ev.type == AGENT_STDOUT && l->output_ns == 0)
		l->output_ns = now;
	if (ev.type == AGENT_EXIT)
		l->exit_ns = now;
	if (ev.type == AGENT_ERROR || (ev.type == AGENT_EXIT && ev.exit.status != 0))
		die("command", "failed");
	return ev.type == AGENT_EXIT;
}

void live_once(const struct place *p, const char *const *argv, struct life *ret)
{
	uint64_t faults = kvm_count("pf_taken"), exits = kvm_count("exits"), begin;
	struct sandbox *s = create(p, &begin);

	*ret = (struct life){.created_ns = begin};
	while (argv ? !take_event(s, argv, begin, ret) : !sandbox_is_ready(s))
		if (!argv)
			(void)take_event(s, NULL, begin, ret); /* there is no command */
	if (!argv) {
		ret->faults = kvm_count("pf_taken") - faults;
		ret->exits = kvm_count("exits") - exits;
	}
	begin = clock_monotonic_ns();
	sandbox_destroy(s);
	ret->destroy_ns = clock_monotonic_ns() - begin;
}

/* --- many --- */

static void take_ready(struct sandbox *s, uint64_t begin, uint64_t *ready_ns)
{
	struct agent_event ev;
	struct error e = {0};

	if (*ready_ns)
		return;
	if (sandbox_next_event(s, &ev, &e) < 0)
		die("sandbox", e.message);
	if (sandbox_is_ready(s))
		*ready_ns = clock_monotonic_ns() - begin;
}

static void await_any(struct sandbox *const *s, const uint64_t *ready_ns, unsigned count)
{
	struct pollfd fds[SANDBOXES_MAX * SANDBOX_POLL_FDS];
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++)
		if (!ready_ns[i]) {
			sandbox_poll(s[i], false, fds + n);
			n += SANDBOX_POLL_FDS;
		}
	(void)poll(fds, n, 100); /* the caller looks again in any case */
}

static unsigned count_ready(const uint64_t *ready_ns, unsigned count)
{
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++)
		n += ready_ns[i] != 0;
	return n;
}

uint64_t live_together(
	const struct place *p, unsigned count, struct sandbox **ret, struct samples *s)
{
	uint64_t begin[SANDBOXES_MAX], ready_ns[SANDBOXES_MAX] = {0}, end;

	if (count > SANDBOXES_MAX)
		die("count", "too many");
	for (unsigned i = 0; i < count; i++)
		ret[i] = create(p, &begin[i]);
	end = begin[0] + WAIT_S * NS_PER_S;
	while (count_ready(ready_ns, count) < count) {
		if (clock_monotonic_ns() > end)
			die("sandboxes", "do not become ready");
		for (unsigned i = 0; i < count; i++)
			take_ready(ret[i], begin[i], &ready_ns[i]);
		if (count_ready(ready_ns, count) < count)
			await_any(ret, ready_ns, count);
	}
	end = clock_monotonic_ns() - begin[0];
	for (unsigned i = 0; i < count; i++)
		samples_add(s, ready_ns[i]);
	return end;
}
