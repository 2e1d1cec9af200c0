/* Shared by the parts of exchange: exchange.c, exchange_request.c, exchange_http1.c,
 * exchange_http2.c. */
#ifndef INTERCEPT_EXCHANGE_INTERNAL_H
#define INTERCEPT_EXCHANGE_INTERNAL_H

#include "base/buf.h"
#include "intercept/exchange.h"
#include "intercept/fields.h"
#include "intercept/held_headers.h"
#include "intercept/rewrite.h"
#include "intercept/scrub.h"
#include "rules/call_asked.h"
#include "rules/rules.h"

enum { EXCHANGE_REASON_MAX = 200, EXCHANGE_RULE_MAX = 64 };

/* A request that waits for a person (exchange_hold.c).
 *
 *	READS	 waits for its body: all of it, or the first bytes of a large one. To ASKED
 *	ASKED	 a person was asked. To ALLOWED, or the request is refused
 *	ALLOWED	 goes to the server; if that has closed, as soon as there is a new connection
 *	JUDGES	 waits for all of its body, which decides (exchange_judge.c). To READS or ALLOWED,
 *		 or the request is refused */
enum exchange_hold_state {
	EXCHANGE_HOLD_READS,
	EXCHANGE_HOLD_ASKED,
	EXCHANGE_HOLD_ALLOWED,
	EXCHANGE_HOLD_JUDGES,
};

struct exchange_hold {
	enum exchange_hold_state state;
	uint64_t id;
	struct buf seen; /* the body as far as it is read; HTTP/2 keeps it in the stream */
	size_t taken;	 /* bytes of it that are shown and digested */
	int64_t body_bytes;
	char coding[32];
	char *method, *path; /* with the query; owned */
	/* For a body that is judged. */
	struct call_reader *reader; /* owned; NULL: it is not judged */
	const struct call *call;    /* what the body says, once complete */
	struct call_asked asked;    /* what of it a person is asked about */
	struct http2_budget *budget;
	bool wrong;    /* it cannot be judged */
	bool complete; /* all of its body was there when it was asked about */
};

/* A request from its head to its record. */
struct exchange_request_state {
	struct intercept *intercept; /* the rules that it began with; a reference */
	struct scrub scrub;	     /* for its answer */
	char method[32], path[EXCHANGE_PATH_MAX + 1];
	uint64_t begin_ms, up, down;
	struct rewrite_used used;
	unsigned status;
	const char *verdict;
	char reason[EXCHANGE_REASON_MAX], rule[EXCHANGE_RULE_MAX + 1];
	char noted[EXCHANGE_RULE_MAX + 9];
	const struct rules_answer *answer; /* until it is sent; NULL: answer with the reason */
	bool open;			   /* begun, and not recorded yet */
	bool two_methods, two_paths;	   /* servers may take others (rules/rules.h) */
	bool form;			   /* its body may replace the method */
	bool upgrade;			   /* it asks for a WebSocket */
	bool tools_named;		   /* rules speak of tools of MCP there */
	unsigned body;			   /* how to read its body (enum call_api) */
	size_t budgeted;		   /* bytes of it in the worker's budget */
	struct exchange_hold *hold;	   /* owned; NULL: it is not held */
	char *errors; /* owned: JSON answer to denied messages of MCP; or NULL */
	struct exchange_model_state *model; /* owned (exchange_model.c); NULL: it is for none */
	struct rewrite_set set;		    /* headers of the rules that allow it; owned */
	struct exchange_tools *tools;	/* owned (exchange_tools.c): its answer may list tools */
	struct exchange_charge *charge; /* owned (exchange_budget.c); NULL: no budget */
	bool went;			/* the server may have seen it */
};

/* What HTTP/1.1 and HTTP/2 implement. */
struct exchange_kind {
	int (*make)(struct exchange *x); /* 0 or -ENOMEM */
	void (*free)(struct exchange *x);
	size_t (*receive)(
		struct exchange *x, enum exchange_side from, const uint8_t *data, size_t n);
	void (*receive_end)(struct exchange *x, enum exchange_side from);
	bool (*wants)(const struct exchange *x, enum exchange_side from);
	void (*drained)(struct exchange *x, enum exchange_side to); /* there is room again */
	bool (*is_quiet)(const struct exchange *x);
	void (*end)(struct exchange *x);
	void (*server_failed)(struct exchange *x);
	/* Walks the held requests: returns the next one after `after`, the first one for NULL, or
	 * NULL at the end. */
	struct exchange_request_state *(*next_held)(
		struct exchange *x, const struct exchange_request_state *after);
	/* The body of a held request, as far as it was received. */
	const struct buf *(*held_body)(struct exchange *x, struct exchange_request_state *q);
	/* Judges a held request with its headers (exchange_judge_with). */
	struct exchange_verdict (*judge_held)(
		struct exchange *x, struct exchange_request_state *q, struct exchange_request r);
	/* Reads the headers of a held request (held_headers.h). Returns 0 or -ENOMEM. */
	int (*held_headers)(
		struct exchange *x, struct exchange_request_state *q, struct held_headers *ret);
	/* Ends the hold of a request. It is allowed and there is a server, or it is refused. */
	void (*let_go)(struct exchange *x, struct exchange_request_state *q, bool allowed);
	/* There is a new connection to the server. Returns 0 or -ENOMEM. */
	int (*renew)(struct exchange *x);
	void (*settle)(struct exchange *x); /* writes all output that can be sent now */
	size_t (*memory)(const struct exchange *x);
};

extern const struct exchange_kind exchange_http1, exchange_http2;

struct exchange {
	const struct exchange_kind *kind;
	char *host; /* that requests are for */
	uint16_t port;
	char *server_host, *server_path; /* that they go to, and what comes before their paths */
	uint16_t server_port;
	bool plain;
	struct intercept *intercept;
	struct exchange_callbacks callbacks;
	struct http2_budget *budget;
	struct buf out[2]; /* to each side */
	size_t tools_held; /* bytes that answers hold (tool_list.h) */
	unsigned said;	   /* secrets that were replaced in answers */
	enum exchange_state state;
	char reason[EXCHANGE_REASON_MAX];
	uint64_t hold_ids;  /* given out */
	bool server_failed; /* or gone: */
	bool server_lost;   /* it went while requests were held, so there may be another */
	char server_reason[EXCHANGE_REASON_MAX];
	struct http1 *http1; /* one of both is set */
	struct http2 *http2;
};

/* Ends the exchange; the first call counts. */
void exchange_finish(struct exchange *x, enum exchange_state state, const char *reason);

/* Why it ends if answers had too many secrets, or NULL: they had not. */
const char *exchange_said_much(const struct exchange *x);

/* Of the server: "api.example.com", or "api.example.com:8443" if it is not the scheme's own
 * port. */
enum { EXCHANGE_AUTHORITY_MAX = 264 };
void exchange_authority(const struct exchange *x, char out[EXCHANGE_AUTHORITY_MAX]);

/* What the server's path has before that of a request; not before "*". */
const char *exchange_prefix(const struct exchange *x, const char *path);

/* ---- exchange_request.c ---- */

/* A request as received. */
struct exchange_target {
	const char *method, *path;
	const char *query;	      /* if `path` does not include it; or NULL */
	const char *authority, *host; /* each NULL if it was not sent */
	const char *coding;	      /* of its body; NULL: no coding given */
	const struct http_headers *headers;
	bool upgrade;	       /* it asks for a WebSocket */
	int64_t body_bytes;    /* less than 0: not known */
	unsigned wrong_status; /* set if the protocol's part refuses it, else 0 */
	const char *wrong;
};

/* Returns 0 or -ENOMEM. */
int exchange_request_begin(struct exchange *x, struct exchange_request_state *q);

/* Notes how a request failed, unless that is noted already. */
void exchange_request_fail(
	struct exchange_request_state *q, unsigned status, const char *verdict, const char *reason);

/* Checks that the request is for this host, and judges it. Returns 0, EXCHANGE_HELD if it waits for
 * a person or its body, or -EINVAL if it has failed, with a status. t->path ends at a '?'. */
enum { EXCHANGE_HELD = 1 };
int exchange_request_check(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_target *t);

/* Gives a request that was held the present rules and secrets, before it goes to the server.
 * Returns 0 or -ENOMEM. */
int exchange_request_refresh(struct exchange *x, struct exchange_request_state *q);

/* Asks the judge, with what is known of the request beside `r`. */
struct exchange_verdict exchange_judge_with(
	struct exchange *x, const struct exchange_request_state *q, struct exchange_request r);

/* Asks the judge. Returns as exchange_request_check(). */
int exchange_request_judge(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_request *r);

/* Writes the fields that go to the server. Returns 0, or -EINVAL if the request has failed, with a
 * status. */
int exchange_request_rewrite(struct exchange *x, struct exchange_request_state *q,
	const struct http_headers *in, struct fields *out);

/* Records it, if it is open. */
void exchange_request_end(struct exchange *x, struct exchange_request_state *q);

/* An answer of our own: a rule's, or a reason as text. */
enum { EXCHANGE_ANSWER_MAX = EXCHANGE_REASON_MAX + 16 };

struct exchange_answer {
	const struct rules_header *headers;
	unsigned header_count;
	const char *body;
	size_t body_bytes;
	char text[EXCHANGE_ANSWER_MAX];
	char retry[24];
	struct rules_header own[3];
};

void exchange_request_answer(const struct exchange_request_state *q, struct exchange_answer *ret);

/* ---- exchange_judge.c ---- */

/* Begins to read the body of a held request. Returns 0 or -ENOMEM. */
int exchange_judge_begin(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_target *t);
size_t exchange_judge_room(void);

/* Counts bytes that a held request keeps. False: they are too many of the worker's, and the
 * request has failed. */
bool exchange_judge_count(struct exchange_request_state *q, size_t bytes);

/* Takes bytes of the body. `seen` keeps them for HTTP/1.1. Returns 0 or -ENOMEM. */
int exchange_judge_take(struct exchange_request_state *q, const void *data, size_t n);

/* Judges the request, once its body is complete or cannot be judged. Returns 0 if it may go,
 * EXCHANGE_HELD if it waits for the rest of the body or (in the state READS) for a person, or
 * -EINVAL if it has failed. */
int exchange_judge_end(struct exchange *x, struct exchange_request_state *q, bool complete);

/* The request has ended, and its body is gone. */
void exchange_judge_done(struct exchange *x, struct exchange_request_state *q);

/* ---- exchange_budget.c ---- */

/* Notes the budgets of a verdict, unless some were charged already. 0 or -ENOMEM. */
int exchange_budget_take(struct exchange_request_state *q, const struct exchange_verdict *v,
	const struct call *call);
/* What it may take at most, as its body is there. */
void exchange_budget_estimate(struct exchange_request_state *q);
/* Whether only budgets are asked, never a person: nothing of the body is needed for that. */
bool exchange_budget_is_blind(const struct exchange_request_state *q);
/* What it took, now that it has ended. model: NULL, or what is known of the answer. NULL: nothing
 * was charged. */
const struct exchange_charge *exchange_budget_end(
	struct exchange_request_state *q, const struct exchange_model *model);

/* ---- exchange_call.c ---- */

enum { EXCHANGE_CALL_TEXT = 1280 /* of all names that are shown */ };

struct exchange_call_text {
	struct exchange_call call; /* its strings are in here, or in what it was made of */
	const char *tools[EXCHANGE_NAMES_MAX + 1], *server_tools[EXCHANGE_NAMES_MAX + 1],
		*methods[EXCHANGE_NAMES_MAX + 1];
	char text[EXCHANGE_CALL_TEXT];
	size_t used;
};

/* Writes what a person is shown of a call. Returns 0 or -ENOMEM. */
int exchange_call_write(
	const struct call_asked *asked, const struct intercept *i, struct exchange_call_text *ret);

/* ---- exchange_model.c ---- */

/* A request that may go on, or is held. */
void exchange_model_begin(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_target *t);
/* Bytes of a body that nobody judges, and what one says that was judged. */
void exchange_model_take_body(struct exchange_request_state *q, const void *data, size_t n);
void exchange_model_judged(struct exchange_request_state *q, const struct call *call);
/* It is denied. What it called of MCP gets errors that its agent can read, unless a rule has an
 * answer for it. */
void exchange_model_deny(struct exchange_request_state *q, const struct call *call);
/* Whether its answer is read, and so must not be compressed. */
bool exchange_model_is_read(const struct exchange_request_state *q);
void exchange_model_begin_answer(struct exchange *x, struct exchange_request_state *q,
	unsigned status, const struct http_headers *headers);
void exchange_model_take_answer(struct exchange_request_state *q, const void *data, size_t n);
/* Fills *ret for the record. Returns whether there is anything to record. */
bool exchange_model_end(struct exchange_request_state *q, struct exchange_model *ret);
const char *exchange_model_mcp(const struct exchange_request_state *q);
void exchange_model_free(struct exchange_request_state *q);

/* ---- exchange_tools.c ---- */

/* The request, which may go on, has a body that asks for a list of tools, or (NULL) none, and its
 * answer may be events. 0, or -EINVAL: it has failed. */
int exchange_tools_begin(struct exchange *x, struct exchange_request_state *q, const char *path,
	const struct call *call);
/* The head of its answer. NULL, or why the answer cannot be passed on; static. */
const char *exchange_tools_begin_answer(struct exchange_request_state *q, unsigned status,
	const struct http_headers *headers, bool body);
/* Whether the answer is looked at, and its length may change. */
bool exchange_tools_change(const struct exchange_request_state *q);
/* Bytes of it that wait, of a tool. */
size_t exchange_tools_waiting(const struct exchange_request_state *q);
void exchange_tools_free(struct exchange_request_state *q);
/* Bytes that it takes, without those of the answer. */
size_t exchange_tools_memory(const struct exchange_request_state *q);

/* Bytes of the answer, of any request: what may pass of them goes to `out`, without secrets. 0 or
 * an error: -EBADMSG is the server's fault. */
int exchange_answer_bytes(
	struct exchange_request_state *q, const uint8_t *data, size_t n, struct buf *out);

/* ---- exchange_hold.c ---- */

/* Holds a request. allowed: it waits only for a new connection to the server. Returns
 * EXCHANGE_HELD, or -EINVAL if the request has failed. */
int exchange_hold_begin(struct exchange *x, struct exchange_request_state *q,
	const struct exchange_target *t, bool allowed);

/* Returns how many more bytes of the body are read before a person is asked. */
size_t exchange_hold_room(const struct exchange_request_state *q);

/* Takes bytes of its body. Ignores those beyond the room. Returns 0 or -ENOMEM. */
int exchange_hold_take(struct exchange_request_state *q, const void *data, size_t n);

/* Asks a person, once there is no more room or the body is complete. Returns 0, or -EINVAL if the
 * request has failed. */
int exchange_hold_ask(struct exchange *x, struct exchange_request_state *q, bool complete);

/* It is not held any more, and gets the answer that it has, or 502 if it has none. */
void exchange_hold_refuse(struct exchange *x, struct exchange_request_state *q);

/* Ends the hold, if there is one. */
void exchange_hold_end(struct exchange *x, struct exchange_request_state *q);

#endif
