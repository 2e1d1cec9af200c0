/* What an intercepted connection does to the fields of requests and answers.
 *
 * Requests lose the fields that are for one connection only (RFC 9110 7.6.1), Host (the caller
 * writes it) and Expect (the caller answers it). Then the rule of the host replaces fields or adds
 * some, with secrets in place of ${e2b.secrets.NAME}; and in all other fields placeholders of
 * secrets that are for this host become the secrets, in the base64 of "Authorization: Basic", too.
 * If a secret may come back, the answer must not be compressed: Accept-Encoding becomes identity,
 * and websockets get no extensions.
 *
 * Answers lose the fields for one connection, and Alt-Svc, which leads to where nothing is
 * intercepted. Secrets in names and values are scrubbed. */
#ifndef INTERCEPT_REWRITE_H
#define INTERCEPT_REWRITE_H

#include "intercept/fields.h"
#include "intercept/intercept.h"
#include "intercept/scrub.h"

enum { REWRITE_HEAD_MAX = 128 << 10 }; /* bytes of a request's fields with secrets in them */

/* Which secrets went into a request. */
struct rewrite_used {
	uint64_t bits[(INTERCEPT_SECRETS_MAX + 63) / 64];
};

static inline bool rewrite_has_used(const struct rewrite_used *used, unsigned secret)
{
	return used->bits[secret / 64] >> secret % 64 & 1;
}

struct rewrite_failure {
	unsigned status;
	char reason[200]; /* without values */
};

/* Appends the fields of a request. plain: its answer is read, and must not be compressed. If a
 * credential's base64 contains a secret, that base64 is
 * scrubbed from the answer too (scrub_add). Too many of these: 431. Adds to *used which secrets
 * went into the request. Returns 0, -EINVAL with *why filled, or -ENOMEM. */
int rewrite_request(const struct intercept *intercept, const char *host,
	const struct http_headers *in, bool plain, struct scrub *scrub, struct fields *out,
	struct rewrite_used *used, struct rewrite_failure *why);

/* Appends the trailers of a request: just those that may pass, as they came. */
int rewrite_request_trailers(const struct intercept *intercept, const char *host,
	const struct http_headers *in, struct fields *out);

/* Appends the fields of an answer, or of its trailers. 0, -EMSGSIZE, -ENOMEM. */
int rewrite_answer(const struct http_headers *in, const struct scrub *scrub, struct fields *out);

/* Whether an answer is in a coding in which no secret can be found. */
bool rewrite_is_coded(const struct http_headers *in);

#endif
