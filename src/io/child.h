/* Runs external programs, with an argument vector and never through a shell.
 *
 * A child's stdin is a descriptor or /dev/null. Its stdout can be read here. Its stderr is split
 * into lines for a callback; the last lines are kept for the error message. The child dies by
 * SIGKILL when the thread that started it ends (PR_SET_PDEATHSIG), so that thread must live until
 * child_finish. Processes that the child starts do not get this signal. Callers wrap programs that
 * fork in `unshare --kill-child` where they can.
 *
 * Blocking; one thread per child. */
#ifndef IO_CHILD_H
#define IO_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "io/workshop.h"

enum {
	CHILD_LINE_MAX = 512,	    /* longer lines of stderr are cut */
	CHILD_TAIL_LINES = 3,	    /* lines of stderr kept for the error message */
	CHILD_OUTPUT_MAX = 8 << 20, /* stdout that child_run keeps */
};

/* Takes a line of stderr without its newline. A negative result ends the child and is returned. */
typedef int (*child_line_fn)(void *opaque, const char *line);

struct child_options {
	const char *const *argv; /* argv[0] is looked up in PATH, then /usr/sbin and /sbin */
	const char *const *env;	 /* "NAME=VALUE" on top of this process's environment, or NULL */
	const char *remedy;	 /* what to do if the program is missing, or NULL */
	const char *cwd;	 /* or NULL */
	int stdin_fd;		 /* 0: /dev/null; else borrowed */
	bool read_stdout;	 /* otherwise stdout goes to /dev/null */
	uint64_t timeout_ns;	 /* for the whole run; 0: none */
	child_line_fn on_line;	 /* or NULL */
	void *opaque;		 /* for on_line */
	/* The jail of a program that reads what others made, or NULL. It then has no more of this
	 * process's environment than the workshop names. --jail=off makes no jail. */
	const struct io_workshop *workshop;
};

/* A process that was started otherwise, to be read and waited for as if child_start had. */
struct child_adoption {
	const char *name; /* borrowed, for messages */
	pid_t pid;
	int out_fd,
		err_fd; /* read sides of pipes to its output (-1: none) and messages; taken over */
	uint64_t timeout_ns;
};

struct child {
	const char *name; /* borrowed from argv[0] */
	pid_t pid;	  /* 0 when not running */
	int pid_fd, out_fd, err_fd;
	uint64_t deadline_ns;
	child_line_fn on_line;
	void *opaque;
	char tail[CHILD_TAIL_LINES][CHILD_LINE_MAX];
	unsigned lines; /* lines of stderr so far */
	char line[CHILD_LINE_MAX];
	size_t line_len;
	struct child *beside; /* borrowed: another child whose stderr is read along, or NULL */
};

#define CHILD_INIT                                                                                 \
	{                                                                                          \
		.pid_fd = -1, .out_fd = -1, .err_fd = -1                                           \
	}

/* True when the program is found where child_start looks. */
bool child_program_exists(const char *name);

int child_start(struct child *c, const struct child_options *o, struct error *e);

/* Takes a process over; child_done kills it. On failure it is killed and the pipes are closed. */
int child_adopt(struct child *c, const struct child_adoption *a, struct error *e);

/* Gives the read side of stdout away, to another child for instance: -1 when there is none. The
 * caller closes it. Whoever reads another child meanwhile names this one as its `beside`, or it
 * blocks once its stderr is full. */
int child_take_output(struct child *c);

/* Reads stdout and stderr. Returns bytes of stdout, 0 at the end, or -errno with e filled. */
ssize_t child_read(struct child *c, void *data, size_t n, struct error *e);

/* Reads the rest of stderr and waits for the exit. An exit status other than 0 is an error with the
 * last lines of stderr (ERROR_NO_SPACE when they say so, else ERROR_HOST). */
int child_finish(struct child *c, struct error *e);

/* Kills and reaps. Safe at any time, also after child_finish. */
void child_done(struct child *c);

/* Starts, reads and finishes a program. `out` takes stdout; may be NULL. */
int child_run(const struct child_options *o, struct buf *out, struct error *e);

#endif
