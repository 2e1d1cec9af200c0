/* TRACE: the programs that other programs start, as the kernel's process connector reports them
 * (netlink; Documentation/driver-api/connector.rst, linux/cn_proc.h).
 *
 * The kernel makes events only while somebody asks for them. A filter drops all but the starts and
 * ends of programs before they wake the agent. Programs do not wait for any of this. So one that
 * is short may be gone before its arguments are read; then they are empty.
 *
 * One connection has the events, the newest. It gets AGENT_PROGRAMS_PER_S; the others are counted.
 * An agent under test tells of its descendants only. */
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
#include "base/clock.h"
#include "guest.h"
#include "process.h"
#include "procfs.h"
#include "requests.h"

enum {
	READS_PER_ROUND = 64,
	WAITING_MAX = 1024, /* more than fit into the socket */
	TOLD = 32768,	    /* a bit for each pid; larger ones share them */
	ANCESTORS_MAX = 64,
	OFFSET = NLMSG_HDRLEN + sizeof(struct cn_msg), /* of the event in a message */
};

static struct source events = {.fd = -1};
static struct timer second;
static struct conn *reader; /* NULL: nobody asks */
static unsigned left;	    /* of this second */
static uint32_t lost, dropped;
static bool late;	       /* what is read has waited for a second */
static uint8_t told[TOLD / 8]; /* starts whose end is to be told */

/* --- telling --- */

static void next_second(struct timer *t);

/* Beyond the rate, events wait in the kernel, which drops those that do not fit. So a guest that
 * starts programs without end does not keep the agent busy. */
static bool may_tell(void)
{
	if (!second.at_ns)
		timer_set(&second, NS_PER_S, next_second);
	if (left && conn_has_room(reader)) {
		left--;
		return true;
	}
	lost++;
	(void)source_wait(&events, 0); /* it is in the set */
	return false;
}

static uint32_t parent_of(uint32_t pid)
{
	_cleanup_free_ char *text = NULL;
	struct task_stat st;
	char dir[32];

	(void)snprintf(dir, sizeof(dir), "/proc/%u", pid); /* fits */
	return task_read(dir, &text, &st) < 0 ? 0 : st.parent;
}

static bool is_ours(uint32_t pid)
{
	for (int i = 0; !guest.init && pid != (uint32_t)getpid(); i++) {
		if (pid <= 1 || i == ANCESTORS_MAX)
			return false;
		pid = parent_of(pid);
	}
	return true;
}

static void tell_start(uint32_t pid)
{
	struct agent_program m = {.event = AGENT_PROGRAM_STARTED,
		.pid = pid,
		.parent = parent_of(pid),
		.uid = UINT32_MAX};
	char dir[32], command[AGENT_COMMAND_MAX];
	struct stat st;

	(void)snprintf(dir, sizeof(dir), "/proc/%u", pid); /* fits */
	if (stat(dir, &st) == 0)
		m.uid = st.st_uid;
	m.command = (const uint8_t *)command;
	m.command_bytes = (uint32_t)task_arguments(dir, command, sizeof(command));
	conn_send(reader, AGENT_PROGRAM, &m);
}

/* What EXEC starts is known to who asked for it, and so is its end. */
static void started(uint32_t pid)
{
	struct process *p = process_find(&(struct agent_selector){.pid = pid});

	if (p && !p->traced) {
		p->traced = true;
		return;
	}
	if (!is_ours(pid))
		return;
	if (late) {
		lost++;
		return;
	}
	if (!may_tell())
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
	if (may_tell())
		conn_send(reader, AGENT_PROGRAM, &m);
}

static void take(const struct nlmsghdr *m)
{
	const struct proc_event *e = (const void *)((const uint8_t *)m + OFFSET);

	if (!reader ||
		m->nlmsg_len < OFFSET + offsetof(struct proc_event, event_data.exit.exit_signal))
		return;
	if (e->what == PROC_EVENT_EXEC)
		started((uint32_t)e->event_data.exec.process_pid);
	else if (e->what == PROC_EVENT_EXIT)
		ended((uint32_t)e->event_data.exit.process_pid, e->event_data.exit.exit_code);
}

static void read_events(unsigned max)
{
	int r = 1;

	for (unsigned i = 0; reader && (r > 0 || r == -ENOBUFS) && i < max; i++)
		r = netlink_read(events.fd, take);
}

static void events_ready(struct source *s, uint32_t unused)
{
	read_events(READS_PER_ROUND);
}

/* Those that the kernel has dropped. */
static void count_dropped(void)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t n = sizeof(info);

	(void)getsockopt(events.fd, SOL_SOCKET, SO_MEMINFO, info, &n); /* else none */
	lost += info[SK_MEMINFO_DROPS] - dropped;
	dropped = info[SK_MEMINFO_DROPS];
}

/* Programs whose start has waited are gone most often: it is counted. Ends of others are told. */
static void next_second(struct timer *t)
{
	struct agent_program m = {.event = AGENT_PROGRAM_LOST};

	left = AGENT_PROGRAMS_PER_S;
	late = true;
	read_events(WAITING_MAX);
	late = false;
	if (!reader)
		return;
	count_dropped();
	m.value = lost;
	if (lost && conn_has_room(reader)) {
		lost = 0;
		conn_send(reader, AGENT_PROGRAM, &m);
	}
	if (reader && lost)
		timer_set(t, NS_PER_S, next_second);
	if (reader)
		(void)source_wait(&events, EPOLLIN); /* it was before */
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

static void trace_close(struct conn *c)
{
	(void)say(events.fd, PROC_CN_MCAST_IGNORE); /* closed in any case */
	source_close(&events);
	timer_cancel(&second);
	reader = NULL;
}

static int trace_open(struct conn *c)
{
	_cleanup_close_ int fd = netlink_open(NETLINK_CONNECTOR, CN_IDX_PROC);
	int r = fd < 0 ? fd : set_filter(fd);

	r = r ? r : say(fd, PROC_CN_MCAST_LISTEN);
	if (r < 0)
		return r;
	source_open(&events, TAKE_FD(fd), events_ready);
	memset(told, 0, sizeof(told));
	left = AGENT_PROGRAMS_PER_S;
	lost = dropped = 0;
	reader = c;
	return source_wait(&events, EPOLLIN);
}

/* --- the stream --- */

static bool trace_message(struct conn *c, const struct agent_frame *f)
{
	if (f->type != AGENT_STOP)
		return false;
	trace_close(c);
	conn_end_stream(c);
	conn_send(c, AGENT_END, NULL);
	return true;
}

static const struct stream_ops trace_ops = {.message = trace_message, .lost = trace_close};

void request_trace(struct conn *c, const struct agent_frame *f)
{
	int r;

	if (reader)
		conn_close(reader);
	r = trace_open(c);
	if (r < 0) {
		conn_error(c, AGENT_ERR_UNSUPPORTED, AGENT_TRACE, -r, "no events of processes");
		return;
	}
	conn_send(c, AGENT_OK, NULL);
	conn_take_over(c, &trace_ops, NULL);
}
