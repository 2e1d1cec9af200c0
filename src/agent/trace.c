/* TRACE: the programs that other programs start, as the kernel's process connector reports them
 * (netlink; Documentation/driver-api/connector.rst, linux/cn_proc.h).
 *
 * The kernel makes events only while somebody asks for them. A filter drops all but the starts and
 * ends of programs before they wake the agent. Programs do not wait for any of this. So one that
 * is short may be gone before its arguments are read; then they are empty. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>

#include "netlink.h"
#include "base/cleanup.h"
#include "process.h"
#include "procfs.h"
#include "report.h"
#include "requests.h"

enum {
	TOLD = 32768, /* a bit for each pid; larger ones share them */
	OFFSET = NLMSG_HDRLEN + sizeof(struct cn_msg), /* of the event in a message */
};

static void read_events(struct report *t, unsigned max);
static void tell_lost(struct report *t, uint32_t count);
static void stop_events(struct report *t);

static struct report trace = {
	.events = {.fd = -1}, .read = read_events, .tell_lost = tell_lost, .close = stop_events};
static uint32_t dropped;       /* by the kernel, as far as they are counted */
static uint8_t told[TOLD / 8]; /* starts whose end is to be told */

/* --- telling --- */

static void tell_start(uint32_t pid)
{
	struct agent_program m = {.event = AGENT_PROGRAM_STARTED,
		.pid = pid,
		.parent = report_parent_of(pid),
		.uid = UINT32_MAX};
	char dir[32], command[AGENT_COMMAND_MAX];
	struct stat st;

	(void)snprintf(dir, sizeof(dir), "/proc/%u", pid); /* fits */
	if (stat(dir, &st) == 0)
		m.uid = st.st_uid;
	m.command = (const uint8_t *)command;
	m.command_bytes = (uint32_t)task_arguments(dir, command, sizeof(command));
	conn_send(trace.reader, AGENT_PROGRAM, &m);
}

/* What EXEC starts is known to who asked for it, and so is its end. */
static void started(uint32_t pid)
{
	struct process *p = process_find(&(struct agent_selector){.pid = pid});

	if (p && !p->traced) {
		p->traced = true;
		return;
	}
	if (!report_is_ours(pid))
		return;
	if (trace.late) { /* it is gone most often */
		report_lose(&trace, 1);
		return;
	}
	if (!report_may_tell(&trace))
		return;
	if (!p)
		told[pid % TOLD / 8] |= (uint8_t)(1 << pid % 8);
	tell_start(pid);
}

static void ended(uint32_t pid, uint32_t status)
{
	const struct agent_program m = {.event = AGENT_PROGRAM_ENDED, .pid = pid, .value = status};
	uint8_t *at = &told[pid % TOLD / 8], bit = (uint8_t)(1 << pid % 8);

	if (!(*at & bit))
		return;
	*at &= (uint8_t)~bit;
	if (report_may_tell(&trace))
		conn_send(trace.reader, AGENT_PROGRAM, &m);
}

static void take(const struct nlmsghdr *m)
{
	const struct proc_event *e = (const void *)((const uint8_t *)m + OFFSET);

	if (!trace.reader ||
		m->nlmsg_len < OFFSET + offsetof(struct proc_event, event_data.exit.exit_signal))
		return;
	if (e->what == PROC_EVENT_EXEC)
		started((uint32_t)e->event_data.exec.process_pid);
	else if (e->what == PROC_EVENT_EXIT)
		ended((uint32_t)e->event_data.exit.process_pid, e->event_data.exit.exit_code);
}

/* Those that the kernel has dropped. */
static void count_dropped(void)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t n = sizeof(info);

	(void)getsockopt(trace.events.fd, SOL_SOCKET, SO_MEMINFO, info, &n); /* else none */
	report_lose(&trace, info[SK_MEMINFO_DROPS] - dropped);
	dropped = info[SK_MEMINFO_DROPS];
}

static void read_events(struct report *t, unsigned max)
{
	int r = 1;

	for (unsigned i = 0; t->reader && (r > 0 || r == -ENOBUFS) && i < max; i++)
		r = netlink_read(t->events.fd, take);
	if (t->reader && t->late)
		count_dropped();
}

static void tell_lost(struct report *t, uint32_t count)
{
	const struct agent_program m = {.event = AGENT_PROGRAM_LOST, .value = count};

	conn_send(t->reader, AGENT_PROGRAM, &m);
}

/* --- the kernel's events --- */

#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, OFFSET + offsetof(struct proc_event, at))

/* Lets starts and ends of whole processes pass. */
static int set_filter(int fd)
{
	struct sock_filter steps[] = {
		LOAD(what),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_EXEC), 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(PROC_EVENT_EXIT), 0, 4),
		LOAD(event_data.exec.process_pid),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		LOAD(event_data.exec.process_tgid),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	const struct sock_fprog filter = {ARRAY_SIZE(steps), steps};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) < 0 ? -errno
											 : 0;
}

static int say(int fd, enum proc_cn_mcast_op op)
{
	const struct {
		struct cn_msg head;
		uint32_t op;
	} m = {{.id = {CN_IDX_PROC, CN_VAL_PROC}, .len = sizeof(op)}, op};
	struct netlink n = {.len = 0};

	netlink_begin(&n, NLMSG_DONE, 0, &m, sizeof(m));
	return netlink_send(fd, &n);
}

static void stop_events(struct report *t)
{
	(void)say(t->events.fd, PROC_CN_MCAST_IGNORE); /* closed in any case */
}

static int open_events(void)
{
	_cleanup_close_ int fd = netlink_open(NETLINK_CONNECTOR, CN_IDX_PROC);
	int r = fd < 0 ? fd : set_filter(fd);

	r = r ? r : say(fd, PROC_CN_MCAST_LISTEN);
	return r < 0 ? r : TAKE_FD(fd);
}

void request_trace(struct conn *c, const struct agent_frame *f)
{
	int fd;

	report_end(&trace);
	fd = open_events();
	if (fd < 0) {
		conn_error(c, AGENT_ERR_UNSUPPORTED, AGENT_TRACE, -fd, "no events of processes");
		return;
	}
	memset(told, 0, sizeof(told));
	dropped = 0;
	report_begin(&trace, c, fd);
}
