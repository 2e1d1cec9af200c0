/* Snapshots of microVMs: turns what mayfly-vmm writes into stacks (stack.h).
 *
 * What a crash leaves behind, by step:
 *	during vmm_snapshot	`snapshot` in the sandbox's directory, without a state, and empty
 *				deltas; the microVM finishes alone, or is dead
 *	after it		the same with a state
 *				(in both cases settle asks which files the microVM writes to, and
 *				advances or drops the snapshot)
 *	pause: after commit	the paused directory is complete; the row of the store, written
 *				next, decides whether it counts */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "image/workdir.h"
#include "sandbox/agent_call.h"
#include "sandbox/backend.h"
#include "sandbox/stack.h"
#include "sandbox/vmm_request.h"
#include "sandbox/vmm_snapshot.h"

enum {
	HOLD_S = 10,   /* a busy guest answers late; its processes run meanwhile */
	RELEASE_S = 1, /* the agent needs no more than the request */
	HELLO_S = 10,  /* a guest without its driver never answers */
	SYNC_S = 60,
	SETTLE_S = 120,
	SETTLE_STEP_MS = 20,
	MEMINFO_MAX = 64 * 1024,
	ROOM_PART = 4, /* room beyond the data for the file system's own use: 1/4 of it */
	ROOM_BYTES = 1024 * 1024,
};

/* --- holding the guest's processes --- */

struct hold {
	struct agent_conn *agent; /* owned; NULL: there is none */
	uint64_t begin_ns, ns;	  /* when the hold began and how long it lasted, 0: no hold */
};

static uint64_t in_s(unsigned seconds)
{
	return clock_monotonic_ns() + seconds * NS_PER_S;
}

static void hold(void *arg)
{
	struct hold *h = arg;
	uint64_t begin = clock_monotonic_ns();
	struct error why = {0};

	if (h->agent && agent_hold(h->agent, in_s(HOLD_S), &why) == 0)
		h->begin_ns = begin;
	else
		log_info("a snapshot is made while processes run: %s", why.message);
}

static void release(void *arg)
{
	struct hold *h = arg;

	/* Released even if the hold was not answered. If this gets lost, the agent does it by
	 * itself after AGENT_HOLD_MS. */
	if (h->agent)
		(void)agent_release(h->agent, in_s(RELEASE_S), NULL);
	if (h->begin_ns)
		h->ns = clock_monotonic_ns() - h->begin_ns;
}

static void release_after_death(int dirfd)
{
	struct agent_conn *agent = NULL;

	if (agent_connect(dirfd, &agent, NULL) == 0)
		(void)agent_release(agent, in_s(RELEASE_S), NULL); /* as above */
	agent_close(agent);
}

/* --- after a snapshot that nobody saw end --- */

static void drop_snapshot(int dirfd)
{
	for (unsigned d = 0; d < SNAPSHOT_DISKS_MAX; d++)
		(void)unlinkat(dirfd, stack_next_delta_name(d), 0); /* most often not there */
	(void)file_remove_tree(dirfd, STACK_SNAPSHOT_DIR); /* else it goes with the sandbox */
}

/* Resumes the microVM. It finishes a snapshot in progress by itself and answers ERROR_LIMIT until
 * then. Resuming is always right, as nobody was told that the sandbox is paused. */
static int wait_until_running(int dirfd, unsigned seconds, struct error *e)
{
	const struct timespec step = {.tv_nsec = SETTLE_STEP_MS * (long)NS_PER_MS};
	uint64_t end = clock_monotonic_ns() + seconds * NS_PER_S;
	int r;

	for (;;) {
		error_clear(e);
		r = vmm_request(dirfd, "resume", NULL, 0, e);
		if (r == 0 || e->code != ERROR_LIMIT || clock_monotonic_ns() >= end)
			return r;
		(void)nanosleep(&step, NULL); /* a shorter sleep is fine */
	}
}

/* Makes the sandbox stand on the unfinished snapshot if its disks have switched. Drops it
 * otherwise. */
static int settle(int dirfd, unsigned wait_s, struct error *e)
{
	bool switched = false;
	int r = wait_until_running(dirfd, wait_s, e);

	if (r < 0)
		return r;
	release_after_death(dirfd);
	if (!file_exists(dirfd, STACK_SNAPSHOT_DIR))
		return 0;
	for (unsigned d = 0; d < SNAPSHOT_DISKS_MAX; d++) {
		r = vmm_writes_to(dirfd, d, stack_next_delta_name(d), e);
		if (r < 0)
			return r;
		switched = switched || r;
	}
	if (switched)
		return stack_advance(dirfd, -1, true, NULL, e);
	drop_snapshot(dirfd);
	return 0;
}

int backend_vmm_settle(int dirfd, struct error *e)
{
	return settle(dirfd, SETTLE_S, e);
}

/* --- taking --- */

struct taken {
	int fd; /* owned; of `snapshot`, which it is written to; also set on failure */
	uint64_t stop_ns, held_ns;
};

static int take(int dirfd, bool final, struct taken *ret, struct error *e)
{
	struct vmm_snapshot_result result = {0};
	struct hold h = {0};
	struct vmm_snapshot_options o = {
		.final = final, .before_stop = hold, .after_stop = release, .arg = &h};
	int r = stack_open(dirfd, STACK_SNAPSHOT_DIR, true, e);

	*ret = (struct taken){.fd = r};
	if (r < 0)
		return r;
	o.dirfd = ret->fd;
	for (unsigned d = 0; d < SNAPSHOT_DISKS_MAX; d++)
		if (stack_disk_is_writable(dirfd, d)) {
			o.disks[d].delta = stack_delta_name(d);
			o.disks[d].next = final ? NULL : stack_next_delta_name(d);
		}
	(void)agent_connect(dirfd, &h.agent, NULL); /* hold() says if that failed */
	r = vmm_snapshot(dirfd, &o, &result, NULL, e);
	agent_close(h.agent);
	ret->stop_ns = result.stop_ns;
	ret->held_ns = h.ns;
	return r;
}

/* States are links to files, so all must be on one file system. */
static int check_linked(int dirfd, int area_fd, struct error *e)
{
	struct stat here, there;

	if (!file_exists(dirfd, STACK_DIR))
		return error_set(e, ERROR_HOST, EXDEV,
			"no snapshot can be made of this sandbox: its directory is not on the "
			"file system of the templates; leave MAYFLY_RUN unset and make it again");
	if (fstat(dirfd, &here) == 0 && fstat(area_fd, &there) == 0 && here.st_dev != there.st_dev)
		return error_set(e, ERROR_HOST, EXDEV,
			"no snapshot can be made: paused, snapshots and sandboxes of MAYFLY_HOME "
			"must be on one file system");
	return 0;
}

/* Run before both: checks the file systems and settles an earlier snapshot. */
static int begin(int dirfd, int area_fd, struct error *e)
{
	int r = check_linked(dirfd, area_fd, e);

	return r == 0 && file_exists(dirfd, STACK_SNAPSHOT_DIR) ? settle(dirfd, 0, e) : r;
}

/* --- pause --- */

/* Makes a stack of its own from the one below and what was just written. */
static int keep(int dirfd, int raw_fd, bool memory, int area_fd, const char *name, struct error *e)
{
	_cleanup_(workdir_abort) struct workdir w = WORKDIR_INIT;
	_cleanup_close_ int below = stack_open(dirfd, STACK_DIR, false, e);
	int r = below < 0 ? below : workdir_begin(area_fd, name, "paused sandbox", &w, e);

	if (r == 0)
		r = stack_compose(below, raw_fd, w.fd, memory, NULL, e);
	if (r == 0)
		r = fault_disk("pause-composed", e);
	if (r == 0)
		r = workdir_commit(&w, e);
	if (r == 0)
		r = fault_disk("pause-committed", e);
	return r;
}

static int pause_with_memory(int dirfd, int area_fd, const char *name, struct error *e)
{
	struct taken t;
	int r = take(dirfd, true, &t, e);

	if (r == 0)
		r = keep(dirfd, t.fd, true, area_fd, name, e);
	cleanup_close_p(&t.fd);
	return r;
}

static uint64_t kib_of(const char *meminfo, const char *name)
{
	const char *at = strstr(meminfo, name);

	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

/* Checks that the guest's unwritten data fits, as a failed write would lose it. The guest itself is
 * asked how much it is; a lie harms only the guest. */
static int check_room(int dirfd, struct agent_conn *c, uint64_t deadline, struct error *e)
{
	_cleanup_free_ uint8_t *text = NULL;
	uint64_t dirty, have;
	size_t n;
	int r = agent_read_file(c, deadline, "/proc/meminfo", MEMINFO_MAX, &text, &n, e);

	if (r < 0)
		return r;
	dirty = kib_of((const char *)text, "\nDirty:") + kib_of((const char *)text, "\nWriteback:");
	r = file_free_bytes(dirfd, &have);
	if (r < 0)
		return error_set_errno(e, ERROR_INTERNAL, -r, "cannot ask for free space");
	if (dirty + dirty / ROOM_PART + ROOM_BYTES > have)
		return error_set(e, ERROR_NO_SPACE, ENOSPC,
			"the host's disk has no space for what the sandbox has not written yet: "
			"it goes on; free some space and try again");
	return 0;
}

/* Makes the guest write its caches to its disks. */
static int sync_guest(int dirfd, struct error *e)
{
	uint64_t now = clock_monotonic_ns(), deadline = now + SYNC_S * NS_PER_S;
	struct agent_conn *c = NULL;
	int r = agent_connect_ready(dirfd, now + HELLO_S * NS_PER_S, &c, e);

	if (r == 0)
		r = check_room(dirfd, c, deadline, e);
	if (r == 0)
		r = agent_sync(c, deadline, 0, e);
	agent_close(c);
	return r;
}

static int link_deltas(int dirfd, int raw_fd, struct error *e)
{
	int r = 0;

	for (unsigned d = 0; r == 0 && d < SNAPSHOT_DISKS_MAX; d++)
		if (stack_disk_is_writable(dirfd, d))
			r = stack_take(dirfd, stack_delta_name(d), raw_fd, stack_delta_name(d), e);
	return r;
}

/* Takes a full snapshot, as only that merges deltas. The memory is written for nothing, once in
 * SNAPSHOT_LAYERS_MAX times. */
static int freeze_merged(int dirfd, int *ret_raw, struct error *e)
{
	struct taken t;
	int r = take(dirfd, true, &t, e);

	*ret_raw = t.fd;
	return r;
}

static int freeze_deltas(int dirfd, int *ret_raw, struct error *e)
{
	int r = vmm_request(dirfd, "pause", NULL, 0, e);

	if (r == 0)
		r = vmm_request(dirfd, "flush", NULL, 0, e);
	if (r == 0)
		r = *ret_raw = stack_open(dirfd, STACK_SNAPSHOT_DIR, true, e);
	return r < 0 ? r : link_deltas(dirfd, *ret_raw, e);
}

static int pause_disks(int dirfd, int area_fd, const char *name, struct error *e)
{
	_cleanup_close_ int raw = -1;
	int r = sync_guest(dirfd, e);

	if (r == 0)
		r = stack_is_full(dirfd) ? freeze_merged(dirfd, &raw, e)
					 : freeze_deltas(dirfd, &raw, e);
	return r == 0 ? keep(dirfd, raw, false, area_fd, name, e) : r;
}

int backend_vmm_pause(int dirfd, bool memory, int area_fd, const char *name, struct error *e)
{
	struct error why = {0};
	int r = begin(dirfd, area_fd, e);

	if (r < 0)
		return r;
	r = memory ? pause_with_memory(dirfd, area_fd, name, e)
		   : pause_disks(dirfd, area_fd, name, e);
	if (r < 0) {
		/* a failed snapshot has already let the sandbox go on; one in progress is waited
		 * for */
		if (backend_vmm_settle(dirfd, &why) < 0)
			log_warn("%s", why.message); /* the next call settles it */
		(void)workdir_remove(area_fd, name); /* if the commit failed halfway */
		return r;
	}
	drop_snapshot(dirfd);
	return 0;
}

/* --- live snapshots --- */

/* Makes the sandbox stand on what was written. If copying fails, the sandbox is not affected. */
static int advance(int dirfd, bool memory, int area_fd, const char *name,
	struct backend_snapshot *ret, struct error *e)
{
	_cleanup_(workdir_abort) struct workdir w = WORKDIR_INIT;
	struct error of_copy = {0};
	int begun = workdir_begin(area_fd, name, "snapshot", &w, &of_copy);
	int r = stack_advance(dirfd, begun == 0 ? w.fd : -1, memory, &ret->own_bytes, e);

	if (r == 0 && begun < 0) {
		*e = of_copy;
		return begun;
	}
	if (r == 0)
		r = fault_disk("snapshot-advanced", e);
	if (r == 0)
		r = workdir_commit(&w, e);
	return r;
}

/* Without memory this takes a whole snapshot, too, because only that makes the microVM switch to
 * new deltas. The memory layer becomes part of the stack of the running sandbox, but not of the
 * kept state. */
int backend_vmm_snapshot(int dirfd, bool memory, int area_fd, const char *name,
	struct backend_snapshot *ret, struct error *e)
{
	struct error why = {0};
	struct taken t;
	int r = begin(dirfd, area_fd, e);

	if (r == 0 && !memory)
		r = sync_guest(dirfd, e);
	if (r < 0)
		return r;
	r = take(dirfd, false, &t, e);
	cleanup_close_p(&t.fd);
	if (r == 0)
		r = fault_disk("snapshot-taken", e);
	if (r == 0)
		r = advance(dirfd, memory, area_fd, name, ret, e);
	else if (settle(dirfd, 0, &why) < 0)
		log_warn("%s", why.message); /* the next call settles it */
	ret->stop_ns = t.stop_ns;
	ret->held_ns = t.held_ns;
	return r;
}
