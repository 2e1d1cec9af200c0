/* HTTP of one intercepted connection, without sockets and TLS. Plain bytes from the guest and the
 * server come in; the bytes to send to each come out. RFC 9110, 9112 (HTTP/1.1), 9113 (HTTP/2).
 *
 * Every request is parsed strictly, judged, and written anew; nothing is forwarded as received.
 * Both sides speak the same version of HTTP. rewrite.h says how requests and answers are changed.
 *
 * The owner moves bytes:
 *
 *	n = exchange_receive(x, EXCHANGE_GUEST, data, n);     takes some, or none
 *	p = exchange_output(x, EXCHANGE_SERVER, &n);	      what is to be sent there
 *	exchange_sent(x, EXCHANGE_SERVER, n);		      so many of them were
 *
 * Each of these calls, and exchange_receive_end(), may change the output of both sides and the
 * results of exchange_wants() and exchange_state(). So look at both sides after each call.
 *
 * Back-pressure: exchange_receive() takes less than n bytes if there is no room for the output.
 * exchange_wants() then returns false until the other side has sent or received something. A
 * request of HTTP/1.1 waits until the previous one is answered.
 *
 * A person may be asked about a request (EXCHANGE_ASK). The exchange then holds its head and its
 * body, or the first bytes of one that is larger than CALL_BODY_MAX (rules/call.h). The person sees
 * a preview of it. Until exchange_decide() nothing more is taken, and the server gets nothing. A
 * held stream of HTTP/2 does not stop the others. The server may close its connection meanwhile.
 * Then an allowed request waits for a new connection (exchange_needs_server()).
 *
 * A refused request gets an answer with a reason in plain text: 400, 405, 417, 421, 431, 501 or 505
 * if the request itself is not acceptable, 403 if it is denied, 502 for an unknown secret or a bad
 * answer of the server.
 *
 * Limits: a head has at most 64 KiB and 256 fields, or 128 KiB after secrets were put in. At most
 * EXCHANGE_HELD_MAX bytes wait in each direction. HTTP/2 has at most 100 streams, and their heads
 * and frames take at most HTTP2_MEMORY_MAX bytes. Exceeding a limit ends the exchange. After
 * EXCHANGE_SAID_MAX secrets in answers it ends with the answers that have begun, or at
 * EXCHANGE_SAID_CUT at once, and exchange_reason() says so. There is no
 * clock: the owner limits silence. Nothing here blocks or makes system calls. */
#ifndef INTERCEPT_EXCHANGE_H
#define INTERCEPT_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "intercept/intercept.h"
#include "intercept/model_answer.h"
#include "rules/rules_budget.h"

enum {
	EXCHANGE_HEAD_MAX = 64 << 10,
	EXCHANGE_FIELDS_MAX = 256,
	EXCHANGE_HELD_MAX = 256 << 10,
	EXCHANGE_STREAMS_MAX = 100,
	EXCHANGE_SAID_MAX = 64,
	EXCHANGE_SAID_CUT = 256,
	EXCHANGE_PATH_MAX = 512, /* bytes of a path in records; the rest is cut */
	EXCHANGE_TOOLS_MAX = 16, /* calls in the record of a request */
	EXCHANGE_NAMES_MAX = 16, /* tools in the record of a request to a model */
	EXCHANGE_NAME_MAX = 64,	 /* bytes of each; others are left out */
	EXCHANGE_SETTERS_MAX = 8,
	EXCHANGE_DIGEST_BYTES = 2 * 32 + 1, /* SHA-256 as hexadecimal digits */
	EXCHANGE_BUDGETS_MAX = 8,	    /* of a request */
	EXCHANGE_BUDGET_ID_MAX = 64,
	EXCHANGE_BUDGET_TEXT_MAX = 160,
};

enum exchange_protocol { EXCHANGE_HTTP1, EXCHANGE_HTTP2 };

enum exchange_side { EXCHANGE_GUEST, EXCHANGE_SERVER };

enum exchange_state {
	EXCHANGE_GOING,
	EXCHANGE_DONE, /* send the outputs, then close both sides properly */
	/* send the guest's output, then close both sides; exchange_reason() says why */
	EXCHANGE_FAILED,
};

struct call;
struct held_header;
struct http2_budget;
struct rules_answer;
struct rules_rule;

/* A request for the judge: its method, and its path up to a '?', as the guest sent them. */
struct exchange_request {
	const char *method, *path;
	const char *query;		    /* NULL: none */
	const struct http_headers *headers; /* NULL: none */
	bool upgrade;			    /* it asks for a WebSocket */
	bool has_body;			    /* or may have one */
	bool two_methods;		    /* servers may take another method (rules/rules.h) */
	bool two_paths;			    /* likewise */
	bool form;			    /* its body may be a form that replaces its method */
	const struct call *call; /* what its body says (after EXCHANGE_READ); NULL: not read */
};

enum exchange_action {
	EXCHANGE_ALLOW,
	EXCHANGE_DENY,
	EXCHANGE_ASK,	 /* hold the request until a person decides */
	EXCHANGE_ANSWER, /* answer with the rule's own text */
	EXCHANGE_READ,	 /* read its body, then judge it again */
};

/* Strings must stay valid until the next call. */
struct exchange_verdict {
	enum exchange_action action;
	const char *rule;		   /* the rule that decided; NULL: none */
	const char *reason;		   /* of DENY, for the program; NULL: name the rule */
	const struct rules_answer *answer; /* of ANSWER */
	const struct rules_rule *asks;	   /* of ASK: the rule that asks, or NULL */
	unsigned body;			   /* of READ: how to read it (enum call_api) */
	bool tools;			   /* rules speak of tools of MCP there */
	/* Of ALLOW and ASK: rules that set headers; of a name, the first of them counts. */
	const struct rules_rule *setters[EXCHANGE_SETTERS_MAX];
	unsigned setter_count;
	const char *noted, *noted_rule; /* word and id of a rule that only notes; NULL */
	/* Of ALLOW and ASK: the rules whose budgets the request takes from, at most
	 * EXCHANGE_BUDGETS_MAX. With budgets, ALLOW holds the request until they are charged. */
	const struct rules_rule *const *budgets;
	unsigned budget_count;
};

/* What a request takes from one budget. */
struct exchange_budget {
	char id[EXCHANGE_BUDGET_ID_MAX + 1]; /* of its rule */
	enum rules_budget_per per;
	enum rules_budget_window window;
	bool ask;
	struct rules_amounts limits;
	struct rules_amounts most; /* the most that the request may take */
	struct rules_amounts took; /* what it took; valid after its end */
	uint64_t price_in, price_out;
};

struct exchange_charge {
	struct exchange_budget list[EXCHANGE_BUDGETS_MAX];
	unsigned count;
	bool asks;    /* a person is asked in any case */
	bool charged; /* the budgets were charged; day and text are valid */
	bool refused; /* a budget is used up; retry_s is valid */
	uint64_t day;
	uint64_t retry_s; /* seconds until the budget begins anew; 0: never */
	char text[EXCHANGE_BUDGET_TEXT_MAX + 1]; /* how much is used */
};

/* The result of charging budgets. Members are as in struct exchange_charge. */
struct exchange_charged {
	uint64_t day, retry_s;
	const char *text; /* or NULL */
	bool refused;
};

/* Names; in records of printable ASCII without quotes. EXCHANGE_NAMES_CUT at the end stands for
 * others. */
#define EXCHANGE_NAMES_CUT "..."
struct exchange_names {
	const char *const *names;
	unsigned count; /* at most EXCHANGE_NAMES_MAX and that one */
};

/* What is called, for a person; written by preview.h. Names that are longer than EXCHANGE_NAME_MAX
 * end with EXCHANGE_NAMES_CUT, too. */
struct exchange_call {
	const char *api, *model; /* NULL: no model */
	struct exchange_names tools, server_tools, methods;
	const char *digest; /* of what a decision for longer covers (rules/call_asked.h) */
};

/* A question about a held request. Strings are valid during the call and may be NULL. */
struct exchange_question {
	uint64_t id; /* for exchange_decide */
	const char *rule, *method;
	const char *path;    /* with its query, written by preview.h */
	const char *preview; /* of its body, written by preview.h */
	const char *coding;  /* coding of a body that is not shown, such as "gzip" */
	int64_t body_bytes;  /* less than 0: unknown */
	bool partial;	     /* the body, path or headers are longer than what is shown */
	bool unseen;	     /* partial, or more than a quarter of the body is hidden */
	size_t hidden;	     /* bytes of the body that are hidden */
	const char *const *hidden_names; /* of its members whose values are; the first ones */
	unsigned hidden_count;
	const struct held_header *headers; /* but usual ones (held_headers.h) */
	unsigned header_count;
	/* path_digest: of the whole path without query. action_digest: of headers that name an
	 * action; "" if there are none. digest: of all that is known: method, path, query, coding,
	 * all headers but harmless ones, and the body's bytes that were read. */
	char path_digest[EXCHANGE_DIGEST_BYTES], digest[EXCHANGE_DIGEST_BYTES];
	const char *action_digest;
	/* Budgets to charge before it goes on; a person is asked only if these say so, or `asks`.
	 * NULL: none, and a person is. */
	const struct exchange_charge *charge;
	const struct exchange_call *call; /* if the rule that asks reads calls; else NULL */
};

/* A call of an MCP tool. */
struct exchange_tool {
	const char *name;
};

/* What a record has of a request to a model or an MCP server. Strings are valid during the call. */
struct exchange_model {
	const char *api;     /* "anthropic", ... (rules/call.h); NULL: MCP */
	const char *model;   /* NULL: the request named none */
	uint64_t max_tokens; /* that the request asked for; 0: none given */
	/* The first tools that it offers: those that its program runs, and the provider's. */
	struct exchange_names offered, server_tools;
	const char *unclear; /* static: why rules could not judge its body; NULL: they could */
	const char *coding;  /* of an answer that cannot be read, such as "br"; NULL: none */
	struct model_answer_said said;
	const struct exchange_tool *tools;
	unsigned tool_count;
};

/* The record of a request that has ended. Strings are valid during the call. */
struct exchange_record {
	const char *method, *path; /* path without query, cut to EXCHANGE_PATH_MAX; "" if the
				    * request could not be parsed */
	unsigned status;	   /* status that the guest got; 0: none */
	/* "allowed", "denied" (refused before the server saw it), "failed" (no proper answer of the
	 * server), "reset" (cut off by either side) */
	const char *verdict;
	const char *reason;	    /* NULL if allowed */
	const char *rule;	    /* that decided; NULL: none */
	const char *noted;	    /* "ACTION RULE" of a rule that only notes; NULL: none */
	uint64_t begin_ms;	    /* since 1970 */
	uint64_t up, down;	    /* bytes of bodies; for websockets, all bytes */
	const char *const *secrets; /* names of the secrets that went into the request */
	unsigned secret_count;
	/* A request that was read as MCP: "tools" if it has only what rules about tools decide,
	 * and all its tools are told; else "other". NULL: not read so */
	const char *mcp;
	const struct exchange_model *model;   /* NULL: not for a model or tool */
	const struct exchange_charge *charge; /* what it took from budgets; NULL: nothing */
};

struct exchange_callbacks {
	/* Judges a request. Called before the server gets any of it: once; again with its body
	 * after EXCHANGE_READ; and for a held request at each exchange_judge_held(). If NULL, all
	 * requests are allowed. */
	struct exchange_verdict (*judge)(void *arg, const struct exchange_request *request);
	/* Called once for each request, when it has ended. Must not be NULL. */
	void (*record)(void *arg, const struct exchange_record *record);
	void *arg;
	/* Asks a person about a request. exchange_decide() follows after this returns. Returns
	 * NULL, or why nobody can be asked. May be NULL: then nobody can be asked. */
	const char *(*ask)(void *arg, const struct exchange_question *q);
	/* Withdraws a question. judged: the policy has changed, and answers it. */
	void (*unask)(void *arg, uint64_t id, bool judged);
	/* Whether a tool of MCP may be called by requests to this path; of those that may not,
	 * answers to tools/list say nothing (tool_list.h). NULL: all are shown. */
	bool (*shows)(void *arg, const char *path, const char *tool);
};

struct exchange_options {
	enum exchange_protocol protocol;
	const char *host; /* the dialled host, in lower case; requests must be for it */
	uint16_t port;	  /* likewise */
	/* Where requests go, if that is another server: `server_path` comes before each path, and
	 * secrets and headers of rules are those of this host. NULL: to `host`. */
	const char *server_host;
	uint16_t server_port;
	const char *server_path;     /* "" or "/v1"; NULL with server_host */
	bool plain;		     /* without TLS: HTTP/1.1 only */
	struct intercept *intercept; /* its rules; the exchange takes a reference */
	struct exchange_callbacks callbacks;
	struct http2_budget *budget; /* of all exchanges of a worker (http2_memory.h); NULL: none */
};

struct exchange;

/* Returns 0 or -ENOMEM. */
int exchange_new(const struct exchange_options *options, struct exchange **ret);

/* Frees the exchange and wipes what may hold secrets. Records unfinished requests as reset. NULL is
 * fine. Must not be called from a callback. */
void exchange_free(struct exchange *x);

/* Sets the rules for requests that begin from now on. */
void exchange_set_intercept(struct exchange *x, struct intercept *intercept);

/* Returns how many bytes it took; fewer than n means back-pressure. After DONE or FAILED it takes
 * all bytes and drops them. */
size_t exchange_receive(struct exchange *x, enum exchange_side from, const void *data, size_t n);

/* This side has properly ended its direction (with a close_notify), and all its bytes were
 * taken. */
void exchange_receive_end(struct exchange *x, enum exchange_side from);

/* Whether exchange_receive() would take bytes of this side now. */
bool exchange_wants(const struct exchange *x, enum exchange_side from);

/* Returns what to send to a side now; *ret_n may be 0. The pointer is valid until the next call,
 * except exchange_wants() and exchange_state(). */
const uint8_t *exchange_output(struct exchange *x, enum exchange_side to, size_t *ret_n);
void exchange_sent(struct exchange *x, enum exchange_side to, size_t n);

/* Whether no request is open. Then exchange_end() ends the exchange properly. */
bool exchange_is_quiet(const struct exchange *x);
void exchange_end(struct exchange *x);

enum exchange_state exchange_state(const struct exchange *x);
const char *exchange_reason(const struct exchange *x); /* of FAILED; of DONE it may be "" */

/* The server is lost: it could not be reached, has a bad certificate, or reset the connection.
 * Present and later requests without an answer get 502 with this reason (copied, at most 200
 * bytes). Requests whose answer has begun are cut off. It may be the first call after
 * exchange_new(), so that the guest learns why there is no connection. */
void exchange_fail_server(struct exchange *x, const char *reason);

/* Passes on a person's decision about a held request. reason: why not, for the program (copied);
 * may be "". Does nothing if the request is no longer held. */
void exchange_decide(struct exchange *x, uint64_t id, bool allowed, const char *reason);

/* Notes the result of charging the budgets of a held request. Call exchange_decide() then. */
void exchange_note_charge(struct exchange *x, uint64_t id, const struct exchange_charged *c);

/* The policy has changed: judges held requests again. */
void exchange_judge_held(struct exchange *x);

/* Whether any request is held, even if nobody was asked yet. */
bool exchange_is_held(const struct exchange *x);

/* Whether a held request has all bytes that it needs from the guest. Otherwise all held requests
 * still wait for bytes. */
bool exchange_is_asked(const struct exchange *x);

/* Whether a held request was allowed after the server had closed. exchange_renew_server() must
 * follow. From then on, bytes from and to the server belong to a new connection. why: NULL, or the
 * reason if there is no connection (copied); then the request fails. */
bool exchange_needs_server(const struct exchange *x);
void exchange_renew_server(struct exchange *x, const char *why);

/* Returns about how many bytes of memory the exchange holds; for tests. */
size_t exchange_memory(const struct exchange *x);

#endif
