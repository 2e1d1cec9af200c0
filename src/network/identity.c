#include "network/identity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "network/secrets.h"
#include "policy/iam.h"
#include "policy/jwt.h"
#include "policy/seal.h"
#include "proto/json_tree.h"
#include "store/signers.h"

#define DAY_NS	  (UINT64_C(86400) * NS_PER_S)
#define KEYS_PATH "/.well-known/jwks.json"

enum { CONTEXT_BYTES = STORE_SIGNER_ID_MAX + 16, TOKEN_ID_BYTES = 24 };

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

/* --- the issuer --- */

/* The host in a URL, with its port; NULL: it is none. */
static const char *authority_of(const char *url, size_t *ret_bytes)
{
	const char *host = str_starts_with(url, "https://")  ? url + 8
			   : str_starts_with(url, "http://") ? url + 7
							     : NULL;

	*ret_bytes = host ? strcspn(host, "/") : 0;
	return *ret_bytes ? host : NULL;
}

int identity_check_issuer(const char *url, struct error *e)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-._~:/[]%";
	size_t n = strlen(url), host;

	if (n <= IDENTITY_ISSUER_MAX && authority_of(url, &host) && strspn(url, letters) == n &&
		url[n - 1] != '/')
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL,
		"--issuer must be a URL of at most %d bytes, http:// or https:// with a host and "
		"perhaps a port and a path, without a slash at the end",
		IDENTITY_ISSUER_MAX);
}

/* The trust domain: the host's name, in the letters that SPIFFE allows. */
static void trust_domain(const char *issuer, char ret[IDENTITY_ISSUER_MAX + 1])
{
	size_t n = 0;
	const char *host = authority_of(issuer, &n);
	size_t end = host && *host == '[' ? strcspn(host, "]") : strcspn(host ? host : "", ":/");

	for (size_t i = 0; i < end && i < IDENTITY_ISSUER_MAX; i++) {
		char c = host[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c + 'a' - 'A');
		ret[i] = (char)((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
						c == '_'
					? c
					: '-');
		ret[i + 1] = '\0';
	}
}

/* --- keys --- */

/* One that was found. */
struct found {
	struct fleet *fleet;
	char id[STORE_SIGNER_ID_MAX + 1]; /* "": none yet */
	uint64_t created_ns;
	char *pem; /* wiped by the owner */
	struct error *e;
};

static const char *context_of(const char *id, char out[CONTEXT_BYTES])
{
	(void)snprintf(out, CONTEXT_BYTES, "signer %s", id); /* fits */
	return out;
}

/* Takes the first, which is the newest, and ends the list. */
static int take_signer(void *arg, const struct store_signer *s)
{
	struct found *f = arg;
	char context[CONTEXT_BYTES];
	size_t n;
	int r = sealer_open(f->fleet->sealer, context_of(s->id, context), s->sealed,
		s->sealed_bytes, &f->pem, &n, f->e);

	if (r < 0) {
		error_prefix(f->e, "the key that signs tokens of identity");
		return r;
	}
	(void)snprintf(f->id, sizeof(f->id), "%s", s->id); /* the store checked it */
	f->created_ns = s->created_ns;
	return 1;
}

static int add_signer(struct fleet *f, uint64_t now_ns, struct error *e)
{
	struct jwt_key key = {0};
	int r = jwt_key_make(&key, e);
	_cleanup_free_ char *public = r == 0 ? json_dumps(key.jwk, JSON_COMPACT) : NULL;
	_cleanup_free_ uint8_t *sealed = NULL;
	size_t n = r == 0 ? strlen(key.pem) : 0;
	struct store_signer s = {.id = key.id,
		.created_ns = now_ns,
		.public_json = public,
		.sealed_bytes = n + SEAL_OVERHEAD};
	uint64_t kept_ns = (IDENTITY_KEY_DAYS + 1) * DAY_NS;
	char context[CONTEXT_BYTES];

	if (r == 0)
		r = sealer_seal(f->sealer, secrets_may_make_key(f), context_of(key.id, context),
			key.pem, n, &sealed, e);
	s.sealed = sealed;
	if (r == 0)
		r = store_signer_add(f->store, &s, now_ns > kept_ns ? now_ns - kept_ns : 0, e);
	jwt_key_done(&key);
	return r;
}

/* The key that signs now; the caller wipes its pem, also after a failure. */
static int find_key(struct fleet *f, struct found *ret, struct error *e)
{
	uint64_t now_ns = clock_realtime_ns();
	int r;

	*ret = (struct found){.fleet = f, .e = e};
	r = store_signer_list(f->store, take_signer, ret, e);
	if (r < 0 || (r > 0 && now_ns < ret->created_ns + IDENTITY_KEY_DAYS * DAY_NS))
		return r < 0 ? r : 0;
	r = add_signer(f, now_ns, e);
	if (r < 0)
		return r;
	secret_free(ret->pem);
	*ret = (struct found){.fleet = f, .e = e};
	r = store_signer_list(f->store, take_signer, ret, e);
	return r < 0 ? r : 0;
}

int identity_prepare(struct fleet *f, struct error *e)
{
	struct found key;
	int r = find_key(f, &key, e);

	secret_free(key.pem);
	return r;
}

/* --- tokens --- */

static uint64_t life_s(const struct fleet *f)
{
	return f->options.token_life_s ? f->options.token_life_s : IDENTITY_LIFE_S;
}

uint64_t identity_renew_ms(const struct instance *i)
{
	return i->iam_json ? life_s(i->fleet) * 1000 / 2 : 0;
}

static json_t *claims_of(const struct instance *i, const json_t *audience)
{
	const char *issuer = i->fleet->options.issuer;
	char domain[IDENTITY_ISSUER_MAX + 1] = "", id[TOKEN_ID_BYTES];
	uint64_t now_s = clock_realtime_ns() / NS_PER_S;
	_cleanup_free_ char *subject = NULL;

	trust_domain(issuer, domain);
	subject = str_printf("spiffe://%s/key/%s/template/%s/sandbox/%s", domain, i->key_id,
		i->template.id, instance_id(i));
	if (!subject || str_random_id(id, sizeof(id)) < 0)
		return NULL;
	return json_pack("{s:s, s:s, s:O, s:I, s:I, s:I, s:s}", "iss", issuer, "sub", subject,
		"aud", audience, "iat", (json_int_t)now_s, "nbf", (json_int_t)now_s, "exp",
		(json_int_t)(now_s + life_s(i->fleet)), "jti", id);
}

static int sign(const struct instance *i, const json_t *audience, char **ret, struct error *e)
{
	struct found key;
	int r = find_key(i->fleet, &key, e);
	json_t *claims = r == 0 ? claims_of(i, audience) : NULL;

	if (r == 0)
		r = claims ? jwt_sign(key.pem, key.id, claims, ret, e) : no_memory(e);
	json_decref(claims);
	secret_free(key.pem);
	return r;
}

int identity_token(const struct instance *i, const char *name, char **ret, struct error *e)
{
	json_t *iam = json_tree_stored(i->iam_json);
	const json_t *token = json_object_get(json_object_get(iam, "tokens"), name);
	int r = token ? sign(i, json_object_get(token, "audience"), ret, e)
		      : error_set(e, ERROR_NOT_FOUND, ENOENT, "iam.tokens has no '%.64s'", name);

	json_decref(iam);
	return r;
}

/* --- documents --- */

static int add_public(void *arg, const struct store_signer *s)
{
	return json_array_append_new(arg, json_tree_stored(s->public_json)) < 0 ? -ENOMEM : 0;
}

json_t *identity_keys(struct fleet *f, struct error *e)
{
	json_t *list = json_array();
	int r = store_signer_list(f->store, add_public, list, e);

	if (r == 0)
		return json_pack("{s:o}", "keys", list);
	json_decref(list);
	if (r == -ENOMEM)
		(void)no_memory(e);
	return NULL;
}

json_t *identity_configuration(const struct fleet *f, struct error *e)
{
	const char *issuer = f->options.issuer;
	_cleanup_free_ char *keys = str_printf("%s" KEYS_PATH, issuer);
	json_t *root =
		keys ? json_pack("{s:s, s:s, s:[s], s:[s], s:[s], s:[s, s, s, s, s, s]}", "issuer",
			       issuer, "jwks_uri", keys, "response_types_supported", "id_token",
			       "subject_types_supported", "public",
			       "id_token_signing_alg_values_supported", "ES256", "claims_supported",
			       "iss", "sub", "aud", "iat", "nbf", "exp")
		     : NULL;

	if (!root)
		(void)no_memory(e);
	return root;
}
