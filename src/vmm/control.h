/* The control protocol between mayfly-vmm and its owner or other programs of the host.
 *
 * SOCK_SEQPACKET, one text message a packet, at most CONTROL_MESSAGE_MAX bytes, no line end.
 * Requests, each answered in order with "ok [TEXT]" or "error CODE ERRNO MESSAGE":
 *
 *	status			-> ok running|paused|ended cpus=N memory_bytes=N exits=N
 *	pause, resume
 *	hot			as snapshot, of a VM restored from there: adds "hot"
 *	snapshot		a directory's descriptor comes with the message (SCM_RIGHTS); the VM
 *must be paused; writes `state`, `memory` and the disks' deltas there grow INDEX BYTES	enlarges a
 *disk idle			-> ok yes|no: whether any host connection to the guest is open quit
 *ends the VM; the answer comes before
 *
 * Events go to the owner only: "event started" once the VM is made, "event ended REASON TEXT" when
 * the guest is over (REASON: power-off, reset, crash, error), "event failed CODE ERRNO MESSAGE"
 * when the VM could not be made. Nothing follows the last two. */
#ifndef VMM_CONTROL_H
#define VMM_CONTROL_H

#include "base/error.h"

enum { CONTROL_MESSAGE_MAX = 1024, CONTROL_CONNECTIONS_MAX = 16 };

/* "CODE ERRNO MESSAGE" of an error, and back (anything that is not of that form becomes an
 * ERROR_INTERNAL with the text as it is). out has CONTROL_MESSAGE_MAX bytes. */
void control_format_error(const struct error *e, const char *head, char *out);
void control_parse_error(const char *text, struct error *e);

/* Sends one message, with a descriptor when fd >= 0; 0 or -errno. Does not raise SIGPIPE. */
int control_send(int sock, const char *text, int fd);

/* Receives one message and its descriptor, if there is one (*ret_fd, else -1; ret_fd may be NULL:
 * descriptors are closed). 1, 0 at the end, -EAGAIN when nothing is there, -errno. out is
 * NUL-terminated. */
int control_receive(int sock, char out[CONTROL_MESSAGE_MAX], int *ret_fd);

#endif
