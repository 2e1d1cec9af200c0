/* The language of policies (docs/policy.md). A list of rules is in order: the first rule that
 * matches decides. If none matches, the default decides. A list is one layer of a worker's policy.
 *
 * A rule is about flows (host, address, port), or also about HTTP requests (method, path). A flow
 * is judged before anything is dialled, when its requests are not known yet. If rules about
 * requests may match, the flow is allowed so that it can be *inspected*, and each request is
 * judged. A flow that turns out not to be HTTP is *opaque*. Of the rules about requests, those that
 * deny or ask match an opaque flow, and those that allow do not.
 *
 * Rules never change once made. Judging walks the list, which takes 1 to 2 us for 1,024 rules
 * without paths. */
#ifndef RULES_RULES_H
#define RULES_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "base/net.h"
#include "rules/call.h"
#include "rules/path.h"
#include "rules/policy_json.h"
#include "rules/rules_budget.h"

enum {
	RULES_VERSION = 1,
	RULES_MAX = 1024,		 /* of a layer */
	RULES_DOCUMENT_MAX = 128,	 /* of a document */
	RULES_DOCUMENT_BYTES = 64 << 10, /* of a document, as compact JSON */
	RULES_ITEMS_MAX = 64,		 /* hosts, nets, methods or paths of a rule */
	RULES_PORTS_MAX = 16,
	RULES_ID_MAX = 64,
	RULES_REASON_MAX = 160,
	RULES_METHOD_MAX = 24,
	RULES_HEADERS_MAX = 20,	       /* of an answer, or of requests */
	RULES_HEADERS_BYTES = 8 << 10, /* of all headers of requests of a rule */
	RULES_BODY_MAX = 16 << 10,     /* likewise */
	RULES_ARGUMENTS_MAX = 16,
	RULES_SECRETS_MAX = 32, /* in headers of a document */
	RULES_POINTER_MAX = 256,
	RULES_FORWARD_PATH_MAX = 256,
};

/* The value of a header in a layer that knows no secrets, in place of one that names some. */
#define RULES_NO_SECRET "${e2b.secrets..}"

enum rules_action {
	RULES_DENY,
	RULES_ALLOW,
	RULES_ASK,     /* a person decides */
	RULES_RESPOND, /* answer with a text of the rule's own */
	RULES_LOG,     /* note it, and go on with the next rule */
};

enum rules_scheme { RULES_ANY_SCHEME, RULES_HTTP, RULES_HTTPS };

struct rules_header {
	char *name, *value;
};

struct rules_answer {
	unsigned status;
	struct rules_header *headers;
	unsigned header_count;
	char *body; /* never NULL */
	size_t body_bytes;
};

struct rules_host;
struct http_header;
struct http_headers;

/* Where connections go in place of their host: HTTPS to `host`, with `path` before each path. */
struct rules_forward {
	char *host; /* in lower case */
	uint16_t port;
	char *path; /* "/v1", without a slash behind it, as of path_clean(); or "" */
};

/* A condition on an argument of a tool. */
struct rules_argument {
	char *at;	/* a JSON pointer (RFC 6901) */
	char *prefix;	/* of a string; NULL: use `equals` */
	json_t *equals; /* owned */
};

/* A rule's conditions on a request to a model or an MCP server. One pattern of a list must match. A
 * list with a count of 0 matches anything. */
struct rules_call {
	unsigned apis;
	char **models, **server_tools, **tools;
	unsigned model_count, server_tool_count, tool_count;
	bool no_server_tools; /* matches requests without server tools only */
	unsigned max_tokens;  /* 0: any */
	struct rules_argument *arguments;
	unsigned argument_count;
	bool hard; /* of a rule that denies or asks */
	bool body; /* the conditions need the body */
};

/* A header or a parameter that must have a value. */
struct rules_field {
	char *name;
	char **patterns; /* one must match; none: it must not be there */
	unsigned pattern_count;
};

struct rules_fields {
	struct rules_field *list;
	unsigned count;
};

struct rules_rule {
	char *id;
	enum rules_action action;
	char *reason; /* of a denial, for the program; NULL: none */
	struct rules_host *hosts;
	unsigned host_count;
	struct net *nets;
	unsigned net_count;
	uint16_t *ports;
	unsigned port_count;
	char **methods, **paths;
	unsigned method_count, path_count;
	enum rules_scheme scheme;
	struct rules_fields request_headers, query;
	bool upgrade;		       /* its requests may become WebSockets that nobody judges */
	bool requests;		       /* it has conditions on requests */
	bool between;		       /* it is about other sandboxes */
	struct rules_answer *answer;   /* of RESPOND */
	struct rules_call *call;       /* NULL: no conditions on models and tools */
	struct rules_forward *forward; /* of ALLOW; NULL: to the host itself */
	/* Of ALLOW: headers of its requests, in place of the program's; NULL as a value: none of
	 * this name goes out. Values may have ${e2b.secrets.NAME} in them. */
	struct rules_header *headers;
	unsigned header_count;
	struct rules_budget *budget; /* of ALLOW; NULL: no limit */
};

struct rules {
	struct rules_rule *rules;
	unsigned count;
	struct rules_prices *prices; /* NULL: none */
	bool default_allow;
	bool observe; /* it decides nothing; its verdicts are only noted */
	bool names;   /* a rule has hosts or requests, so the worker must know names */
};

/* Parses a layer: {"rules", "default", "mode", "prices"}, perhaps with "version". max: how many
 * rules it may have. Fails with ERROR_USAGE; the message names the rule and the member. */
int rules_make(const struct policy_at *at, json_t *layer, unsigned max, struct rules *ret);
void rules_done(struct rules *r); /* also after a failure of rules_make() */

/* Checks a document: a layer with "version", within the limits of documents. Fails with ERROR_USAGE
 * or ERROR_LIMIT; the message begins with `what` and the member. */
int rules_check(json_t *document, const char *what, struct error *e);

enum rules_kind {
	RULES_NAME,    /* a DNS question: name */
	RULES_FLOW,    /* a connection that may turn out to be HTTP: name, address, port */
	RULES_OPAQUE,  /* a connection that is not HTTP, or datagrams */
	RULES_REQUEST, /* a request: all members */
};

struct rules_question {
	enum rules_kind kind;
	const char *name; /* in lower case; NULL: just the address */
	uint32_t address;
	bool no_address; /* it has none: of nets, only those of all addresses match */
	uint16_t port;
	bool tls; /* the request came over TLS */
	const char *method;
	bool two_methods;  /* servers may take another one (rules_has_two_methods) */
	bool two_paths;	   /* servers may take another path (rules_has_two_paths) */
	const char *path;  /* from path_clean(); NULL: it can be read in two ways */
	const char *query; /* NULL: none */
	const struct http_headers *headers; /* NULL: none */
	bool upgrade;			    /* it asks for a WebSocket */
	bool has_body;			    /* it has a body, or may have one */
	bool form;			    /* its body may be a form that replaces its method */
	const struct call *call;	    /* what its body says; NULL: not read yet */
};

#define RULES_BATCH  "it may hold several requests, with other methods and paths"
#define RULES_ACTION "a header of it may choose the action, and no rule names it in requestHeaders"
#define RULES_UPGRADE                                                                              \
	"nothing is judged on a WebSocket, and rules judge bodies here: no rule has \"upgrade\""
#define RULES_TWO_WAYS	  "its path can be read in two ways"
#define RULES_TOO_LONG	  "its path, or a name in it, takes too long to match"
#define RULES_TWO_METHODS "a header, its query or its form may change its method"

struct rules_verdict {
	enum rules_action action; /* never LOG */
	/* For FLOW: rules about requests may match. If the flow is allowed, its requests must be
	 * judged. */
	bool inspect;
	/* For REQUEST: not 0 if the body must be read as this (enum call_api), and the request then
	 * judged again, with `two_methods` if its form says so. If the action is DENY already, it
	 * is final. */
	unsigned body;
	bool tools;			     /* of REQUEST: rules speak of tools of MCP there */
	const struct rules_forward *forward; /* of FLOW: where it goes, if it is allowed; NULL */
	const char *unclear; /* static: denied because the path, the method or the body can be read
			      * in two ways, or as the price is unknown; or NULL */
	const struct rules_rule *rule;	/* the rule that decided; NULL: the default */
	const struct rules_rule *noted; /* the first LOG that matched, or NULL */
};

struct rules_verdict rules_judge(const struct rules *r, const struct rules_question *q);

/* Whether a request has something by which many servers take another method than the request line
 * says: a header X-HTTP-Method-Override, X-HTTP-Method or X-Method-Override, in any case, also with
 * underscores, or a parameter _method or of these names in its query, however encoded. Each may be
 * NULL. */
bool rules_has_two_methods(const struct http_headers *headers, const char *query);

/* Whether servers may find such a parameter in its body: it is a POST with a body that they may
 * read as a form (rules/form.h). */
bool rules_may_be_form(const char *method, bool has_body, const struct http_headers *headers);

/* The same for the path and the host: X-Original-URL, X-Forwarded-Host, Forwarded and the like. */
bool rules_has_two_paths(const struct http_headers *headers);

/* Whether a request may hold other requests: by its type (multipart/mixed, application/http), its
 * path ("/$batch", "/batch") or its query ("?batch=1", "?delete" of a POST). path: from
 * path_clean(), or NULL. */
bool rules_is_batch(const char *method, const char *path, const char *query,
	const struct http_headers *headers);

/* Whether some servers choose what to do by this header, whatever method and path say. */
bool rules_is_action(const struct http_header *header);

/* Judges a connection to a port of another sandbox. The first rule that names it decides. If none
 * does, it is denied. */
struct rules_verdict rules_judge_between(const struct rules *r, const char *name, uint16_t port);

/* Returns the id of a verdict's rule. */
const char *rules_id(const struct rules_rule *rule); /* NULL: "default" */

/* Returns the weight of an action: 3 for DENY, 2 for ASK, 1 for RESPOND, else 0. The heaviest
 * verdict of several layers or messages counts. */
int rules_weight(enum rules_action action);

const char *rules_action_word(enum rules_action action); /* "allow" */

/* Adds the hosts whose requests rules judge to the object `hosts`: members "name", "*.name" or "*"
 * with null values. Returns 0 or -ENOMEM. */
int rules_inspected(const struct rules *r, json_t *hosts);

#endif
