/* A TCP connection into a guest: the agent dials it, then it carries raw bytes on the event loop.
 *
 *	DIALLING  the agent connects; bytes may be queued already
 *	OPEN      bytes flow both ways
 *	LOST      it failed, or the guest reset it: the owner may only call upstream_close()
 *
 * No function of this header calls back. A callback may close. */
#ifndef FLEET_UPSTREAM_H
#define FLEET_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "fleet/instance.h"
#include "http/budget.h"

enum {
	UPSTREAM_HIGH = 256 * 1024, /* queued bytes from which upstream_write() returns 1 */
	UPSTREAM_LOW = 64 * 1024,   /* ops->writable follows below this */
	UPSTREAM_MAX = 1024 * 1024,
};

enum upstream_state { UPSTREAM_DIALLING, UPSTREAM_OPEN, UPSTREAM_LOST };

struct upstream;

struct upstream_ops {
	void (*opened)(struct upstream *u, void *arg); /* may be NULL */
	void (*data)(struct upstream *u, const uint8_t *data, size_t n, void *arg);
	void (*eof)(struct upstream *u, void *arg); /* the guest sends no more; we still may */
	void (*writable)(struct upstream *u, void *arg);
	/* Final. AGENT_ERR_REFUSED: nothing listens. AGENT_ERR_LIMIT: too many use the sandbox. 0:
	 * it was open before, or the sandbox has ended. */
	void (*lost)(struct upstream *u, enum agent_error_class why, void *arg);
};

/* Passes the sandbox's gate (gate.h), then dials 127.0.0.1, then ::1, in the guest. Returns 0, or
 * -errno if the sandbox is unreachable. */
int upstream_open(uv_loop_t *loop, struct instance *i, uint16_t port,
	const struct upstream_ops *ops, void *arg, struct upstream **ret);

/* Counts what waits for the guest, once it is charged to an account (request_hold()). */
struct budget_hold *upstream_hold(struct upstream *u);

/* Copies the data. Returns 0; 1 when full: stop until ops->writable; or -errno. While the budget is
 * short, anything that waits makes it full. */
int upstream_write(struct upstream *u, const void *data, size_t n);
/* Ends our direction after what is queued. */
void upstream_shutdown(struct upstream *u);
void upstream_pause(struct upstream *u);
void upstream_resume(struct upstream *u);
void upstream_close(struct upstream *u); /* NULL is fine */

#endif
