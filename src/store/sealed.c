#include "store/sealed.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/str.h"
#include "proto/base64.h"
#include "store/sealed_columns.h"

/* What a value reads as if it cannot be opened. */
#define CLOSED_NETWORK "{\"denyOut\":[\"0.0.0.0/0\"]}"

static bool is_plain(const char *text)
{
	return !text || !*text || strcmp(text, "{}") == 0;
}

static const char *context_of(enum sealed kind, const char *owner, char out[SEALED_CONTEXT_BYTES])
{
	const struct sealed_column *c = &sealed_columns[kind];

	(void)snprintf(out, SEALED_CONTEXT_BYTES, "%s.%s %s", c->table, c->column, owner);
	return out; /* ids: they fit */
}

static int seal(struct query *q, enum sealed kind, const char *owner, const void *data, size_t n,
	uint8_t **ret, size_t *ret_n)
{
	struct store_vault *v = &q->store->vault;
	char context[SEALED_CONTEXT_BYTES];
	int r;

	error_clear(&q->store->vault_error);
	r = v->seal ? v->seal(v->arg, context_of(kind, owner, context), data, n, ret, ret_n,
			      &q->store->vault_error)
		    : error_set(&q->store->vault_error, ERROR_INTERNAL, ENOKEY,
			      "there is no key to seal it with");
	q->failed_seal |= r < 0;
	return r;
}

void query_sealed(struct query *q, enum sealed kind, const char *owner, const char *text)
{
	_cleanup_free_ uint8_t *sealed = NULL;
	size_t n = 0;
	char *encoded;

	if (is_plain(text)) {
		query_text(q, text);
		return;
	}
	if (seal(q, kind, owner, text, strlen(text), &sealed, &n) < 0)
		return;
	encoded = sealed_encode(sealed, n);
	if (encoded)
		query_text_taken(q, encoded);
	else
		q->failed_bind = true;
}

void query_sealed_blob(
	struct query *q, enum sealed kind, const char *owner, const void *data, size_t n)
{
	uint8_t *sealed = NULL;
	size_t sealed_n = 0;

	if (seal(q, kind, owner, data, n, &sealed, &sealed_n) == 0)
		query_blob_taken(q, sealed, sealed_n);
}

static char *open_value(struct store *s, enum sealed kind, const char *owner, const uint8_t *sealed,
	size_t n, size_t *ret_n)
{
	char context[SEALED_CONTEXT_BYTES], *out = NULL;
	struct store_vault *v = &s->vault;

	if (!v->open ||
		v->open(v->arg, context_of(kind, owner, context), sealed, n, &out, ret_n, NULL) < 0)
		return NULL;
	return out;
}

static char *open_text(struct store *s, enum sealed kind, const char *owner, const char *text)
{
	_cleanup_free_ uint8_t *sealed = NULL;
	size_t n, opened;

	if (sealed_decode(text, &sealed, &n) < 0)
		return NULL;
	return open_value(s, kind, owner, sealed, n, &opened);
}

/* A token in place of one that cannot be opened: the same each time, and known to nobody before. */
static char *stand_in(struct store *s, enum sealed kind, const char *owner)
{
	char context[SEALED_CONTEXT_BYTES];
	uint8_t mac[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	char *out;

	(void)context_of(kind, owner, context);
	if (!HMAC(EVP_sha256(), s->nobody, sizeof(s->nobody), (const uint8_t *)context,
		    strlen(context), mac, &n))
		return NULL;
	out = malloc(2 * n + 1);
	if (out)
		str_hex(mac, n, out);
	return out;
}

static char *closed_value(struct store *s, enum sealed kind, const char *owner)
{
	switch (kind) {
	case SEALED_ENVD_TOKEN:
	case SEALED_TRAFFIC_TOKEN:
		return stand_in(s, kind, owner);
	case SEALED_SANDBOX_NETWORK:
	case SEALED_AGENT_NETWORK:
		return strdup(CLOSED_NETWORK);
	case SEALED_AGENT_ENV:
		return strdup("{}");
	default:
		return NULL;
	}
}

const char *row_sealed(struct query *q, enum sealed kind, const char *owner)
{
	const char *text = row_text(q);
	char *opened;

	if (is_plain(text) || *text == '{') /* base64 never begins so: nobody sealed this */
		return text;
	opened = open_text(q->store, kind, owner, text);
	if (!opened)
		opened = closed_value(q->store, kind, owner);
	return opened ? row_keep(q, opened) : NULL;
}

void row_sealed_blob(struct query *q, enum sealed kind, const char *owner, void *out, size_t n)
{
	size_t sealed_n, opened_n = 0;
	const uint8_t *sealed = row_bytes(q, &sealed_n);
	char *opened =
		sealed ? open_value(q->store, kind, owner, sealed, sealed_n, &opened_n) : NULL;

	if (opened && opened_n == n)
		memcpy(out, opened, n);
	else if (getrandom(out, n, 0) != (ssize_t)n)
		memset(out, 0xff, n); /* cannot happen for so few bytes */
	if (opened)
		explicit_bzero(opened, opened_n);
	free(opened);
}
