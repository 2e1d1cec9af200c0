/* The owner's side of a microVM's channel: its events, requests, and its end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "sandbox/launch_internal.h"
#include "sandbox/vmm_request.h"
#include "vmm/snapshot_files.h"

enum {
	STOP_MS = 1000,
	DEATH_MS = 200 /* from the end of its channel until waitpid succeeds */
};

/* --- events --- */

/* Waits for a process that closed its channel; most often it is about to exit. If it goes on, it is
 * killed, so that nobody waits for it. Returns false if it was killed. */
static bool reap(pid_t pid, int *ret_status)
{
	uint64_t end = clock_monotonic_ns() + DEATH_MS * NS_PER_MS;
	pid_t r;

	for (;;) {
		r = waitpid(pid, ret_status, WNOHANG);
		if (r != 0 && !(r < 0 && errno == EINTR))
			return true;
		if (clock_monotonic_ns() > end)
			break;
		(void)poll(NULL, 0, 1); /* sleeps */
	}
	(void)kill(pid, SIGKILL); /* not reaped yet, so the pid is still its own */
	while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
		;
	return false;
}

/* The channel ended without a message. */
static void died(struct vmm *v, struct error *e)
{
	int status = 0;
	bool alone = reap(v->pid, &status);

	v->pid = 0;
	if (!alone)
		(void)error_set(e, ERROR_SANDBOX, ECHILD,
			"the VMM process closed its channel and went on: it was killed");
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		(void)error_set(e, ERROR_SANDBOX, ECHILD,
			"the VMM process made a system call that it is not allowed to make, and "
			"was "
			"killed: the sandbox may have attacked it, or this is a bug of Mayfly; the "
			"kernel's log has the call's number (type=1326)"); /* only to fill e */
	else if (WIFSIGNALED(status))
		(void)error_set(e, ERROR_SANDBOX, ECHILD,
			"the VMM process was killed by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status))); /* only to fill e */
	else
		(void)error_set(e, ERROR_SANDBOX, ECHILD,
			"the VMM process ended unexpectedly (status %d)",
			WIFEXITED(status) ? WEXITSTATUS(status) : -1); /* only to fill e */
}

static enum vmm_event parse_event(struct vmm *v, const char *text, struct error *e)
{
	const char *word;

	if (strcmp(text, "event started") == 0)
		return VMM_STARTED;
	v->ended = true;
	if (str_starts_with(text, "event failed ")) {
		control_parse_error(text + strlen("event failed "), e);
		return VMM_ENDED;
	}
	word = str_starts_with(text, "event ended ") ? strchr(text + strlen("event ended "), ' ')
						     : NULL;
	(void)error_set(e, ERROR_SANDBOX, ECHILD, "%s",
		word ? word + 1 : "the VMM process said something unexpected"); /* only to fill e */
	return VMM_ENDED;
}

enum vmm_event vmm_next_event(struct vmm *v, struct error *e)
{
	char text[CONTROL_MESSAGE_MAX];
	struct pollfd pfd = {.fd = v->owner_fd, .events = POLLIN};

	if (v->ended)
		return VMM_NOTHING;
	if (v->pending[0]) {
		memcpy(text, v->pending, sizeof(text));
		v->pending[0] = '\0';
		return parse_event(v, text, e);
	}
	if (poll(&pfd, 1, 0) <= 0)
		return VMM_NOTHING;
	if (control_receive(v->owner_fd, text, NULL) > 0)
		return parse_event(v, text, e);
	v->ended = true;
	died(v, e);
	return VMM_ENDED;
}

bool vmm_is_over(struct vmm *v, struct error *e)
{
	enum vmm_event ev;

	do
		ev = vmm_next_event(v, e);
	while (ev == VMM_STARTED);
	return ev == VMM_ENDED;
}

/* --- requests --- */

static int owner_request(
	struct vmm *v, const char *request, const struct control_fds *fds, struct error *e)
{
	uint64_t deadline = clock_monotonic_ns() + VMM_REQUEST_MS * NS_PER_MS;
	char text[CONTROL_MESSAGE_MAX];
	int r;

	if (v->ended)
		return error_set(e, ERROR_SANDBOX, ECHILD, "the microVM has ended");
	r = control_send(v->owner_fd, request, fds);
	while (r == 0) {
		r = vmm_await_readable(v->owner_fd, deadline);
		if (r < 0)
			break;
		r = control_receive(v->owner_fd, text, NULL);
		if (r <= 0)
			break;
		if (!str_starts_with(text, "event "))
			return vmm_take_reply(text, NULL, 0, e);
		if (strcmp(text, "event started") != 0 || !v->pending[0])
			memcpy(v->pending, text, sizeof(text));
		r = 0;
	}
	if (r == -ETIMEDOUT)
		return error_set(
			e, ERROR_TIMEOUT, ETIMEDOUT, "the VMM did not answer \"%s\"", request);
	if (v->pending[0] && strcmp(v->pending, "event started") != 0)
		return error_set(e, ERROR_SANDBOX, ECHILD, "the microVM has ended");
	v->ended = true;
	died(v, e);
	return -ECHILD;
}

int vmm_pause(struct vmm *v, struct error *e)
{
	return owner_request(v, "pause", NULL, e);
}

int vmm_resume(struct vmm *v, struct error *e)
{
	return owner_request(v, "resume", NULL, e);
}

int vmm_keep(struct vmm *v, struct error *e)
{
	return owner_request(v, "keep", NULL, e);
}

int vmm_await_started(struct vmm *v, unsigned ms, struct error *e)
{
	uint64_t deadline = clock_monotonic_ns() + ms * NS_PER_MS;

	for (;;) {
		enum vmm_event event = vmm_next_event(v, e);

		if (event == VMM_STARTED)
			return 0;
		if (event == VMM_ENDED)
			return e && e->err ? -e->err : -ECHILD;
		if (vmm_await_readable(v->owner_fd, deadline) < 0)
			return error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
				"the microVM was not made in %u s", ms / 1000);
	}
}

/* Creates files in the snapshot's directory for the disks that have a delta. */
static int create_disk_files(
	const struct vmm *v, int dirfd, struct snapshot_files *f, struct error *e)
{
	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX; i++) {
		char name[16];

		if (!v->writable[i])
			continue;
		(void)snprintf(name, sizeof(name), "disk%u", i); /* fits */
		f->disk_fd[i] = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (f->disk_fd[i] < 0)
			return error_set_errno(
				e, ERROR_NO_SPACE, errno, "cannot create the snapshot's %s", name);
	}
	return 0;
}

int vmm_save(struct vmm *v, int snapshot_dirfd, struct error *e)
{
	static const struct snapshot_needs full = {.memory_full = true,
		.part = {[SNAPSHOT_PART_STATE] = true, [SNAPSHOT_PART_MEMORY] = true}};
	struct snapshot_files files = SNAPSHOT_FILES_INIT;
	char text[CONTROL_MESSAGE_MAX] = "save";
	struct control_fds fds = {0};
	int r = snapshot_files_create(snapshot_dirfd, &full, &files, e);

	if (r == 0)
		r = create_disk_files(v, snapshot_dirfd, &files, e);
	if (r == 0) {
		snapshot_files_describe(&files, text, sizeof(text), &fds);
		r = owner_request(v, text, &fds, e);
	}
	snapshot_files_close(&files);
	return r;
}

int vmm_save_hot(struct vmm *v, int snapshot_dirfd, struct error *e)
{
	static const char name[] = "hot", unfinished[] = ".tmp-hot";
	_cleanup_close_ int memory_fd = launch_open_file(snapshot_dirfd, "memory", O_RDONLY);
	_cleanup_close_ int fd =
		openat(snapshot_dirfd, unfinished, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct control_fds fds = {.fd = {memory_fd, fd}, .count = 2};
	int r;

	if (fd < 0 || memory_fd < 0)
		return error_set_errno(
			e, ERROR_NO_SPACE, errno, "cannot create the snapshot's hot pages");
	r = owner_request(v, "hot", &fds, e);
	if (r == 0 && renameat(snapshot_dirfd, unfinished, snapshot_dirfd, name) < 0)
		r = error_set_errno(e, ERROR_HOST, errno, "cannot keep the snapshot's hot pages");
	if (r < 0)
		(void)unlinkat(snapshot_dirfd, unfinished, 0); /* only a hint */
	return r;
}

/* Waits at most ms milliseconds for the process to end: its channel ends with it. */
static void await_exit(struct vmm *v, unsigned ms)
{
	uint64_t deadline = clock_monotonic_ns() + ms * NS_PER_MS;
	char text[CONTROL_MESSAGE_MAX];

	while (vmm_await_readable(v->owner_fd, deadline) == 0)
		if (control_receive(v->owner_fd, text, NULL) <= 0)
			return;
}

void launch_end_process(struct vmm *v)
{
	if (v->pid <= 0)
		return;
	if (v->owner_fd >= 0 && control_send(v->owner_fd, "quit", NULL) == 0)
		await_exit(v, STOP_MS);
	(void)kill(v->pid, SIGKILL); /* not reaped yet, so the pid is still its own */
	while (waitpid(v->pid, NULL, 0) < 0 && errno == EINTR)
		;
	v->pid = 0;
}
