#include "vmm/snapshot_task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "vmm/thread_filter.h"
#include "vmm/vm.h"

enum { GO_MS = 30 * 1000 }; /* more than a client waits for the guest's agent */

struct snapshot_task {
	struct vm *vm;
	struct vm_snapshot_options options;
	struct vm_snapshot_result result;
	struct error error;
	int r;
	int sock, done_fd, go_fd; /* owned */
	pthread_t thread;
};

/* --- in its thread --- */

/* #calls snapshot: poll sendmsg */
static void before_stop(void *arg)
{
	const struct snapshot_task *t = arg;
	struct pollfd go[] = {{.fd = t->go_fd, .events = POLLIN}, {.fd = t->sock}};

	if (control_send(t->sock, "step stop", NULL) == 0)
		(void)poll(go, ARRAY_SIZE(go), GO_MS); /* or the client has gone */
}

static void after_stop(void *arg)
{
	const struct snapshot_task *t = arg;

	(void)control_send(t->sock, "step running", NULL); /* as above */
}

/* #calls snapshot: write */
static void *run(void *arg)
{
	struct snapshot_task *t = arg;

	t->r = filter_install(thread_filter(THREAD_SNAPSHOT), &t->error);
	if (t->r == 0)
		t->r = vm_snapshot(t->vm, &t->options, &t->result, &t->error);
	(void)eventfd_write(t->done_fd, 1); /* cannot overflow */
	return NULL;
}

static void task_free(struct snapshot_task *t)
{
	snapshot_files_close(&t->options.files);
	cleanup_close_p(&t->sock);
	cleanup_close_p(&t->done_fd);
	cleanup_close_p(&t->go_fd);
	free(t);
}

/* --- for the main loop --- */

/* Parses "final" or "live", perhaps with "stepwise" before it, and then the words for the files. */
static int parse(
	struct snapshot_task *t, const char *arguments, struct control_fds *fds, struct error *e)
{
	static const char stepwise[] = "stepwise ", final[] = "final", live[] = "live";

	if (str_starts_with(arguments, stepwise)) {
		t->options.before_stop = before_stop;
		t->options.after_stop = after_stop;
		t->options.arg = t;
		arguments += strlen(stepwise);
	}
	t->options.final = str_starts_with(arguments, final);
	if (!t->options.final && !str_starts_with(arguments, live))
		return error_set(e, ERROR_USAGE, EINVAL, "snapshot: expected final or live");
	arguments += strlen(t->options.final ? final : live);
	return snapshot_files_take(arguments, fds, &t->options.files, e);
}

/* #calls main: fcntl(F_DUPFD_CLOEXEC) eventfd2
 * #calls musl main: fcntl(F_SETFD) */
static int start(struct snapshot_task *t, int sock, struct error *e)
{
	int r;

	t->sock = fcntl(sock, F_DUPFD_CLOEXEC, 3);
	t->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->go_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->sock < 0 || t->done_fd < 0 || t->go_fd < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "cannot begin a snapshot");
	r = pthread_create(&t->thread, NULL, run, t);
	return r ? error_set_errno(e, ERROR_NO_SPACE, r, "cannot begin a snapshot") : 0;
}

int snapshot_task_start(struct vm *vm, const char *arguments, struct control_fds *fds, int sock,
	struct snapshot_task **ret, struct error *e)
{
	struct snapshot_task *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	t->vm = vm;
	t->sock = t->done_fd = t->go_fd = -1;
	t->options.files = (struct snapshot_files)SNAPSHOT_FILES_INIT;
	r = parse(t, arguments, fds, e);
	if (r == 0)
		r = start(t, sock, e);
	if (r < 0)
		task_free(t);
	else
		*ret = t;
	return r;
}

int snapshot_task_fd(const struct snapshot_task *t)
{
	return t->done_fd;
}

/* #calls main: write */
void snapshot_task_go(const struct snapshot_task *t)
{
	(void)eventfd_write(t->go_fd, 1); /* cannot overflow */
}

static void answer(const struct snapshot_task *t)
{
	const struct vm_snapshot_result *r = &t->result;
	char text[CONTROL_MESSAGE_MAX];

	if (t->r < 0)
		control_format_error(&t->error, "error", text);
	else
		(void)snprintf(text, sizeof(text),
			"ok memory=%s disks=%s%s stop_ns=%llu pages=%llu",
			r->memory_full	   ? "full"
			: r->memory_merged ? "merged"
					   : "layer",
			r->disk_merged[0] ? "0," : "", r->disk_merged[1] ? "1," : "",
			(unsigned long long)r->stop_ns, (unsigned long long)r->pages); /* fits */
	(void)control_send(t->sock, text, NULL); /* the client may have gone */
}

bool snapshot_task_finish(struct snapshot_task *t)
{
	bool at_rest;

	(void)pthread_join(t->thread, NULL); /* cannot fail */
	at_rest = t->r == 0 && t->options.final;
	answer(t);
	/* vm_snapshot took them over */
	t->options.files = (struct snapshot_files)SNAPSHOT_FILES_INIT;
	task_free(t);
	return at_rest;
}
