#include "network/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "policy/seal.h"
#include "proto/http_headers.h"
#include "store/signers.h"
#include "store/vault.h"

enum { CONTEXT_BYTES = STORE_ID_MAX + STORE_SECRET_NAME_MAX + 32 };

/* --- checking --- */

int secret_check_value(const char *value, size_t n, struct error *e)
{
	if (n == 0 || n > SECRET_VALUE_MAX)
		return error_set(e, ERROR_USAGE, EINVAL, "value must be a string of 1 to %d bytes",
			SECRET_VALUE_MAX);
	if (!http_is_field_value(value, n))
		return error_set(e, ERROR_USAGE, EINVAL,
			"value must not have control characters or ends of lines, as it goes into "
			"headers");
	return 0;
}

static int check_metadata(const json_t *metadata, struct error *e)
{
	size_t bytes = 0, one;
	const char *key;
	json_t *value;

	if (!metadata || json_is_null(metadata))
		return 0;
	if (!json_is_object(metadata) || json_object_size(metadata) > SECRET_METADATA_MAX)
		return error_set(e, ERROR_USAGE, EINVAL,
			"metadata must be an object of at most %d strings", SECRET_METADATA_MAX);
	json_object_foreach((json_t *)metadata, key, value)
	{
		one = json_string_length(value);
		if (!json_is_string(value) || one > SECRET_METADATA_VALUE_MAX ||
			strlen(key) > SECRET_METADATA_KEY_MAX ||
			strlen(json_string_value(value)) != one)
			return error_set(e, ERROR_USAGE, EINVAL,
				"metadata['%.64s']: a key has at most %d bytes, a value is a "
				"string of at "
				"most %d",
				key, SECRET_METADATA_KEY_MAX, SECRET_METADATA_VALUE_MAX);
		bytes += strlen(key) + one;
	}
	if (bytes > SECRET_METADATA_BYTES_MAX)
		return error_set(e, ERROR_USAGE, EINVAL, "metadata has more than %d bytes",
			SECRET_METADATA_BYTES_MAX);
	return 0;
}

int secret_take_name(const char *name, char ret[STORE_SECRET_NAME_MAX + 1], struct error *e)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	size_t n = name ? strlen(name) : 0;

	if (n < 1 || n > STORE_SECRET_NAME_MAX || strspn(name, letters) != n)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the name of a secret must be 1 to %d of letters, digits, _ and -",
			STORE_SECRET_NAME_MAX);
	if (strncasecmp(name, "sec_", 4) == 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the name of a secret must not begin with sec_, as ids do");
	for (size_t i = 0; i <= n; i++)
		ret[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 'a' - 'A' : name[i]);
	return 0;
}

/* --- sealing --- */

static const char *context_of(const char *key_id, const char *name, char out[CONTEXT_BYTES])
{
	(void)snprintf(out, CONTEXT_BYTES, "secret %s %s", key_id, name); /* fits */
	return out;
}

bool secrets_may_make_key(struct fleet *f)
{
	uint8_t name[STORE_VAULT_NAME];
	uint64_t n = 1, signers = 1;

	return !store_vault_key(f->store, name) && store_secret_count(f->store, &n, NULL) == 0 &&
	       n == 0 && store_signer_count(f->store, &signers, NULL) == 0 && signers == 0;
}

static int seal(struct fleet *f, const char *key_id, const char *name, const struct secret_words *w,
	uint8_t **ret, struct error *e)
{
	char context[CONTEXT_BYTES];

	return sealer_seal(f->sealer, secrets_may_make_key(f), context_of(key_id, name, context),
		w->value, w->value_bytes, ret, e);
}

/* --- changes --- */

static char *metadata_text(const json_t *metadata)
{
	return json_is_object(metadata) ? json_dumps(metadata, JSON_COMPACT) : NULL;
}

static int check(const struct secret_words *w, struct error *e)
{
	int r = secret_check_value(w->value, w->value_bytes, e);

	return r < 0 ? r : check_metadata(w->metadata, e);
}

int secret_create(struct fleet *f, const char *key_id, const struct secret_words *w,
	char ret_id[STORE_SECRET_ID_BYTES], struct error *e)
{
	_cleanup_free_ char *metadata = metadata_text(w->metadata);
	_cleanup_free_ uint8_t *sealed = NULL;
	char name[STORE_SECRET_NAME_MAX + 1];
	struct store_secret s = {.key_id = key_id, .name = name, .metadata_json = metadata};
	int r = secret_take_name(w->name, name, e);

	if (r == 0)
		r = check(w, e);
	if (r == 0)
		r = seal(f, key_id, name, w, &sealed, e);
	s.sealed = sealed;
	s.sealed_bytes = w->value_bytes + SEAL_OVERHEAD;
	s.created_ns = clock_realtime_ns();
	return r < 0 ? r : store_secret_add(f->store, &s, ret_id, e);
}

/* What a row says that changes need. */
struct found {
	char id[STORE_SECRET_ID_BYTES];
	char *name;
};

static int take_found(void *arg, const struct store_secret *s)
{
	struct found *found = arg;

	memcpy(found->id, s->id, sizeof(found->id));
	(void)snprintf(found->name, STORE_SECRET_NAME_MAX + 1, "%s", s->name); /* checked */
	return 0;
}

static int find(struct fleet *f, const char *key_id, const char *id_or_name, struct found *ret,
	struct error *e)
{
	char name[STORE_SECRET_NAME_MAX + 1];

	if (str_starts_with(id_or_name, "sec_"))
		return store_secret_get(f->store, key_id, id_or_name, take_found, ret, e);
	if (secret_take_name(id_or_name, name, NULL) < 0)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such secret");
	return store_secret_get(f->store, key_id, name, take_found, ret, e);
}

int secret_update(struct fleet *f, const char *key_id, const struct secret_words *w,
	char ret_name[STORE_SECRET_NAME_MAX + 1], struct error *e)
{
	_cleanup_free_ char *metadata = metadata_text(w->metadata);
	_cleanup_free_ uint8_t *sealed = NULL;
	struct store_secret s = {.metadata_json = metadata};
	struct found found = {.name = ret_name};
	int r = find(f, key_id, w->name, &found, e);

	if (r == 0)
		r = check(w, e);
	if (r == 0)
		r = seal(f, key_id, ret_name, w, &sealed, e);
	s.sealed = sealed;
	s.sealed_bytes = w->value_bytes + SEAL_OVERHEAD;
	s.updated_ns = clock_realtime_ns();
	return r < 0 ? r : store_secret_update(f->store, key_id, found.id, &s, e);
}

int secret_remove(struct fleet *f, const char *key_id, const char *id_or_name,
	char ret_name[STORE_SECRET_NAME_MAX + 1], struct error *e)
{
	struct found found = {.name = ret_name};
	int r = find(f, key_id, id_or_name, &found, e);

	return r < 0 ? r : store_secret_remove(f->store, key_id, found.id, e);
}

/* --- values --- */

struct opening {
	struct fleet *fleet;
	char **ret;
	struct error *e;
};

static int open_sealed(void *arg, const struct store_secret *s)
{
	struct opening *o = arg;
	char context[CONTEXT_BYTES];
	size_t n;
	int r = sealer_open(o->fleet->sealer, context_of(s->key_id, s->name, context), s->sealed,
		s->sealed_bytes, o->ret, &n, o->e);

	if (r < 0)
		error_prefix(o->e, "the secret '%s'", s->name);
	return r;
}

int secret_value(struct fleet *f, const char *key_id, const char *name, char **ret, struct error *e)
{
	struct opening o = {f, ret, e};

	return store_secret_get(f->store, key_id, name, open_sealed, &o, e);
}
