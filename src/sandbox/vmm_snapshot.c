#include "sandbox/vmm_snapshot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/str.h"
#include "sandbox/vmm_request.h"
#include "vmm/snapshot_files.h"

static int link_delta(int dirfd, const char *delta, int to_fd, unsigned disk, struct error *e)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "disk%u", disk); /* fits */
	if (linkat(dirfd, delta, to_fd, name, 0) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno,
			"cannot link the disk delta %s into the snapshot: both must lie on one "
			"file "
			"system",
			delta);
	return 0;
}

static int create_delta(int dirfd, const char *name, struct error *e)
{
	int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? error_set_errno(
				e, ERROR_NO_SPACE, errno, "cannot create the disk delta %s", name)
		      : fd;
}

/* Removes the first `created` of the new deltas, which nothing uses. */
static void remove_deltas(int dirfd, const struct vmm_snapshot_options *o, unsigned created)
{
	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX && created; i++)
		if (o->disks[i].delta) {
			(void)unlinkat(dirfd, o->disks[i].next, 0); /* an empty one does no harm */
			created--;
		}
}

/* Links the deltas and creates the new ones. */
static int prepare_disks(int dirfd, const struct vmm_snapshot_options *o,
	struct snapshot_files *files, unsigned *created, struct error *e)
{
	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX; i++) {
		int r;

		if (!o->disks[i].delta)
			continue;
		r = link_delta(dirfd, o->disks[i].delta, o->dirfd, i, e);
		if (r == 0 && !o->final) {
			r = files->disk_fd[i] = create_delta(dirfd, o->disks[i].next, e);
			*created += r >= 0;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

struct snapshot_state {
	unsigned long long tops[SNAPSHOT_DISKS_MAX]; /* inodes of the disks' top deltas */
	bool stepwise; /* it runs, and announces when it is about to stop */
	struct snapshot_needs needs;
};

static int get_status(int dirfd, struct snapshot_state *ret, struct error *e)
{
	static_assert(SNAPSHOT_DISKS_MAX == 2, "as many are parsed");
	char status[CONTROL_MESSAGE_MAX];
	static const char writes[] = "writes=";
	const char *p, *needs;
	int r = vmm_request(dirfd, "status", status, sizeof(status), e);

	if (r < 0)
		return r;
	p = strstr(status, "tops=");
	needs = strstr(status, writes);
	if (!p || sscanf(p, "tops=%llu,%llu", &ret->tops[0], &ret->tops[1]) != 2 || !needs ||
		snapshot_needs_parse(needs + strlen(writes), &ret->needs) < 0)
		return error_set(e, ERROR_INCOMPATIBLE, EPROTO,
			"the microVM was started by an older Mayfly: make a new sandbox");
	ret->stepwise = str_starts_with(status, "running ") && strstr(p, " steps");
	return 0;
}

int vmm_writes_to(int dirfd, unsigned disk, const char *delta, struct error *e)
{
	struct snapshot_state s;
	struct stat st;
	int r;

	if (fstatat(dirfd, delta, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : error_set_errno(e, ERROR_HOST, errno,
						 "cannot examine the disk delta %s", delta);
	r = get_status(dirfd, &s, e);
	return r < 0 ? r : s.tops[disk] == st.st_ino;
}

static bool is_switched(int dirfd, const struct vmm_snapshot_options *o)
{
	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX; i++)
		if (o->disks[i].delta && !o->final &&
			vmm_writes_to(dirfd, i, o->disks[i].next, NULL) > 0)
			return true;
	return false;
}

static int parse_result(const char *text, struct vmm_snapshot_result *r, struct error *e)
{
	char memory[16], disks[16];
	unsigned long long stop_ns, pages;

	if (sscanf(text, "memory=%15s disks=%15[0-9,]", memory, disks) < 2)
		disks[0] = '\0'; /* none was merged */
	text = strstr(text, "stop_ns=");
	if (!text || sscanf(text, "stop_ns=%llu pages=%llu", &stop_ns, &pages) != 2)
		return error_set(e, ERROR_INTERNAL, EPROTO, "unexpected answer to a snapshot");
	*r = (struct vmm_snapshot_result){.memory_full = strcmp(memory, "full") == 0,
		.memory_merged = strcmp(memory, "merged") == 0,
		.disk_merged = {strchr(disks, '0') != NULL, strchr(disks, '1') != NULL},
		.stop_ns = stop_ns,
		.pages = pages};
	return 0;
}

/* Waits for the answer and handles the steps before it. */
static int follow(int sock, const struct vmm_snapshot_options *o, char answer[CONTROL_MESSAGE_MAX],
	struct error *e)
{
	bool stopped = false;
	int r;

	for (;;) {
		r = vmm_await_answer(sock, "snapshot", VMM_REQUEST_MS * NS_PER_MS, answer, e);
		if (r < 0 || !str_starts_with(answer, "step "))
			break;
		if (strcmp(answer, "step stop") == 0) {
			stopped = true;
			o->before_stop(o->arg);
			(void)control_send(sock, "go", NULL); /* the next answer says more */
		} else {
			stopped = false;
			o->after_stop(o->arg);
		}
	}
	if (stopped && (r < 0 || !str_starts_with(answer, "ok"))) /* it runs, or has ended */
		o->after_stop(o->arg);
	return r;
}

static int request_snapshot(int dirfd, const struct vmm_snapshot_options *o,
	const struct snapshot_state *before, struct vmm_snapshot_result *ret, unsigned *created,
	struct error *e)
{
	_cleanup_close_ int sock = -1;
	_cleanup_(snapshot_files_close) struct snapshot_files files = SNAPSHOT_FILES_INIT;
	struct control_fds fds = {0};
	char text[CONTROL_MESSAGE_MAX], answer[CONTROL_MESSAGE_MAX];
	int r = snapshot_files_create(o->dirfd, &before->needs, &files, e);

	if (r == 0)
		r = prepare_disks(dirfd, o, &files, created, e);
	if (r == 0)
		r = fault_disk("snapshot-deltas-made", e);
	(void)snprintf(text, sizeof(text), "snapshot %s%s",
		before->stepwise && o->before_stop ? "stepwise " : "",
		o->final ? "final" : "live"); /* fits */
	snapshot_files_describe(&files, text, sizeof(text), &fds);
	if (r == 0)
		r = vmm_ask(dirfd, text, &fds, &sock, e);
	if (r == 0)
		r = follow(sock, o, answer, e);
	if (r == 0)
		r = vmm_take_reply(answer, text, sizeof(text), e);
	if (r == 0)
		r = parse_result(text, ret, e);
	return r;
}

int vmm_snapshot(int dirfd, const struct vmm_snapshot_options *o, struct vmm_snapshot_result *ret,
	bool *ret_switched, struct error *e)
{
	struct snapshot_state before;
	int r = get_status(dirfd, &before, e);
	unsigned created = 0;
	bool switched;

	if (r < 0)
		return r;
	r = request_snapshot(dirfd, o, &before, ret, &created, e);
	switched = r == 0 ? !o->final : is_switched(dirfd, o);
	if (r < 0 && r != -ETIMEDOUT && !switched)
		remove_deltas(dirfd, o, created);
	if (ret_switched)
		*ret_switched = switched;
	return r;
}
