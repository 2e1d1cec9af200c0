/* Requests to a running microVM through the control socket of its directory (vmm/control.h). */
#ifndef SANDBOX_VMM_REQUEST_H
#define SANDBOX_VMM_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "vmm/control.h"

/* A request that moves memory or waits for the host's disk has this long. */
enum { VMM_REQUEST_MS = 600 * 1000 };

/* Sends one request to any running microVM: "status", "quit" and so on. Waits at most ten seconds
 * for the answer. reply (may be NULL) gets the text behind "ok". ERROR_NOT_FOUND when nothing runs
 * there. */
int vmm_request(int dirfd, const char *text, char *reply, size_t reply_bytes, struct error *e);

/* Gives any running microVM another egress channel (docs/egress-protocol.md): the VMM's end of it,
 * borrowed. -1: it has no network any more. Streams that are open stay so. ERROR_USAGE: an older
 * Mayfly started it, and it knows no network. Otherwise as vmm_request. */
int vmm_set_egress(int dirfd, int channel, struct error *e);

/* Freezes the top delta of the first disk of a running microVM, and puts a fresh one on top:
 * delta_fd, an empty file (borrowed). The frozen delta is durable at the return. ERROR_LIMIT beyond
 * DISK_FROZEN_MAX. */
int vmm_freeze_disk(int dirfd, int delta_fd, struct error *e);

/* The steps of a request, for requests with several answers. */

/* Sends a request, with fds (borrowed, may be NULL), on a new connection. The caller closes
 * *ret_sock, also on failure; it may be negative. */
int vmm_ask(
	int dirfd, const char *text, const struct control_fds *fds, int *ret_sock, struct error *e);

/* Waits for the next message. `request` is for the error's text. */
int vmm_await_answer(int sock, const char *request, uint64_t limit_ns,
	char answer[CONTROL_MESSAGE_MAX], struct error *e);

/* Interprets an answer. Returns 0 with the text behind "ok " in reply (may be NULL), which is cut
 * to reply_bytes, or the error in it. */
int vmm_take_reply(const char *text, char *reply, size_t reply_bytes, struct error *e);

/* Waits until fd is readable. Returns 0, -ETIMEDOUT or -errno. */
int vmm_await_readable(int fd, uint64_t deadline_ns);

#endif
