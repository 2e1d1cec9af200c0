/* One intercepted connection: TLS with the server, TLS with the guest, and the HTTP between
 * (exchange.h). Without TLS it begins OPEN.
 *
 *	CONNECT	 the handshake with the server, with the protocols that the guest offers. Its
 *		 certificate is verified. To ACCEPT; to CLOSE if there is no TLS
 *	ACCEPT	 the handshake with the guest, with the protocol that the server chose. Of a server
 *		 that is not trusted, the guest gets a certificate with the same fault. To OPEN,
 *		 CLOSE
 *	OPEN	 bytes. What one side does not take waits in the exchange, and then the other is not
 *		 read. A guest that goes on in spite of a bad certificate gets 502 for each
 *		 request. Without a byte for MIDDLE_QUIET_S, or MIDDLE_BUSY_S while a request is
 *		 open, it ends. While a request waits for a person it does not, and the server may
 *		 go: it is dialled again for a request that is allowed (renewal). To CLOSE
 *	CLOSE	 nothing is read; what is to be sent, is sent. To LINGER
 *	LINGER	 waits for the guest's end, LINGER_MS at most: a reset would take bytes from it
 *
 * It does not own the sockets. It reports its end through a callback. */
#ifndef EGRESS_MIDDLE_H
#define EGRESS_MIDDLE_H

#include "egress/context.h"
#include "egress/first_bytes.h"
#include "egress/target.h"
#include "intercept/exchange.h"
#include "intercept/tls.h"
#include "intercept/tls_kit.h"

/* Limits of a worker. Each connection holds a few hundred KiB at most, besides EXCHANGE_HELD_MAX
 * for each direction. */
enum {
	MIDDLES_MAX = 128,
	/* Memory of each: TLS and plain bytes of both sides, what HTTP holds for them, and
	 * OpenSSL's own. Heads of HTTP/2 have a budget of their own. */
	MIDDLE_BYTES_MAX = 2 * (TLS_IN_MAX + TLS_OUT_MAX + TLS_PLAIN_MAX) +
			   4 * (EXCHANGE_HELD_MAX + INTERCEPT_SECRET_MAX) + (256 << 10),
	MIDDLE_QUIET_S = 600, /* servers' own limits are mostly shorter */
	MIDDLE_BUSY_S = 7440, /* as NATs have it: RFC 5382, REQ-5 */
};

struct consent_answer;
struct middle;

struct middle_end {
	const char *verdict; /* record.h: "allowed", "failed", "reset" */
	const char *reason;  /* "" if allowed */
};

struct middle_options {
	struct context *context;
	struct tls_kit *kit;
	struct intercept *intercept; /* takes references to kit and intercept */
	struct loop_watch *guest,
		*remote;  /* both are in the loop, and their callbacks call middle_run() */
	const char *name; /* the dialled name; borrowed */
	uint16_t port;
	const struct target_via *via; /* where it goes instead; borrowed. NULL: there */
	bool plain; /* neither side speaks TLS; begins OPEN. No secrets go out, and no headers of
		     * rules: `intercept` is not used, and may be NULL, as may `kit` */
	struct first_bytes *first; /* the guest's hello and bytes behind it; taken over */
	/* The connection has ended: free it and close both sockets. Called after middle_new() has
	 * returned. */
	void (*ended)(void *arg, const struct middle_end *end);
	struct exchange_callbacks callbacks;
	/* Closes the remote socket and dials again. middle_renew() follows after this returns.
	 * Returns NULL, or a static reason for a failure. */
	const char *(*redial)(void *arg);
	void *arg;
};

/* Returns Returns 0 or -ENOMEM. Then call middle_run() once. */
int middle_new(const struct middle_options *o, struct middle **ret);
void middle_free(struct middle *m); /* NULL is fine */

/* Handles events of the sockets; 0 means none. May call `ended`. */
void middle_run(struct middle *m, uint32_t guest_events, uint32_t remote_events);

/* Returns how suitable it is to be ended when another needs its place: milliseconds without a byte.
 * Less than 0: it must not be ended. A connection without an open request may always be ended, and
 * before all others. */
int64_t middle_spare(const struct middle *m);

/* Ends it at once; with a proper close if no request is open. Calls `ended`. */
void middle_evict(struct middle *m);

/* Applies a new policy to later requests, and to those that wait for a person. May call `ended`. */
void middle_judge(struct middle *m, struct intercept *i);

/* Passes on the answer to a question about a held request. stale: the server got nothing for a long
 * time, so a request of HTTP/1.1 needs a new connection. May call `ended`. */
void middle_decide(struct middle *m, uint64_t id, const struct consent_answer *answer, bool stale);

/* `remote` is a new connection to the server, in the loop. why: the reason if dialling failed, else
 * NULL. May call `ended`. */
void middle_renew(struct middle *m, const char *why);

/* Returns the bytes sent to the server (up) and received from it (down), as on the wire. */
void middle_bytes(const struct middle *m, uint64_t *ret_up, uint64_t *ret_down);

#endif
