/* Runs external programs, with an argument vector and never through a shell.
 *
 * A child's stdin is a descriptor or /dev/null. Its stdout can be read here. Its stderr is split
 * into lines for a callback; the last lines are kept for the error message. The kernel kills the
 * child when the thread that started it ends (PR_SET_PDEATHSIG, SIGKILL), so that thread must live
 * until child_finish. Processes that the child starts are not killed with it, unless the child is a
 * workshop (mayfly-workshop) or `unshare --kill-child`: then all end together.
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

/* Gets a line of stderr without its newline. A negative result kills the child, and the function
 * that was reading returns that result. */
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
	/* The jail for a program that reads untrusted files, or NULL. In it the program gets only
	 * those variables of this process that the workshop names. With --jail=off there is no
	 * jail. */
	const struct io_workshop *workshop;
};

/* A process that the caller has started by itself, for child_adopt. */
struct child_adoption {
	const char *name; /* borrowed, for messages */
	pid_t pid;
	int out_fd,
		err_fd; /* read ends of the pipes from its stdout (-1: none) and its stderr; taken
			 * over */
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
	struct child *beside; /* borrowed: another child whose stderr is read meanwhile, or NULL */
};

#define CHILD_INIT                                                                                 \
	{                                                                                          \
		.pid_fd = -1, .out_fd = -1, .err_fd = -1                                           \
	}

/* True when the program is found where child_start looks. */
bool child_program_exists(const char *name);

/* Starts a program. o is only needed during the call, but argv[0] and opaque must outlive c.
 * ERROR_HOST: the program is missing, or this host allows no jail. If the program cannot be
 * executed, its exit status is 127. child_done must follow a success, and is safe after a
 * failure. */
int child_start(struct child *c, const struct child_options *o, struct error *e);

/* Makes c the owner of that process, as if child_start had started it. On failure the process is
 * killed and its pipes are closed. */
int child_adopt(struct child *c, const struct child_adoption *a, struct error *e);

/* Hands the read end of stdout to the caller, who closes it; for instance to make it the stdin of
 * another child. Returns -1 if there is none. Somebody must still read this child's stderr, or the
 * child blocks when that pipe is full: set `beside` of the other child to this one. */
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
