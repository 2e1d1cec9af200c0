/* A TCP connection into a guest: dialled by its agent, then raw bytes on the event loop.
 *
 *	DIALLING  the agent connects; bytes may be queued already
 *	OPEN      bytes go both ways
 *	LOST      failed, or the guest reset it: only upstream_close() is left
 *
 * No callback is made from within a function of this header. A callback may close. */
#ifndef DAEMON_UPSTREAM_H
#define DAEMON_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "fleet/instance.h"

enum {
	UPSTREAM_HIGH = 256 * 1024, /* queued: upstream_write() returns 1 */
	UPSTREAM_LOW = 64 * 1024,   /* and ops->writable comes below this */
	UPSTREAM_MAX = 1024 * 1024,
};

enum upstream_state { UPSTREAM_DIALLING, UPSTREAM_OPEN, UPSTREAM_LOST };

struct upstream;

struct upstream_ops {
	void (*opened)(struct upstream *u, void *arg); /* may be NULL */
	void (*data)(struct upstream *u, const uint8_t *data, size_t n, void *arg);
	void (*eof)(struct upstream *u, void *arg); /* the guest sends no more; we still may */
	void (*writable)(struct upstream *u, void *arg);
	/* Final. AGENT_ERR_REFUSED: nothing listens; 0: it was open, or the sandbox has ended. */
	void (*lost)(struct upstream *u, enum agent_error_class why, void *arg);
};

/* 127.0.0.1 (then ::1) of the guest. 0 or -errno: the sandbox cannot be reached. */
int upstream_open(uv_loop_t *loop, struct instance *i, uint16_t port,
	const struct upstream_ops *ops, void *arg, struct upstream **ret);

/* Copies. 0; 1: full, stop until ops->writable; -errno. */
int upstream_write(struct upstream *u, const void *data, size_t n);
/* Ends our direction behind what is queued. */
void upstream_shutdown(struct upstream *u);
void upstream_pause(struct upstream *u);
void upstream_resume(struct upstream *u);
void upstream_close(struct upstream *u); /* NULL is fine */

#endif
