/* The control protocol between mayfly-vmm and its owner or other programs of the host.
 *
 * SOCK_SEQPACKET, one text message a packet, at most CONTROL_MESSAGE_MAX bytes, no line end.
 * Requests, each answered in order with "ok [TEXT]" or "error CODE ERRNO MESSAGE":
 *
 *	status			-> ok running|paused|ended cpus=N memory_bytes=N exits=N layers=N
 *				tops=INODE,... steps writes=FILES: how many layers the memory stands
 *				on, the files that the disks' writes go to (0: read-only, or no
 *				disk); it knows snapshots that are stepwise, and its next one
 *				writes these files (snapshot_needs_format)
 *	pause, resume
 *	save FILE...		of a paused VM: vm_save into empty files, whose descriptors come with
 *				the message (SCM_RIGHTS) in the order of their words
 *				(snapshot_files.h): state memory, and for each writable disk disk0 or
 *				disk1
 *	hot			vm_save_hot: its memory and an empty file come along
 *	snapshot final FILE...	vm_snapshot into the files that the status says it writes
 *	snapshot live FILE...	the same, and disk0 and disk1 are the disks' fresh deltas
 *				-> ok memory=full|layer|merged disks=MERGED,... stop_ns=N pages=N
 *	snapshot stepwise ...	the same, and of a running VM, before the answer: "step stop" when it
 *				is about to be stopped, which waits up to two seconds for "go" on
 *				the same connection (no answer), and "step running" when it runs again
 *	flush			writes the disks' deltas to the host's disk
 *	grow INDEX BYTES	enlarges a disk
 *	idle			-> ok yes|no: whether any host connection to the guest is open
 *	keep			it outlives its owner from now on
 *	quit			ends the VM; the answer comes before
 *
 * Events go to the owner only: "event started" once the VM is made, "event ended REASON TEXT" when
 * the guest is over (REASON: power-off, reset, crash, error), "event failed CODE ERRNO MESSAGE"
 * when the VM could not be made. Nothing follows the last two. */
#ifndef VMM_CONTROL_H
#define VMM_CONTROL_H

#include "base/error.h"

enum { CONTROL_MESSAGE_MAX = 1024, CONTROL_CONNECTIONS_MAX = 16, CONTROL_FDS_MAX = 8 };

/* Descriptors that come along with a message. */
struct control_fds {
	int fd[CONTROL_FDS_MAX];
	unsigned count;
};
void control_fds_close(struct control_fds *fds); /* those that were not taken: set to -1 */

/* "CODE ERRNO MESSAGE" of an error, and back (anything that is not of that form becomes an
 * ERROR_INTERNAL with the text as it is). out has CONTROL_MESSAGE_MAX bytes. */
void control_format_error(const struct error *e, const char *head, char *out);
void control_parse_error(const char *text, struct error *e);

/* Sends one message with descriptors (NULL: none), which stay the caller's; 0 or -errno. Does not
 * raise SIGPIPE. */
int control_send(int sock, const char *text, const struct control_fds *fds);

/* Receives one message and its descriptors, which are the caller's (NULL: they are closed). 1, 0 at
 * the end, -EAGAIN when nothing is there, -errno. out is NUL-terminated. */
int control_receive(int sock, char out[CONTROL_MESSAGE_MAX], struct control_fds *ret_fds);

#endif
