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
 * It does not own the sockets, and ends through a callback. */
#ifndef EGRESS_MIDDLE_H
#define EGRESS_MIDDLE_H

#include "egress/context.h"
#include "egress/first_bytes.h"
#include "intercept/exchange.h"
#include "intercept/tls.h"
#include "intercept/tls_kit.h"

/* Of a worker. Each holds some hundred KiB at most, beside the EXCHANGE_HELD_MAX of each
 * direction. */
enum {
	MIDDLES_MAX = 128,
	/* Of each: TLS and plain bytes of two sides, what HTTP holds for them, OpenSSL's own.
	 * HTTP/2's heads have a budget. */
	MIDDLE_BYTES_MAX = 2 * (TLS_IN_MAX + TLS_OUT_MAX + TLS_PLAIN_MAX) +
			   4 * (EXCHANGE_HELD_MAX + INTERCEPT_SECRET_MAX) + (256 << 10),
	MIDDLE_QUIET_S = 600, /* servers' own limits are mostly shorter */
	MIDDLE_BUSY_S = 7440, /* as NATs have it: RFC 5382, REQ-5 */
};

struct middle;

struct middle_end {
	const char *verdict; /* record.h: "allowed", "failed", "reset" */
	const char *reason;  /* "" if allowed */
};

struct middle_options {
	struct context *context;
	struct tls_kit *kit;
	struct intercept *intercept; /* of both, references are taken */
	struct loop_watch *guest,
		*remote;  /* both are in the loop; their callbacks call middle_run */
	const char *name; /* that was dialled; borrowed */
	uint16_t port;
	bool plain; /* neither side speaks TLS; begins OPEN. No secrets go out, and no headers of
		     * rules: `intercept` is not used, and may be NULL, as may `kit` */
	struct first_bytes *first; /* the guest's hello, and what came with it: taken over */
	/* It has ended: free it, close both sockets. Not before middle_new returns. */
	void (*ended)(void *arg, const struct middle_end *end);
	struct exchange_callbacks callbacks;
	/* Closes the remote socket and makes another connection: middle_renew follows, not before
	 * this returns. Returns NULL, or why there is none. */
	const char *(*redial)(void *arg);
	void *arg;
};

/* 0 or -ENOMEM. Call middle_run then, once. */
int middle_new(const struct middle_options *o, struct middle **ret);
void middle_free(struct middle *m); /* NULL is fine */

/* Events of a socket came; 0: none. May call `ended`. */
void middle_run(struct middle *m, uint32_t guest_events, uint32_t remote_events);

/* How well it may end, as another needs its place: milliseconds without a byte. Less than 0: it
 * may not. One without an open request always may, and goes before all others. */
int64_t middle_spare(const struct middle *m);

/* Ends it at once, in order if no request is open. Calls `ended`. */
void middle_evict(struct middle *m);

/* A new policy: its rules are for the requests to come, and for those that wait for a person. May
 * call `ended`. */
void middle_judge(struct middle *m, struct intercept *i);

/* What a person decided about a request that is held. stale: the server had heard nothing for long,
 * so a request of HTTP/1.1 goes to it by another connection. May call `ended`. */
void middle_decide(struct middle *m, uint64_t id, bool allowed, const char *reason, bool stale);

/* `remote` is another connection with the server, in the loop. why: there is none; NULL. May call
 * `ended`. */
void middle_renew(struct middle *m, const char *why);

/* Bytes that the server was sent and sent, as they were on the wire. */
void middle_bytes(const struct middle *m, uint64_t *ret_up, uint64_t *ret_down);

#endif
