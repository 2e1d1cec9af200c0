/* Makes and checks signatures of file URLs (docs/envd.md), and compares secrets. A signature is
 * "v1_" and the base64 of a SHA-256 over path, operation, user, access token and expiration. */
#ifndef PROTO_SIGNATURE_H
#define PROTO_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

struct signature_input {
	const char *path;	/* as in the query, decoded once; NULL: none was given */
	const char *operation;	/* "read" or "write" */
	const char *user;	/* NULL: none was given */
	const char *token;	/* the sandbox's access token */
	const char *expiration; /* the query's text, unix seconds; NULL: none was given */
};

enum { SIGNATURE_BYTES = 47 }; /* "v1_", 43 characters, NUL */

/* 0, or -EIO when the library fails. */
int signature_make(const struct signature_input *in, char out[SIGNATURE_BYTES]);

enum signature_verdict { SIGNATURE_GOOD, SIGNATURE_WRONG, SIGNATURE_EXPIRED, SIGNATURE_MALFORMED };

/* now_s is Unix time. An expiration that is not a decimal number is MALFORMED. EXPIRED is returned
 * only for a correct signature. Constant time in the signature's content. */
enum signature_verdict signature_check(
	const struct signature_input *in, const char *signature, int64_t now_s);

/* Searches many tokens for the one that made a signature. Hashes the common part once and ignores
 * in->token. */
struct signature_search;

/* NULL: no token can match (malformed signature, expiration not a number), or out of memory. */
struct signature_search *signature_search_new(
	const struct signature_input *in, const char *signature);
bool signature_search_matches(struct signature_search *s, const char *token);
void signature_search_free(struct signature_search *s); /* NULL is fine */

/* Whether the strings are equal. The time depends on the lengths only. NULL equals nothing. */
bool secret_equal(const char *a, const char *b);

#endif
