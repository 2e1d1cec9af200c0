/* Decides what a request on the daemon's port is for: the control API, a sandbox's envd, or a port
 * of a sandbox. Also parses the names that occur in requests.
 *
 * A Host of the form <port>-<sandboxID>.<domain> decides; else the two E2b-Sandbox headers; else a
 * signed /files URL; else it is the control API. */
#ifndef PROTO_ROUTE_H
#define PROTO_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/http.h"

enum {
	ROUTE_SANDBOX_ID_MAX = 63,
	ROUTE_ENVD_PORT = 49983,
	ROUTE_INTERPRETER_PORT = 49999,
};

enum route_kind {
	ROUTE_API,
	ROUTE_SANDBOX, /* sandbox_id and port are set */
	ROUTE_SIGNED,  /* /files with a signature but no sandbox: find it by the signature */
	ROUTE_BAD,     /* answer 400 with reason */
};

struct route {
	enum route_kind kind;
	char sandbox_id[ROUTE_SANDBOX_ID_MAX + 1]; /* without the legacy suffix */
	uint16_t port;
	bool by_host; /* the Host decided, not the headers */
	const char *reason;
};

/* domain is the sandbox domain that the Host must end in, or NULL for any. With NULL, an id of
 * digits only does not count, so that 10-0-0-1.example is no sandbox. */
void route_classify(const struct http_head *head, const char *domain, struct route *ret);

/* The surface that the request is for: "api", "envd" or "port". */
const char *route_surface(const struct route *r);

/* The id in "id" or "id-client": [a-z0-9]+, at most ROUTE_SANDBOX_ID_MAX. False: not an id. */
bool route_sandbox_id(const char *s, char out[ROUTE_SANDBOX_ID_MAX + 1]);

enum { TEMPLATE_NAME_MAX = 128, TEMPLATE_TAG_MAX = 128 };

/* What clients call a template, [namespace/]name[:tag], trimmed and in lower case. */
struct template_ref {
	char namespace[TEMPLATE_NAME_MAX + 1]; /* empty: none given */
	char name[TEMPLATE_NAME_MAX + 1];
	char tag[TEMPLATE_TAG_MAX + 1]; /* "default" when none was given; a UUID means a build */
	bool has_tag;
};

/* 0, or -EINVAL with *ret_reason saying what is wrong. */
int template_ref_parse(const char *s, struct template_ref *ret, const char **ret_reason);
/* The same for a name that something gets: its tag must not be a UUID. */
int template_ref_parse_new(const char *s, struct template_ref *ret, const char **ret_reason);

bool route_is_uuid(const char *s); /* 8-4-4-4-12 hexadecimal, either case */

#endif
