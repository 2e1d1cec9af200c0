/* Seals data that must not be on the disk in the clear: AES-256-GCM with a key from a file.
 *
 * The file holds 64 hexadecimal digits, and only its owner may read it. It is read at the first
 * use, or made then if nothing was sealed yet. Sealed data names its key, so a wrong key file is
 * told from damaged data. One thread uses a sealer.
 *
 * A change of the key takes these steps, each of which may be the last before a crash:
 *
 *	sealer_next	the new key is in "<path>.new", and nothing is sealed with it
 *	the owner	seals everything anew, in one transaction that notes the new key's name
 *	sealer_adopt	the file takes the place of the old one
 *
 * sealer_expect tells which name was noted. Then a file "<path>.new" of that name takes its place
 * late, and one of another name is not looked at. */
#ifndef POLICY_SEAL_H
#define POLICY_SEAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	SEAL_OVERHEAD = 39,  /* bytes that sealing adds */
	SEAL_NAME_BYTES = 8, /* of a key's name, the beginning of its SHA-256 */
};

#define SEAL_KEY_FILE "secrets.key"

struct sealer;

/* path: the key's file; copied. Returns NULL when out of memory. */
struct sealer *sealer_new(const char *path);
void sealer_free(struct sealer *s); /* wipes the key; NULL is fine */

/* The data that the owner has was sealed with the key of this name. No other key is used, and none
 * is made. */
void sealer_expect(struct sealer *s, const uint8_t name[SEAL_NAME_BYTES]);
/* Reads the key, or makes it, and says its name. Fails as sealer_seal. */
int sealer_name(struct sealer *s, bool may_make, uint8_t ret[SEAL_NAME_BYTES], struct error *e);

/* Makes a new key, for the same file; see above. */
int sealer_next(struct sealer *s, struct sealer **ret, struct error *e);
/* s takes the key of `next`, and frees it. It does so even if the file cannot take its place; the
 * failure is returned. */
int sealer_adopt(struct sealer *s, struct sealer *next, struct error *e);

/* Seals n bytes. context: what the data is and whose; only the same context opens it. may_make:
 * allows it to make the key's file. *ret is malloc'ed, of n + SEAL_OVERHEAD bytes. Fails with
 * ERROR_HOST if the file is missing or unusable. */
int sealer_seal(struct sealer *s, bool may_make, const char *context, const void *data, size_t n,
	uint8_t **ret, struct error *e);

/* Opens sealed data. *ret is malloc'ed, of n - SEAL_OVERHEAD bytes and a NUL; the caller wipes it.
 * Fails with ERROR_HOST as above, or if the data was sealed with another key. */
int sealer_open(struct sealer *s, const char *context, const void *sealed, size_t n, char **ret,
	size_t *ret_n, struct error *e);

/* Derives a key for the purpose that `context` names: HMAC-SHA-256 with the file's key. The caller
 * wipes it. */
enum { SEAL_DERIVED_BYTES = 32 };
int sealer_derive(struct sealer *s, bool may_make, const char *context,
	uint8_t ret[SEAL_DERIVED_BYTES], struct error *e);

/* Wipes a text and frees it. NULL is fine. */
void secret_free(char *text);
void secret_freep(char **text);
/* Wipes a JSON string before it is released. NULL and other values are fine. */
void secret_wipe(json_t *string);

#endif
