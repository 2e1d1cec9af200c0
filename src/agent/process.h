/* Processes that the agent started: their pipes and terminals, the connections attached to them,
 * and how they ended. */
#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "conn.h"

enum {
	PROCESS_INPUT_MAX = AGENT_STDIN_WINDOW + AGENT_PAYLOAD_MAX,
	PROCESS_CONFIG_MAX = 32 * 1024, /* a longer EXEC is kept without its env */
	PROCESS_EXITS_MAX = 256,	/* exits that are remembered, */
	PROCESS_EXITS_S = 30,		/* and for how long */
};

struct process {
	struct source out; /* stdout, or the PTY's master */
	struct source err;
	struct source in; /* stdin pipe; unused with a PTY */
	int unread_fd;	  /* the pipe once `in` is closed, to ask what is left in it; or -1 */
	struct timer deadline, grace;
	struct process *next, **link;	   /* youngest first */
	struct conn *attached;		   /* linked by conn->next_attached */
	struct conn *owner;		   /* losing this connection kills the process */
	struct buf input;		   /* bytes for stdin or the PTY */
	uint64_t input_added, input_taken; /* total bytes */
	uint8_t *exec;			   /* payload of the EXEC, possibly shortened */
	uint32_t exec_bytes;
	uint64_t started_ns;
	uint64_t serial; /* grows with each process */
	pid_t pid;
	uint32_t flags;	   /* enum agent_process_flag */
	bool input_closed; /* accepts no more input; the pipe closes once `input` is written */
	bool input_broken; /* bytes still in `input` were lost */
	bool input_unread; /* so far nothing of the pipe was read; set when `in` is closed */
	bool brief;	   /* do not wait for others that hold its output open */
	bool timed_out;
	uint8_t graces;		/* how often the end has waited for clients that are slow */
	bool kept;		/* started with AGENT_EXEC_KEEP */
	bool unclaimed;		/* and nobody has attached yet */
	bool traced;		/* TRACE has seen it become the program of its EXEC */
	struct agent_exit exit; /* valid with AGENT_PROCESS_EXITED */
	char tag[AGENT_NAME_MAX + 1];
};

struct process_exit { /* of a process that has been removed */
	uint64_t until_ns;
	struct agent_exit exit;
	pid_t pid;
	char tag[AGENT_NAME_MAX + 1];
};

extern struct process *processes;
extern unsigned process_count;

/* Find a process, or the remembered exit of a removed one, by pid or tag; the youngest first. NULL
 * when there is none. */
struct process *process_find(const struct agent_selector *s);
const struct process_exit *process_find_exit(const struct agent_selector *s);

/* For the reaper. False when pid is not one of these processes. */
bool process_reaped(pid_t pid, int status, const struct rusage *usage);

/* Sends a signal. A deadly one also ends the stream soon after the process. 0 or -errno. */
int process_signal(struct process *p, uint32_t signo, bool whole_group);

/* Gives the process `ms` to live. Then its group is killed, even if only others of the group are
 * left and hold its output open. */
void process_limit(struct process *p, uint32_t ms);

/* Queues n (at most AGENT_PAYLOAD_MAX) bytes of input. -EAGAIN: the queue is full, retry after
 * control_input_progress(); -EPIPE: closed. */
int process_input(struct process *p, const void *data, size_t n);
void process_close_input(struct process *p);
int process_resize(struct process *p, unsigned cols, unsigned rows);
/* In control.c: a process took input, or will take no more. */
void control_input_progress(struct process *p);

/* process_start puts a process, with its pid and descriptors filled in, into the table and the
 * loop. */
struct process *process_new(void);	 /* NULL: no memory, or AGENT_PROCESSES_MAX are running */
void process_discard(struct process *p); /* a process that was not started */
int process_start(struct process *p);
/* Streams the process's output to c from now on. */
void process_attach(struct process *p, struct conn *c);

/* Kills all running processes, when the agent ends. */
void processes_kill_all(void);

#endif
