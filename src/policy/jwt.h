/* Tokens that the daemon signs (RFC 7519, with ES256 of RFC 7518), and the key for them.
 *
 * Nothing blocks. A signature takes about 50 us. */
#ifndef POLICY_JWT_H
#define POLICY_JWT_H

#include <jansson.h>

#include "base/error.h"

enum { JWT_KEY_ID_BYTES = 44 }; /* with NUL */

/* A key pair on P-256. */
struct jwt_key {
	char id[JWT_KEY_ID_BYTES]; /* the public key's thumbprint (RFC 7638) */
	char *pem;		   /* the private key, owned */
	json_t *jwk;		   /* the public key (RFC 7517), owned */
};

int jwt_key_make(struct jwt_key *ret, struct error *e);
void jwt_key_done(struct jwt_key *k); /* wipes the private key */

/* Makes a token with these claims (an object). pem and id are those of a jwt_key. *ret is
 * malloc'ed. Fails with ERROR_INTERNAL when out of memory, or if pem is no such key. */
int jwt_sign(const char *pem, const char *id, const json_t *claims, char **ret, struct error *e);

#endif
