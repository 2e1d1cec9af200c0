#include "api/api_once.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "store/keys.h"
#include "store/sandboxes.h"

static struct api_once *claims; /* at most as many as sandboxes may be in the making */

/* Hashes the body's meaning: order of members and white space do not count. */
static bool hash_body(const json_t *body, bool v2, uint8_t out[STORE_CREATION_HASH_BYTES])
{
	_cleanup_free_ char *text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good = text && ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 &&
		    EVP_DigestUpdate(ctx, v2 ? "2" : "1", 1) == 1 &&
		    EVP_DigestUpdate(ctx, text, strlen(text)) == 1 &&
		    EVP_DigestFinal_ex(ctx, out, NULL) == 1;

	EVP_MD_CTX_free(ctx);
	return good;
}

bool api_once_take(struct request *r, const json_t *body, bool v2, struct api_once *ret)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	const char *word = http_header_get(&r->head->headers, "idempotency-key");
	size_t n = word ? strlen(word) : 0;

	*ret = (struct api_once){0};
	if (!word)
		return true;
	if (n < 1 || n >= sizeof(ret->creation.word) || strspn(word, chars) != n) {
		reply_error(r, 400, "Idempotency-Key must be 1 to %d of a-z, 0-9 and '-'",
			STORE_CREATION_WORD_BYTES - 1);
		return false;
	}
	if (http_header_count(&r->head->headers, "idempotency-key") > 1) {
		reply_error(r, 400, "Idempotency-Key must be given once");
		return false;
	}
	memcpy(ret->creation.word, word, n + 1);
	(void)snprintf(ret->key_id, sizeof(ret->key_id), "%s", r->key->id); /* a UUID fits */
	if (hash_body(body, v2, ret->creation.hash))
		return true;
	reply_error(r, 503, "out of memory");
	return false;
}

static const struct api_once *find_claim(const struct api_once *o)
{
	const struct api_once *c = claims;

	while (c && (strcmp(c->key_id, o->key_id) != 0 ||
			    strcmp(c->creation.word, o->creation.word) != 0))
		c = c->next;
	return c;
}

static void answer_made(struct request *r, const char *sandbox_id)
{
	struct store_sandbox *sb = NULL;
	struct error e = {0};
	int err = store_sandbox_get(fleet_of(r)->store, sandbox_id, &sb, &e);

	if (err == 0 && sb->state != STORE_KILLING)
		reply_json(r, 201, api_sandbox_json(r, sb));
	else if (err == 0 || err == -ENOENT)
		reply_error_code(r, 409, "idempotency_outcome_unknown",
			"the sandbox that was made with this Idempotency-Key has ended: give "
			"another key for another sandbox");
	else
		reply_failure(r, &e);
	store_sandbox_free(sb);
}

bool api_once_answer(struct request *r, const struct api_once *o)
{
	const struct api_once *claim = find_claim(o);
	char sandbox_id[STORE_ID_MAX + 1];
	uint8_t hash[STORE_CREATION_HASH_BYTES];
	struct error e = {0};
	int err = 0;

	if (!*o->creation.word)
		return false;
	if (claim)
		memcpy(hash, claim->creation.hash, sizeof(hash));
	else
		err = store_creation_find(fleet_of(r)->store, o->key_id, o->creation.word,
			clock_realtime_ns(), hash, sandbox_id, &e);
	if (err == -ENOENT)
		return false;
	if (err < 0)
		reply_failure(r, &e);
	else if (memcmp(hash, o->creation.hash, sizeof(hash)) != 0)
		reply_error_code(r, 422, "idempotency_request_mismatch",
			"this Idempotency-Key was used for a creation with another body");
	else if (claim)
		reply_error_again(r, 409, "idempotency_in_progress",
			"the sandbox of this Idempotency-Key is being made: ask again");
	else
		answer_made(r, sandbox_id);
	return true;
}

void api_once_claim(struct api_once *o)
{
	if (!*o->creation.word)
		return;
	o->claimed = true;
	o->next = claims;
	claims = o;
}

void api_once_release(struct api_once *o)
{
	struct api_once **at = &claims;

	if (!o->claimed)
		return;
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	o->claimed = false;
}
