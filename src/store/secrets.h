/* Secrets of keys (docs/network.md). The store keeps sealed bytes (policy/seal.h) and never sees a
 * value.
 *
 * Names and ids belong to a key: another key's secret is a missing row. All changes are synced. */
#ifndef STORE_SECRETS_H
#define STORE_SECRETS_H

#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum {
	STORE_SECRETS_MAX = 256, /* of one key */
	STORE_SECRET_NAME_MAX = 128,
	STORE_SECRET_ID_BYTES = sizeof("sec_") + 20, /* "sec_" and 20 of a-z 0-9, NUL */
	STORE_SECRET_SEALED_MAX = 64 * 1024,
	STORE_SECRETS_PAGE_MAX = 100,
};

struct store_secret {
	char id[STORE_SECRET_ID_BYTES]; /* given by the store */
	const char *key_id;
	const char *name;	   /* 1 to STORE_SECRET_NAME_MAX of a-z 0-9 _ - */
	uint64_t version;	   /* 1 at first */
	const char *metadata_json; /* object of strings */
	uint64_t created_ns, updated_ns;
	const void *sealed;
	size_t sealed_bytes;
};

/* Uses key_id, name, metadata_json, created_ns and what is sealed. ERROR_EXISTS -EEXIST: the key
 * has one of that name. ERROR_TOO_MANY -ENOBUFS: it has STORE_SECRETS_MAX. */
int store_secret_add(struct store *s, const struct store_secret *secret,
	char ret_id[STORE_SECRET_ID_BYTES], struct error *e);

/* The next version. metadata_json NULL: unchanged. */
int store_secret_update(struct store *s, const char *key_id, const char *id,
	const struct store_secret *secret, struct error *e);

int store_secret_remove(struct store *s, const char *key_id, const char *id, struct error *e);

/* Calls `each` with the key's secret of that id or name; -ENOENT, filling e, if there is none. */
int store_secret_get(struct store *s, const char *key_id, const char *id_or_name,
	int (*each)(void *arg, const struct store_secret *secret), void *arg, struct error *e);

/* By name, those behind `after` ("": from the first), at most limit. `sealed` is not given. */
int store_secret_list(struct store *s, const char *key_id, const char *after, uint32_t limit,
	int (*each)(void *arg, const struct store_secret *secret), void *arg, struct error *e);

/* How many there are of all keys. */
int store_secret_count(struct store *s, uint64_t *ret, struct error *e);

#endif
