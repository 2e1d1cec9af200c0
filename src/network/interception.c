#include "network/interception.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "network/identity.h"
#include "network/secrets.h"
#include "policy/authority.h"
#include "policy/iam.h"
#include "policy/intercept.h"
#include "policy/network_policy.h"
#include "policy/seal.h"
#include "proto/base64.h"
#include "proto/json_tree.h"
#include "store/keys.h"

enum { CONTEXT_BYTES = STORE_ID_MAX + 32 };

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

/* --- sealing the authority. Forks share it, so it is bound to the key --- */

static const char *context_of(const struct instance *i, char out[CONTEXT_BYTES])
{
	(void)snprintf(out, CONTEXT_BYTES, "authority %s", i->key_id); /* fits */
	return out;
}

static int seal_with(struct sealer *s, const struct instance *i, const struct authority *a,
	char **ret, struct error *e)
{
	_cleanup_(secret_freep) char *text = authority_text(a);
	_cleanup_free_ uint8_t *sealed = NULL;
	char context[CONTEXT_BYTES];
	size_t n = text ? strlen(text) : 0, len = base64_encoded_len(n + SEAL_OVERHEAD);
	char *out;
	int r = text ? sealer_seal(s, secrets_may_make_key(i->fleet), context_of(i, context), text,
			       n, &sealed, e)
		     : no_memory(e);

	if (r < 0)
		return r;
	out = malloc(len + 1);
	if (!out)
		return no_memory(e);
	base64_encode(out, sealed, n + SEAL_OVERHEAD);
	out[len] = '\0';
	*ret = out;
	return 0;
}

static int seal(const struct instance *i, const struct authority *a, char **ret, struct error *e)
{
	return seal_with(i->fleet->sealer, i, a, ret, e);
}

static int unseal(const struct instance *i, struct authority *ret, struct error *e)
{
	size_t n = strlen(i->authority);
	_cleanup_free_ uint8_t *sealed = malloc(base64_decoded_max(n));
	ptrdiff_t len = sealed ? base64_decode(sealed, i->authority, n) : -ENOMEM;
	_cleanup_(secret_freep) char *text = NULL;
	char context[CONTEXT_BYTES];
	size_t text_n;
	int r;

	if (len < 0)
		return error_set_errno(e, ERROR_INTERNAL, (int)-len, "a sandbox's authority");
	r = sealer_open(
		i->fleet->sealer, context_of(i, context), sealed, (size_t)len, &text, &text_n, e);
	if (r < 0)
		error_prefix(e, "the certificate authority of the sandbox");
	return r < 0 ? r : authority_parse(text, ret, e);
}

int interception_seal_anew(struct instance *i, struct sealer *next, struct error *e)
{
	_cleanup_(authority_done) struct authority a = {0};
	char *text = NULL;
	int r = unseal(i, &a, e);

	if (r == 0)
		r = seal_with(next, i, &a, &text, e);
	if (r == 0) {
		free(i->authority);
		i->authority = text;
	}
	return r;
}

/* --- what it is made of --- */

static struct intercept_source source_of(
	const struct instance *i, const json_t *network, json_t *bindings, json_t *inspected)
{
	return (struct intercept_source){.network = network,
		.bindings = bindings,
		.inspected = inspected,
		.roots = i->fleet->options.guest_ca};
}

/* The hosts whose requests are judged. NULL, and e is set. */
static json_t *inspected_of(const struct instance *i, const json_t *network, struct error *e)
{
	_cleanup_(store_key_freep) struct store_key *key = NULL;
	struct network_floors floors = {i->fleet->options.network, NULL, i->sandbox.network};
	json_t *hosts;

	if (store_key_get(i->fleet->store, i->key_id, &key, e) < 0)
		return NULL;
	floors.key = key->limits.network;
	hosts = network_inspected(&floors, network);
	if (!hosts)
		(void)no_memory(e);
	return hosts;
}

static int make_authority(const struct instance *i, json_t *hosts, char **ret, struct error *e)
{
	_cleanup_(authority_done) struct authority old = {0};
	_cleanup_(authority_done) struct authority made = {0};
	bool has = i->authority && unseal(i, &old, NULL) == 0;
	int r;

	if (has && json_equal(old.hosts, hosts)) {
		*ret = strdup(i->authority);
		return *ret ? 0 : no_memory(e);
	}
	r = authority_make(has ? &old : NULL, hosts, time(NULL), &made, e);
	return r < 0 ? r : seal(i, &made, ret, e);
}

int interception_authority(
	const struct instance *i, const json_t *network, char **ret, struct error *e)
{
	json_t *bindings = json_tree_stored(i->secrets_json);
	json_t *inspected = inspected_of(i, network, e);
	const struct intercept_source s = source_of(i, network, bindings, inspected);
	json_t *hosts = inspected ? intercept_hosts(&s) : NULL;
	int r = 0;

	*ret = NULL;
	if (!hosts || (i->secrets_json && !bindings))
		r = no_memory(e); /* unless it is known why */
	else if (json_array_size(hosts))
		r = make_authority(i, hosts, ret, e);
	json_decref(hosts);
	json_decref(inspected);
	json_decref(bindings);
	return r;
}

/* --- the member --- */

static char *value_of(void *arg, const char *name)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20);
	const struct instance *i = arg;
	bool token = str_starts_with(name, IAM_SECRET_PREFIX);
	struct error e = {0};
	char *value = NULL;
	int r = token ? identity_token(i, name + strlen(IAM_SECRET_PREFIX), &value, &e)
		      : secret_value(i->fleet, i->key_id, name, &value, &e);

	if (r < 0 && e.code != ERROR_NOT_FOUND && log_limited(&limit)) /* a tenant may cause it */
		log_error("requests that need a secret fail: %s sandbox=%s", e.message,
			i->sandbox.id);
	return value;
}

/* Makes an authority that no guest trusts, for when the key of the secrets is missing. Then
 * connections to these hosts fail, and no others. */
static int stand_in(const struct intercept_source *s, struct authority *ret, struct error *e)
{
	json_t *hosts = intercept_hosts(s);
	int r = hosts ? authority_make(NULL, hosts, time(NULL), ret, e) : no_memory(e);

	json_decref(hosts);
	return r;
}

static int find_authority(const struct instance *i, const struct intercept_source *s,
	struct authority *ret, struct error *e)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20);
	struct error why = {0};

	if (unseal(i, ret, &why) == 0)
		return 0;
	if (log_limited(&limit))
		log_error("intercepted hosts of a sandbox fail: %s sandbox=%s", why.message,
			i->sandbox.id);
	authority_done(ret);
	return stand_in(s, ret, e);
}

int interception_policy(
	const struct instance *i, const json_t *network, json_t **ret, struct error *e)
{
	_cleanup_(authority_done) struct authority a = {0};
	json_t *bindings = json_tree_stored(i->secrets_json), *env = json_tree_stored(i->env_json);
	json_t *inspected = i->authority ? inspected_of(i, network, e) : NULL;
	struct intercept_source s = source_of(i, network, bindings, inspected);
	int r = !i->authority ? 0 : inspected ? find_authority(i, &s, &a, e) : -ENOMEM;

	*ret = NULL;
	s.authority = &a;
	s.env = env;
	s.value = value_of;
	s.arg = (void *)i;
	if (r == 0 && i->authority) {
		*ret = intercept_policy(&s);
		r = *ret ? 0 : no_memory(e);
	}
	json_decref(bindings);
	json_decref(inspected);
	json_decref(env);
	return r;
}

bool interception_uses(const struct instance *i, const char *name)
{
	json_t *bindings, *network;
	bool uses;

	if (!i->authority)
		return false;
	bindings = json_tree_stored(i->secrets_json);
	network = json_tree_stored(i->network_json);
	uses = intercept_uses(
		&(struct intercept_source){.network = network, .bindings = bindings}, name);
	json_decref(bindings);
	json_decref(network);
	return uses;
}

/* --- the guest --- */

bool interception_has_guest(const struct instance *i)
{
	return i->authority || i->fleet->options.guest_ca;
}

int interception_guest(const struct instance *i, char **ret, struct error *e)
{
	_cleanup_(authority_done) struct authority a = {0};
	const char *more = i->fleet->options.guest_ca;
	int r = i->authority ? unseal(i, &a, e) : 0;

	*ret = NULL;
	if (r < 0 || !interception_has_guest(i))
		return r;
	*ret = str_printf(
		"%s%s%s", more ? more : "", more ? "\n" : "", a.certificate ? a.certificate : "");
	return *ret ? 0 : no_memory(e);
}

int interception_of_key(struct fleet *f, const char *key_id, json_t *bindings,
	const json_t *network, char **ret_authority, char **ret_guest, struct error *e)
{
	_cleanup_free_ char *secrets = json_object_size(bindings) ? json_dumps(bindings, 0) : NULL;
	_cleanup_free_ char *key = strdup(key_id);
	/* one that is never made: the functions above read no more of it */
	_cleanup_free_ struct instance *i = calloc(1, sizeof(*i));
	int r;

	*ret_authority = *ret_guest = NULL;
	if (!i || !key || (json_object_size(bindings) && !secrets))
		return no_memory(e);
	i->fleet = f;
	i->key_id = key;
	i->secrets_json = secrets;
	r = interception_authority(i, network, ret_authority, e);
	i->authority = *ret_authority;
	return r == 0 ? interception_guest(i, ret_guest, e) : r;
}
