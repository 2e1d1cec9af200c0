/* Changes the header fields of intercepted requests and answers.
 *
 * Requests lose the fields that are for one connection only (RFC 9110 7.6.1), Host (the caller
 * writes it) and Expect (the caller answers it). Then the host's rule replaces or adds fields, with
 * secrets in place of ${e2b.secrets.NAME}. In all other fields, placeholders that are for this host
 * become their secrets, also in the base64 of "Authorization: Basic". If a secret may come back,
 * the answer must not be compressed. So Accept-Encoding becomes identity, and websockets get no
 * extensions.
 *
 * Answers lose the fields for one connection, and Alt-Svc, which would lead around the
 * interception. Secrets in names and values are scrubbed. */
#ifndef INTERCEPT_REWRITE_H
#define INTERCEPT_REWRITE_H

#include "intercept/fields.h"
#include "intercept/intercept.h"
#include "intercept/scrub.h"
#include "rules/rules.h"

enum { REWRITE_HEAD_MAX = 128 << 10 }; /* bytes of a request's fields after secrets were put in */

/* Which secrets went into a request. */
struct rewrite_used {
	uint64_t bits[(INTERCEPT_SECRETS_MAX + 63) / 64];
};

static inline bool rewrite_has_used(const struct rewrite_used *used, unsigned secret)
{
	return used->bits[secret / 64] >> secret % 64 & 1;
}

/* Headers that rules set for a request. */
struct rewrite_set {
	struct rules_header *headers; /* owned; a value of NULL: none of this name goes out */
	unsigned count;
};

/* Adds a copy of a rule's headers, without those whose names are there (http_is_same_name()).
 * 0 or -ENOMEM. */
int rewrite_set_add(struct rewrite_set *set, const struct rules_rule *rule);
void rewrite_set_done(struct rewrite_set *set);

/* Bytes that it takes. */
size_t rewrite_set_memory(const struct rewrite_set *set);

struct rewrite_failure {
	unsigned status;
	char reason[200]; /* without values */
};

/* Appends the fields of a request. plain: its answer is read, so it must not be compressed. Base64
 * of credentials with a secret is scrubbed from the answer, too (scrub_add_base64()); if there are
 * too many of them the status is 431. Adds the secrets that went into the request to *used. Returns
 * 0, -EINVAL with *why filled, or -ENOMEM. */
int rewrite_request(const struct intercept *intercept, const char *host,
	const struct http_headers *in, const struct rewrite_set *set, bool plain,
	struct scrub *scrub, struct fields *out, struct rewrite_used *used,
	struct rewrite_failure *why);

/* Appends the trailers of a request that may pass, unchanged. */
int rewrite_request_trailers(const struct intercept *intercept, const char *host,
	const struct http_headers *in, const struct rewrite_set *set, struct fields *out);

/* Appends the fields of an answer, or of its trailers. Returns 0, -EMSGSIZE or -ENOMEM. */
int rewrite_answer(const struct http_headers *in, const struct scrub *scrub, struct fields *out);

/* Whether an answer has a coding (such as gzip), so that no secret can be found in it. */
bool rewrite_is_coded(const struct http_headers *in);

#endif
