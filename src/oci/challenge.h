/* How a registry asks for credentials, and what it hands out for them: the header WWW-Authenticate
 * and the answer of a token server (docker's registry: token authentication; RFC 6750, RFC
 * 7617). */
#ifndef OCI_CHALLENGE_H
#define OCI_CHALLENGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum {
	OCI_REALM_MAX = 1024,
	OCI_PARAMETER_MAX = 512,
	OCI_TOKEN_MAX = 16 << 10,
	OCI_TOKEN_ANSWER_MAX = 64 << 10,
};

enum oci_scheme { OCI_SCHEME_NONE, OCI_SCHEME_BASIC, OCI_SCHEME_BEARER };

struct oci_challenge {
	enum oci_scheme scheme;
	char realm
		/* for OCI_SCHEME_BEARER: the token server's URL; the rest may be "" */
		[OCI_REALM_MAX];
	char service[OCI_PARAMETER_MAX];
	char scope[OCI_PARAMETER_MAX];
};

/* Parses the header's value. False when it is another scheme or damaged. */
bool oci_challenge_parse(const char *value, struct oci_challenge *ret);

/* Takes the token out of an answer: malloc'ed. ERROR_BAD_IMAGE when there is none that may stand in
 * a header. */
int oci_token_parse(const void *answer, size_t n, char **ret, struct error *e);

#endif
