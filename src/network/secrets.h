/* Secrets of keys: named values that reach servers but never a guest (docs/network.md). Sealed in
 * the store. The caller tells the sandboxes that use a secret (renewal.h).
 *
 * Each secret belongs to a key. Upper and lower case of names are the same; the store has lower
 * case. */
#ifndef NETWORK_SECRETS_H
#define NETWORK_SECRETS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "store/secrets.h"

struct fleet;

enum {
	SECRET_VALUE_MAX = 32 * 1024,
	SECRET_METADATA_MAX = 32, /* entries */
	SECRET_METADATA_KEY_MAX = 128,
	SECRET_METADATA_VALUE_MAX = 1024,
	SECRET_METADATA_BYTES_MAX = 8192, /* of all keys and values */
};

/* A new secret as a client gives it. */
struct secret_words {
	const char *name; /* of an update: id or name */
	const char *value;
	size_t value_bytes;
	const json_t *metadata; /* or NULL */
};

/* Fails with ERROR_USAGE; the message names the member and never holds a value. */
int secret_check_value(const char *value, size_t n, struct error *e);

/* Checks a name and writes it in lower case, as look-ups need it. Fails with ERROR_USAGE if it is
 * no name. */
int secret_take_name(const char *name, char ret[STORE_SECRET_NAME_MAX + 1], struct error *e);

/* All three check their words first. They fail with the errors of store/secrets.h and
 * policy/seal.h. */
int secret_create(struct fleet *f, const char *key_id, const struct secret_words *w,
	char ret_id[STORE_SECRET_ID_BYTES], struct error *e);
int secret_update(struct fleet *f, const char *key_id, const struct secret_words *w,
	char ret_name[STORE_SECRET_NAME_MAX + 1], struct error *e);
int secret_remove(struct fleet *f, const char *key_id, const char *id_or_name,
	char ret_name[STORE_SECRET_NAME_MAX + 1], struct error *e);

/* Returns a secret's value in *ret; wipe it with secret_free(). Fails with ERROR_NOT_FOUND or
 * ERROR_HOST. */
int secret_value(
	struct fleet *f, const char *key_id, const char *name, char **ret, struct error *e);

/* Whether nothing has been sealed yet, so that a missing key file may be created. */
bool secrets_may_make_key(struct fleet *f);

#endif
