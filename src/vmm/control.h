/* The control protocol between mayfly-vmm and its owner or other programs on the host.
 *
 * The socket is SOCK_SEQPACKET. Each packet is one text message of at most CONTROL_MESSAGE_MAX
 * bytes without a line end. Each request gets an answer, in order: "ok [TEXT]" or "error CODE ERRNO
 * MESSAGE". Requests:
 *
 *	status			-> ok running|paused|ended cpus=N memory_bytes=N exits=N layers=N
 *				tops=INODE,... steps writes=FILES
 *				layers: how many layers the memory stands on; tops: the files that
 *				the disks write to (0: read-only, or no disk); steps: this VMM knows
 *				stepwise snapshots; writes: the files that the next snapshot writes
 *				(snapshot_needs_format)
 *	pause
 *	resume			the answer comes before the guest runs. It cannot fail
 *	freeze			pause, but the guest's clock stands still until `resume`
 *	save FILE...		vm_save of a paused VM into empty files. Their descriptors come with
 *				the message (SCM_RIGHTS), in the order of the words
 *				(snapshot_files.h): state memory, and for each writable disk disk0
 *				or disk1
 *	hot			vm_save_hot; its memory and an empty file come with the message
 *	snapshot final FILE...	vm_snapshot into the files that `writes` in the status names
 *	snapshot live FILE...	the same, with disk0 and disk1 as the disks' fresh deltas
 *				-> ok memory=full|layer|merged disks=MERGED,... stop_ns=N pages=N
 *	snapshot stepwise ...	the same. If the VM runs, two messages precede the answer: "step
 *				stop" before the VM stops and "step running" when it runs again.
 *				After "step stop" it waits up to two seconds for "go" on the same
 *				connection. "go" has no answer
 *	flush			writes the disks' deltas to the host's disk
 *	freeze-disk		puts a fresh delta on top of the first disk; its empty file comes
 *				with the message. The delta below does not change any more, and
 *				is on the host's disk before the answer. The guest goes on
 *	idle			-> ok yes|no: yes if no host connection to the guest is open
 *	network			replaces the egress channel (vsock.h) by the one that comes with the
 *				message. If none comes, the guest can no longer open streams
 *	keep			the VM outlives its owner from now on
 *	quit			ends the VM after the answer
 *
 * Only the owner gets events: "event started" once the VM exists, "event ended REASON TEXT" when
 * the guest has ended (REASON: power-off, reset, crash, error), "event failed CODE ERRNO MESSAGE"
 * when the VM could not be created. Nothing follows the last two. */
#ifndef VMM_CONTROL_H
#define VMM_CONTROL_H

#include "base/error.h"

enum { CONTROL_MESSAGE_MAX = 1024, CONTROL_CONNECTIONS_MAX = 16, CONTROL_FDS_MAX = 8 };

/* Descriptors that come with a message. */
struct control_fds {
	int fd[CONTROL_FDS_MAX];
	unsigned count;
};
void control_fds_close(struct control_fds *fds); /* closes those that were not taken (set to -1) */

/* Formats an error as "CODE ERRNO MESSAGE" after `head`, and parses it. Text of any other form
 * becomes an ERROR_INTERNAL with that text. out has CONTROL_MESSAGE_MAX bytes. */
void control_format_error(const struct error *e, const char *head, char *out);
void control_parse_error(const char *text, struct error *e);

/* Sends one message with descriptors (NULL: none), which stay the caller's. Returns 0 or -errno.
 * Does not raise SIGPIPE. */
int control_send(int sock, const char *text, const struct control_fds *fds);

/* Receives one message and its descriptors, which become the caller's (NULL: they are closed).
 * Returns 1, 0 at the end of the stream, -EAGAIN when nothing is there, or -errno. out is
 * NUL-terminated. */
int control_receive(int sock, char out[CONTROL_MESSAGE_MAX], struct control_fds *ret_fds);

#endif
