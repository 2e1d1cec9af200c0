/* Parses how a registry asks for credentials (the header WWW-Authenticate) and what a token server
 * answers (docker's registry token authentication; RFC 6750, RFC 7617). */
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
	/* For OCI_SCHEME_BEARER: the token server's URL. The next two may be "". */
	char realm[OCI_REALM_MAX];
	char service[OCI_PARAMETER_MAX];
	char scope[OCI_PARAMETER_MAX];
};

/* Parses the header's value. False when it is another scheme or damaged. */
bool oci_challenge_parse(const char *value, struct oci_challenge *ret);

/* Takes the token out of a token server's answer. *ret is malloc'ed. ERROR_BAD_IMAGE if there is
 * none, or it cannot be put into a header. */
int oci_token_parse(const void *answer, size_t n, char **ret, struct error *e);

#endif
