/* What the files of launch share: a launched microVM and mayfly-vmm's command line. */
#ifndef SANDBOX_LAUNCH_INTERNAL_H
#define SANDBOX_LAUNCH_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "sandbox/launch.h"
#include "vmm/control.h"

struct vmm {
	pid_t pid; /* 0 after waitpid */
	enum jail_kind jail;
	int owner_fd;
	int lock_fd; /* our share of the directory's lock */
	bool ended;
	bool writable[SNAPSHOT_DISKS_MAX]; /* disks that have a delta */
	char pending[CONTROL_MESSAGE_MAX]; /* an event that came while waiting for a reply */
};

enum { LAUNCH_ARGS_MAX = 64, LAUNCH_FDS_MAX = 80, LAUNCH_FIRST_FD = 3 };

/* mayfly-vmm's command line and the descriptors that it inherits. Starts as zeros. */
struct launch_command {
	char *argv[LAUNCH_ARGS_MAX + 1]; /* ends with NULL */
	unsigned argc;
	int fds[LAUNCH_FDS_MAX]; /* owned; the child has them as LAUNCH_FIRST_FD and up */
	unsigned fd_count;
	int err; /* sticky */
};

/* Takes fd over for the child and returns the number that it has there. If fd cannot be kept, it is
 * closed, the command marked bad, and -1 returned. */
int launch_command_pass_fd(struct launch_command *c, int fd);

/* Makes the sandbox's sockets, opens all its files and adds the arguments that name them. owner_fd
 * is one of the descriptors that were passed. */
int launch_command_build(struct launch_command *c, const struct vmm_launch *l, int dirfd,
	int owner_fd, struct error *e);
void launch_command_done(struct launch_command *c);

/* Opens a file that a microVM wrote or that others stand on (see file_open_foreign), or creates it
 * with O_CREAT. Returns a descriptor or -errno. */
int launch_open_file(int dirfd, const char *path, int flags);

/* Tells the process to end, and kills it if it lives on after a second. */
void launch_end_process(struct vmm *v);

#endif
