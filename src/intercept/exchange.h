/* HTTP of one intercepted connection, without sockets and TLS: plain bytes of the guest and of the
 * server come in, and what each is to be sent comes out. RFC 9110, 9112 (HTTP/1.1), 9113 (HTTP/2).
 *
 * Every request is parsed strictly, judged, and written anew; nothing is forwarded as it came. Both
 * sides speak the same protocol. What the rules do to requests and answers: rewrite.h.
 *
 * The owner moves bytes:
 *
 *	n = exchange_receive(x, EXCHANGE_GUEST, data, n);     takes some, or none
 *	p = exchange_output(x, EXCHANGE_SERVER, &n);	      what is to be sent there
 *	exchange_sent(x, EXCHANGE_SERVER, n);		      so many of them were
 *
 * Each of these calls, and exchange_receive_end, may change the output of both sides, and what
 * exchange_wants and exchange_state say. So look at both sides after each.
 *
 * Back-pressure: receive takes less than n when there is no place for what it would become.
 * exchange_wants then says false, until something was sent or received on the other side. A request
 * of HTTP/1.1 waits until the one before it is answered.
 *
 * A person may be asked about a request (EXCHANGE_ASK). It is held: its head, and the first bytes
 * of its body, of which the person sees a preview; all of the body if it is short. Nothing more of
 * the body is taken, and the server hears of nothing, until exchange_decide. Streams of HTTP/2 are
 * held each, and the others go on. The server may end its connection meanwhile; then a request
 * that is allowed waits for another one (exchange_needs_server).
 *
 * A refused request gets an answer with a reason in plain text: 400, 405, 417, 421, 431, 501 or 505
 * for what it is, 403 for what the judge says, 502 for an unknown secret or a bad answer of the
 * server.
 *
 * Limits: heads of 64 KiB and 256 fields; with secrets in it a head may have 128 KiB;
 * EXCHANGE_HELD_MAX bytes of each direction wait; 100 streams of HTTP/2, whose heads and frames
 * take HTTP2_MEMORY_MAX bytes; what exceeds that ends the exchange. A connection has no clock:
 * the owner decides how long it may be silent. Nothing here blocks or calls the system. */
#ifndef INTERCEPT_EXCHANGE_H
#define INTERCEPT_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "intercept/intercept.h"
#include "intercept/model_answer.h"

enum {
	EXCHANGE_HEAD_MAX = 64 << 10,
	EXCHANGE_FIELDS_MAX = 256,
	EXCHANGE_HELD_MAX = 256 << 10,
	EXCHANGE_STREAMS_MAX = 100,
	EXCHANGE_PATH_MAX = 512,	    /* bytes of a path that records have; the rest is cut */
	EXCHANGE_TOOLS_MAX = 16,	    /* calls of a request that records have */
	EXCHANGE_DIGEST_BYTES = 2 * 32 + 1, /* SHA-256 as hexadecimal digits */
};

enum exchange_protocol { EXCHANGE_HTTP1, EXCHANGE_HTTP2 };

enum exchange_side { EXCHANGE_GUEST, EXCHANGE_SERVER };

enum exchange_state {
	EXCHANGE_GOING,
	EXCHANGE_DONE, /* send the outputs, then end both sides in order */
	/* send the output of the guest, then close both; exchange_reason says why */
	EXCHANGE_FAILED,
};

struct call;
struct http2_budget;
struct rules_answer;

/* A request as it is judged: its method, and its path up to a '?', both as the guest sent them. */
struct exchange_request {
	const char *method, *path;
	bool has_body;		 /* or may have one */
	const struct call *call; /* what its body says (EXCHANGE_READ); NULL: not read */
};

enum exchange_action {
	EXCHANGE_ALLOW,
	EXCHANGE_DENY,
	EXCHANGE_ASK,	 /* a person decides: the request is held */
	EXCHANGE_ANSWER, /* the rule's answer, in place of the server's */
	EXCHANGE_READ,	 /* its body decides: it is judged again when that is there */
};

/* Strings are valid until the next call. */
struct exchange_verdict {
	enum exchange_action action;
	const char *rule;   /* that decided; NULL: none */
	const char *reason; /* of DENY, for the program; NULL: the rule's name is the reason */
	const struct rules_answer *answer; /* of ANSWER */
	unsigned body;			   /* of READ: as what (enum call_api) */
	const char *noted, *noted_rule;	   /* what another rule says, that decides nothing; NULL */
};

/* A request that is held. Strings are valid during the call; NULL: none. */
struct exchange_question {
	uint64_t id; /* for exchange_decide */
	const char *rule, *method;
	const char *path;    /* with its query, as preview.h has it */
	const char *preview; /* of its body, likewise */
	const char *coding;  /* of its body, which is not shown then: "gzip" */
	int64_t body_bytes;  /* less than 0: not known */
	bool partial;	     /* its body goes on behind the preview */
	/* Of the whole path without its query; of all that is known of the request: method, path,
	 * query, coding, and the bytes of the preview as they came. */
	char path_digest[EXCHANGE_DIGEST_BYTES], digest[EXCHANGE_DIGEST_BYTES];
};

/* A tool of MCP that was called. */
struct exchange_tool {
	const char *name;
};

/* A request to a model, or to a server of tools. Strings are valid during the call. */
struct exchange_model {
	const char *api;     /* "anthropic", ... (rules/call.h); NULL: MCP */
	const char *model;   /* NULL: it named none */
	uint64_t max_tokens; /* that it asked for; 0: not said */
	struct model_answer_said said;
	const struct exchange_tool *tools;
	unsigned tool_count;
};

/* What became of a request. Strings are valid during the call. */
struct exchange_record {
	const char *method, *path; /* path without query, cut to EXCHANGE_PATH_MAX. "" of a request
				    * that could not be parsed */
	unsigned status;	   /* that the guest got; 0: none */
	/* "allowed", "denied" (refused before the server saw it), "failed" (no proper answer of the
	 * server), "reset" (cut off by either side) */
	const char *verdict;
	const char *reason;	    /* NULL if allowed */
	const char *rule;	    /* that decided; NULL: none */
	const char *noted;	    /* "ACTION RULE" that decided nothing; NULL: none */
	uint64_t begin_ms;	    /* since 1970 */
	uint64_t up, down;	    /* bytes of the bodies; of websockets, all bytes */
	const char *const *secrets; /* names of those that went into the request */
	unsigned secret_count;
	const struct exchange_model *model; /* NULL: it is for none */
};

struct exchange_callbacks {
	/* Called before anything of a request goes to the server: once, again with its body after
	 * EXCHANGE_READ, and if it is held again for each exchange_judge_held. NULL: all may. */
	struct exchange_verdict (*judge)(void *arg, const struct exchange_request *request);
	/* Called once per request, when it has ended. Not NULL. */
	void (*record)(void *arg, const struct exchange_record *record);
	void *arg;
	/* A person is to decide about a request: exchange_decide follows, not before this returns.
	 * Returns NULL, or why nobody can be asked. NULL: there is nobody. */
	const char *(*ask)(void *arg, const struct exchange_question *q);
	/* Nobody waits for that any more. */
	void (*unask)(void *arg, uint64_t id);
};

struct exchange_options {
	enum exchange_protocol protocol;
	const char *host; /* that was dialled, in lower case: each request must be for it */
	uint16_t port;	  /* likewise */
	bool plain;	  /* without TLS: HTTP/1.1 only */
	struct intercept *intercept; /* its rules; the exchange keeps a reference */
	struct exchange_callbacks callbacks;
	struct http2_budget *budget; /* of all exchanges of a worker (http2_memory.h); NULL: none */
};

struct exchange;

/* 0 or -ENOMEM. */
int exchange_new(const struct exchange_options *options, struct exchange **ret);

/* Frees, and wipes what may hold secrets. Requests that have not ended are recorded as reset. NULL
 * is fine. Not from a callback. */
void exchange_free(struct exchange *x);

/* Rules for requests that begin from now on. */
void exchange_set_intercept(struct exchange *x, struct intercept *intercept);

/* Returns how many bytes it took: all, or fewer (back-pressure). When the exchange is done or has
 * failed, all, and nothing becomes of them. */
size_t exchange_receive(struct exchange *x, enum exchange_side from, const void *data, size_t n);

/* This side has ended its direction, in order (a close_notify), and all its bytes were taken. */
void exchange_receive_end(struct exchange *x, enum exchange_side from);

/* Whether receive would take bytes of this side now. */
bool exchange_wants(const struct exchange *x, enum exchange_side from);

/* What is to be sent to a side now; the pointer is valid until the next call but exchange_wants and
 * exchange_state. *ret_n 0: nothing. */
const uint8_t *exchange_output(struct exchange *x, enum exchange_side to, size_t *ret_n);
void exchange_sent(struct exchange *x, enum exchange_side to, size_t n);

/* Whether bytes of an answer wait because they may be the beginning of a secret. When nothing
 * has followed for a short while, the owner lets those go that say little of one, and for a
 * longer one all: what stands for the secret goes out then (scrub_release). */
bool exchange_holds(const struct exchange *x);
void exchange_release(struct exchange *x, bool all);

/* Whether no request is open; then exchange_end ends it in order. */
bool exchange_is_quiet(const struct exchange *x);
void exchange_end(struct exchange *x);

enum exchange_state exchange_state(const struct exchange *x);
const char *exchange_reason(const struct exchange *x); /* of FAILED */

/* The server cannot be had any more: it could not be reached, has a bad certificate, was reset.
 * Requests without an answer get 502 and this reason (copied, 200 bytes at most), those that come
 * as well; those whose answer has begun are cut off. May be the first call of all: so a guest
 * learns why there is no connection. */
void exchange_fail_server(struct exchange *x, const char *reason);

/* What a person decided about a held request. reason: why not, for the program (copied); "": none
 * given. One that is not held any more: nothing. */
void exchange_decide(struct exchange *x, uint64_t id, bool allowed, const char *reason);

/* By another policy a held request may be allowed or denied now. */
void exchange_judge_held(struct exchange *x);

/* Whether requests are held, also if nobody was asked yet. */
bool exchange_is_held(const struct exchange *x);

/* Whether one of these has all that it needs of the guest: the others wait for its bytes. */
bool exchange_is_asked(const struct exchange *x);

/* A held request was allowed, and the server has gone meanwhile. exchange_renew_server follows: all
 * that comes from and goes to the server belongs to a new connection then. why: there is none, and
 * the request fails (copied); NULL. */
bool exchange_needs_server(const struct exchange *x);
void exchange_renew_server(struct exchange *x, const char *why);

/* Bytes of memory that the exchange holds, about; for tests. */
size_t exchange_memory(const struct exchange *x);

#endif
