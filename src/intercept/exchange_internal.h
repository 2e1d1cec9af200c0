/* Shared by the parts of exchange: exchange.c, exchange_request.c, exchange_http1.c,
 * exchange_http2.c. */
#ifndef INTERCEPT_EXCHANGE_INTERNAL_H
#define INTERCEPT_EXCHANGE_INTERNAL_H

#include "base/buf.h"
#include "intercept/exchange.h"
#include "intercept/fields.h"
#include "intercept/rewrite.h"
#include "intercept/scrub.h"
#include "rules/rules.h"

enum { EXCHANGE_REASON_MAX = 200, EXCHANGE_RULE_MAX = 64 };

/* A request that waits for a person (exchange_hold.c).
 *
 *	READS	 the first bytes of its body. To ASKED when they are there
 *	ASKED	 somebody is. To ALLOWED, or it is refused
 *	ALLOWED	 it goes to the server; if that has gone, as soon as there is another
 *	JUDGES	 all of its body, which decides (exchange_judge.c). Leads to READS and ALLOWED, or
 *		 it is refused */
enum exchange_hold_state {
	EXCHANGE_HOLD_READS,
	EXCHANGE_HOLD_ASKED,
	EXCHANGE_HOLD_ALLOWED,
	EXCHANGE_HOLD_JUDGES,
};

struct exchange_hold {
	enum exchange_hold_state state;
	uint64_t id;
	struct buf seen; /* the first bytes of its body */
	int64_t body_bytes;
	char coding[32];
	char *method, *path; /* with the query; owned */
	/* Of a body that is judged. */
	struct call_reader *reader; /* owned; NULL: it is not */
	const struct call *call;    /* what it says, when all is there */
	struct http2_budget *budget;
	bool wrong; /* it cannot be judged */
};

/* A request from its head to its record. */
struct exchange_request_state {
	struct intercept *intercept; /* what it began with; a reference */
	struct scrub scrub;	     /* for its answer */
	char method[32], path[EXCHANGE_PATH_MAX + 1];
	uint64_t begin_ms, up, down;
	struct rewrite_used used;
	unsigned status;
	const char *verdict;
	char reason[EXCHANGE_REASON_MAX], rule[EXCHANGE_RULE_MAX + 1];
	char noted[EXCHANGE_RULE_MAX + 9];
	const struct rules_answer *answer; /* until it is written; NULL: the reason is the answer */
	bool open;			   /* begun, and not recorded yet */
	unsigned body;			   /* as what its body is to be read */
	size_t budgeted;		   /* bytes of it in the worker's budget */
	struct exchange_hold *hold;	   /* owned; NULL: it is not held */
	char *errors; /* owned: the answer to messages of MCP that were denied, as JSON; NULL */
	struct exchange_model_state *model; /* owned (exchange_model.c); NULL: it is for none */
};

/* A protocol's part. */
struct exchange_kind {
	int (*make)(struct exchange *x); /* 0 or -ENOMEM */
	void (*free)(struct exchange *x);
	size_t (*receive)(
		struct exchange *x, enum exchange_side from, const uint8_t *data, size_t n);
	void (*receive_end)(struct exchange *x, enum exchange_side from);
	bool (*wants)(const struct exchange *x, enum exchange_side from);
	void (*drained)(struct exchange *x, enum exchange_side to); /* there is place again */
	bool (*holds)(const struct exchange *x);
	void (*release)(struct exchange *x, bool all);
	bool (*is_quiet)(const struct exchange *x);
	void (*end)(struct exchange *x);
	void (*server_failed)(struct exchange *x);
	/* The request that is held next in a list of all, of NULL: the first; NULL: no more. */
	struct exchange_request_state *(*next_held)(
		struct exchange *x, const struct exchange_request_state *after);
	/* A held request is allowed, and there is a server, or it is refused for what it has. The
	 * hold ends. */
	void (*let_go)(struct exchange *x, struct exchange_request_state *q, bool allowed);
	/* There is a new connection with the server. 0 or -ENOMEM. */
	int (*renew)(struct exchange *x);
	void (*settle)(struct exchange *x); /* makes what can be sent now */
	size_t (*memory)(const struct exchange *x);
};

extern const struct exchange_kind exchange_http1, exchange_http2;

struct exchange {
	const struct exchange_kind *kind;
	char *host;
	uint16_t port;
	bool plain;
	struct intercept *intercept;
	struct exchange_callbacks callbacks;
	struct http2_budget *budget;
	struct buf out[2]; /* to each side */
	enum exchange_state state;
	char reason[EXCHANGE_REASON_MAX];
	uint64_t hold_ids;  /* given out */
	bool server_failed; /* or gone: */
	bool server_lost;   /* it went while requests were held, so there may be another */
	char server_reason[EXCHANGE_REASON_MAX];
	struct http1 *http1; /* of the one or the other protocol */
	struct http2 *http2;
};

/* Ends the exchange; the first call counts. */
void exchange_finish(struct exchange *x, enum exchange_state state, const char *reason);

/* "api.example.com", or "api.example.com:8443" if it is not the scheme's own port. */
enum { EXCHANGE_AUTHORITY_MAX = 264 };
void exchange_authority(const struct exchange *x, char out[EXCHANGE_AUTHORITY_MAX]);

/* ---- exchange_request.c ---- */

/* A request as it came. */
struct exchange_target {
	const char *method, *path;
	const char *query;	      /* if the path has none; NULL: none */
	const char *authority, *host; /* each NULL if it was not sent */
	const char *coding;	      /* of its body; NULL: none is said */
	const struct http_headers *headers;
	int64_t body_bytes;    /* less than 0: not known */
	unsigned wrong_status; /* what the protocol's part found wrong, else 0 */
	const char *wrong;
};

/* 0 or -ENOMEM. */
int exchange_request_begin(struct exchange *x, struct exchange_request_state *q);

/* Notes how it failed, unless that is known. */
void exchange_request_fail(
	struct exchange_request_state *q, unsigned status, const char *verdict, const char *reason);

/* Checks for whom it is, and judges it. 0; EXCHANGE_HELD: it waits for a person; or -EINVAL: it has
 * failed, with a status. path ends at a '?'. */
enum { EXCHANGE_HELD = 1 };
int exchange_request_check(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_target *t);

/* It goes to the server after all: with the secrets that there are now. 0 or -ENOMEM. */
int exchange_request_refresh(struct exchange *x, struct exchange_request_state *q);

/* What the judge says. As exchange_request_check. */
int exchange_request_judge(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_request *r);

/* The fields that go to the server. 0, or -EINVAL: it has failed, with a status. */
int exchange_request_rewrite(struct exchange *x, struct exchange_request_state *q,
	const struct http_headers *in, struct fields *out);

/* Records it, if it is open. */
void exchange_request_end(struct exchange *x, struct exchange_request_state *q);

/* An answer of our own: a rule's, or the reason as text. */
enum { EXCHANGE_ANSWER_MAX = EXCHANGE_REASON_MAX + 16 };

struct exchange_answer {
	const struct rules_header *headers;
	unsigned header_count;
	const char *body;
	size_t body_bytes;
	char text[EXCHANGE_ANSWER_MAX];
};

void exchange_request_answer(const struct exchange_request_state *q, struct exchange_answer *ret);

/* ---- exchange_judge.c ---- */

/* Reads the body of a request that is being held. 0 or -ENOMEM. */
int exchange_judge_begin(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_target *t);
size_t exchange_judge_room(void);

/* Bytes of it. `seen` keeps them: all in HTTP/1.1, else the first. 0 or -ENOMEM. */
int exchange_judge_take(struct exchange_request_state *q, const void *data, size_t n);

/* Judges it, once it is complete or cannot be judged. 0: it may go; EXCHANGE_HELD: it waits, for
 * the rest or, in the state READS, for a person; -EINVAL: it has failed. */
int exchange_judge_end(struct exchange *x, struct exchange_request_state *q, bool complete);

/* The request has ended, and its body is gone. */
void exchange_judge_done(struct exchange *x, struct exchange_request_state *q);

/* ---- exchange_model.c ---- */

/* A request that may go on, or is held. */
void exchange_model_begin(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_target *t);
/* Bytes of a body that nobody judges, and what one says that was judged. */
void exchange_model_take_body(struct exchange_request_state *q, const void *data, size_t n);
void exchange_model_judged(struct exchange_request_state *q, const struct call *call);
/* It is denied. What it called of MCP gets errors that its agent can read. */
void exchange_model_deny(struct exchange_request_state *q, const struct call *call);
/* Whether its answer is to be read, so that it must not be compressed. */
bool exchange_model_is_read(const struct exchange_request_state *q);
void exchange_model_begin_answer(
	struct exchange_request_state *q, unsigned status, const struct http_headers *headers);
void exchange_model_take_answer(struct exchange_request_state *q, const void *data, size_t n);
/* Whether there is something to tell. */
bool exchange_model_end(struct exchange_request_state *q, struct exchange_model *ret);
void exchange_model_free(struct exchange_request_state *q);

/* ---- exchange_hold.c ---- */

/* allowed: it waits for another server only. EXCHANGE_HELD or -EINVAL: it has failed. */
int exchange_hold_begin(struct exchange *x, struct exchange_request_state *q,
	const struct exchange_target *t, bool allowed);

/* How many bytes of the body are still looked at before somebody is asked. */
size_t exchange_hold_room(const struct exchange_request_state *q);

/* Bytes of its body. Those beyond the room are left out. 0 or -ENOMEM. */
int exchange_hold_take(struct exchange_request_state *q, const void *data, size_t n);

/* Asks, once there is no room any more or the body is complete. 0, or -EINVAL: it has failed. */
int exchange_hold_ask(struct exchange *x, struct exchange_request_state *q, bool complete);

/* It is not held any more; nothing if it was not. */
void exchange_hold_end(struct exchange *x, struct exchange_request_state *q);

#endif
