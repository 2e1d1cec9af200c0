/* The language of policies (docs/policy.md): one ordered list of rules, of which the first that
 * matches decides, and what holds if none does. One list is one layer of a worker's policy.
 *
 * A rule may speak of flows (host, address, port) or of HTTP requests, too (method, path). A flow
 * is judged before anything is dialled, when nothing is known of its requests: if they may decide,
 * it is let through to be *inspected*, and each request is judged. A flow that turns out to be no
 * HTTP is *opaque*: rules about requests that allow do not match it, those that deny or ask do.
 *
 * Immutable once made. Judging walks the rules: a microsecond or two for 1,024 without paths. */
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
	RULES_HEADERS_MAX = 20,	   /* of an answer */
	RULES_BODY_MAX = 16 << 10, /* likewise */
	RULES_ARGUMENTS_MAX = 16,
	RULES_POINTER_MAX = 256,
};

/* Names of ports in other sandboxes are below it (egress/between_name.h). */
#define RULES_BETWEEN_DOMAIN ".mayfly.internal"

enum rules_action {
	RULES_DENY,
	RULES_ALLOW,
	RULES_ASK,     /* a person decides */
	RULES_RESPOND, /* a canned answer, in place of the server's */
	RULES_LOG,     /* is noted, and the next rules decide */
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

/* What an argument of a tool must be. */
struct rules_argument {
	char *at;	/* a JSON pointer (RFC 6901) */
	char *prefix;	/* of a string; NULL: `equals` counts */
	json_t *equals; /* owned */
};

/* What a rule says of a request to a model or a server of tools. Of lists, one pattern is enough;
 * NULL with a count of 0: any. */
struct rules_call {
	unsigned apis;
	char **models, **server_tools, **tools;
	unsigned model_count, server_tool_count, tool_count;
	bool no_server_tools; /* and none may be used */
	unsigned max_tokens;  /* 0: any */
	struct rules_argument *arguments;
	unsigned argument_count;
	bool body; /* so the body decides */
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
	bool requests;		     /* it speaks of requests */
	bool between;		     /* it is for other sandboxes */
	struct rules_answer *answer; /* of RESPOND */
	struct rules_call *call;     /* NULL: it speaks of no such requests */
};

struct rules {
	struct rules_rule *rules;
	unsigned count;
	bool default_allow;
	bool observe; /* it decides nothing, and what it would have decided is noted */
	bool names;   /* a rule names hosts, or requests: then names must be known */
};

/* Takes a layer: {"rules", "default", "mode"}, and "version" as documents have it. max: rules.
 * ERROR_USAGE names rule and member. */
int rules_make(const struct policy_at *at, json_t *layer, unsigned max, struct rules *ret);
void rules_done(struct rules *r); /* of half-made ones, too */

/* Checks a document: a layer with its version, within the limits of documents. ERROR_USAGE or
 * ERROR_LIMIT; the message begins with `what` and the member. */
int rules_check(json_t *document, const char *what, struct error *e);

enum rules_kind {
	RULES_NAME,    /* a DNS question: name */
	RULES_FLOW,    /* a connection that may turn out to be HTTP: name, address, port */
	RULES_OPAQUE,  /* one that is not, or datagrams */
	RULES_REQUEST, /* all */
};

struct rules_question {
	enum rules_kind kind;
	const char *name; /* in lower case; NULL: just the address */
	uint32_t address;
	uint16_t port;
	bool tls; /* the request came over TLS */
	const char *method;
	const char *path;	 /* of path_clean(); NULL: it can be read in two ways */
	bool has_body;		 /* or may have one */
	const struct call *call; /* what its body says; NULL: that is not known yet */
};

#define RULES_TWO_WAYS "its path can be read in two ways"

struct rules_verdict {
	enum rules_action action; /* not LOG */
	/* Of FLOW: rules match that speak of requests. If it is allowed, these decide. */
	bool inspect;
	/* Of REQUEST: the body must be read as this (enum call_api); then judge again. If it is
	 * denied all the same, that is final. */
	unsigned body;
	const char *unclear; /* why it is denied without a rule that says so: the path can be read
			      * in two ways, or the body; static */
	const struct rules_rule *rule;	/* that decided; NULL: the default */
	const struct rules_rule *noted; /* the first LOG that matched, or NULL */
};

struct rules_verdict rules_judge(const struct rules *r, const struct rules_question *q);

/* A port of another sandbox: the first rule that names it decides, else it is denied. */
struct rules_verdict rules_judge_between(const struct rules *r, const char *name, uint16_t port);

/* The id of a verdict's rule. */
const char *rules_id(const struct rules_rule *rule); /* NULL: "default" */

/* Of verdicts of several layers or messages, the heaviest counts: 3 denies, 2 asks, 1 answers. */
int rules_weight(enum rules_action action);

const char *rules_action_word(enum rules_action action); /* "allow" */

/* Adds the hosts whose requests rules speak of to the object, as names, "*.name" or "*" with null
 * values. 0 or -ENOMEM. */
int rules_inspected(const struct rules *r, json_t *hosts);

#endif
