/* The daemon's side of mayfly-deliver, the program that sends deliveries to webhooks
 * (deliver/deliver_wire.h).
 *
 * It runs in a workshop (io/workshop.h) that keeps the host's network: it sees the host's programs,
 * and neither the daemon's directory nor its processes. It gets one delivery in a packet: the URL,
 * the signed body, the header. It is not trusted, because a receiver may have taken it over. What
 * it says has a fixed size, and if it says anything odd, it is ended. A new one starts with the
 * next delivery, a second later at the earliest.
 *
 *	DOWN	  deliverer_is_ready() starts it
 *	STARTING  a thread of the pool starts it
 *	UP	  deliveries go in, results come out
 *	ENDING	  it is lost: a thread kills it, if it has not ended, and waits for its end
 *	RESTING	  until it may start again
 *
 * All functions belong to the loop's thread. Only deliverer_stop() may wait for the process. */
#ifndef DAEMON_DELIVERER_H
#define DAEMON_DELIVERER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/error.h"
#include "deliver/deliver_wire.h"

struct deliverer;

struct deliverer_ops {
	/* It takes deliveries, or may be asked again whether it does. */
	void (*ready)(void *arg);
	/* Returns false if that id was not sent, which loses the program. */
	bool (*said)(const struct deliver_said *said, void *arg);
	/* What was sent and not said may or may not have arrived. */
	void (*lost)(const char *why, void *arg);
};

struct delivery {
	uint64_t id;
	bool public_only;
	const char *url, *body;
	const struct buf *fields; /* each ends with a NUL */
};

/* ca: file of trusted authorities, or NULL: the host's. Borrows ops. Starts no process yet. */
int deliverer_open(uv_loop_t *loop, const char *ca, const struct deliverer_ops *ops, void *arg,
	struct deliverer **ret, struct error *e);

/* Whether it takes deliveries. If not, ready() follows: it is started, if it does not run. */
bool deliverer_is_ready(struct deliverer *d);
/* Only when it is ready. 0. -EAGAIN: ready() follows. -EMSGSIZE: it is too long to be sent ever. */
int deliverer_send(struct deliverer *d, const struct delivery *what);

/* The program does not do its work: ends it. lost() follows, within the call. */
void deliverer_give_up(struct deliverer *d, const char *why);

/* Ends the program; no callback follows. Frees d later. NULL is fine. */
void deliverer_stop(struct deliverer *d);

#endif
