/* The processes that were started through the agent: their pipes and terminals, who is attached to
 * them, and how they ended. */
#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/resource.h>

#include "conn.h"

enum {
	PROCESS_INPUT_MAX = AGENT_STDIN_WINDOW + AGENT_PAYLOAD_MAX,
	PROCESS_CONFIG_MAX = 32 * 1024, /* a longer EXEC is kept without its env */
	PROCESS_EXITS_MAX = 256,	/* ends that are remembered, */
	PROCESS_EXITS_S = 30,		/* and for how long */
};

struct process {
	struct source out; /* stdout, or the PTY's master */
	struct source err;
	struct source in; /* stdin pipe; unused with a PTY */
	struct timer deadline, grace;
	struct process *next, **link;	   /* youngest first */
	struct conn *attached;		   /* linked by conn->next_attached */
	struct conn *owner;		   /* its loss kills the process */
	struct buf input;		   /* bytes for stdin or the PTY */
	uint64_t input_added, input_taken; /* bytes, ever */
	uint8_t *exec;			   /* payload of the EXEC, perhaps shortened */
	uint32_t exec_bytes;
	uint64_t started_ns;
	uint64_t serial; /* grows from process to process */
	pid_t pid;
	uint32_t flags;	   /* enum agent_process_flag */
	bool input_closed; /* no more input is accepted; the pipe closes when `input` is written */
	bool input_broken; /* what `input` still held was lost */
	bool killed;	   /* by us: do not wait for others who hold its output open */
	bool timed_out;
	struct agent_exit exit; /* valid with AGENT_PROCESS_EXITED */
	char tag[AGENT_NAME_MAX + 1];
};

struct process_exit { /* of a process that is gone */
	uint64_t until_ns;
	struct agent_exit exit;
	pid_t pid;
	char tag[AGENT_NAME_MAX + 1];
};

extern struct process *processes;
extern unsigned process_count;

struct process *process_find(const struct agent_selector *s);
const struct process_exit *process_find_exit(const struct agent_selector *s);

/* For the reaper. False when pid is none of these. */
bool process_reaped(pid_t pid, int status, const struct rusage *usage);

/* kill(2), with what a deadly signal means for the stream's end. 0 or -errno. */
int process_signal(struct process *p, uint32_t signo, bool whole_group);

/* Takes n (at most AGENT_PAYLOAD_MAX) bytes of input. -EAGAIN: the queue is full, come again after
 * control_input_progress(); -EPIPE: closed. */
int process_input(struct process *p, const void *data, size_t n);
void process_close_input(struct process *p);
int process_resize(struct process *p, unsigned cols, unsigned rows);
/* In control.c: a process took input, or will take none any more. */
void control_input_progress(struct process *p);

/* A process with its pid and descriptors filled in enters the table, and the loop. */
struct process *process_new(void);	 /* NULL: no memory, or AGENT_PROCESSES_MAX are running */
void process_discard(struct process *p); /* one that was not started */
int process_start(struct process *p);
/* Streams the process's output to c from now on. */
void process_attach(struct process *p, struct conn *c);

/* Kills all that still run, for the agent's end. */
void processes_kill_all(void);

#endif
