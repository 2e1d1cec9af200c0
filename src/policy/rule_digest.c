#include "policy/rule_digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "rules/rules.h"

struct entry {
	char id[RULES_ID_MAX + 1];
	uint8_t digest[RULE_DIGEST_BYTES];
	struct rules_ask ask;
};

struct rule_digests {
	struct entry *entries;
	size_t count;
};

static struct entry *find(const struct rule_digests *d, const char *id)
{
	for (size_t i = 0; i < d->count; i++)
		if (strcmp(d->entries[i].id, id) == 0)
			return &d->entries[i];
	return NULL;
}

/* The entry of a rule's id; NULL: out of memory. */
static struct entry *obtain(struct rule_digests *d, const json_t *rule, size_t i)
{
	const char *given = json_string_value(json_object_get(rule, "id"));
	struct entry *grown, *e;
	char id[RULES_ID_MAX + 1];

	if (given)
		(void)snprintf(id, sizeof(id), "%s", given); /* fits: it was checked */
	else
		(void)snprintf(id, sizeof(id), "rules[%zu]", i); /* fits */
	e = find(d, id);
	if (e)
		return e;
	grown = array_grow(d->entries, d->count, sizeof(*grown));
	if (!grown)
		return NULL;
	d->entries = grown;
	e = &d->entries[d->count++];
	*e = (struct entry){.ask = {RULES_ASK_KEY, RULES_ASK_LONGER}};
	memcpy(e->id, id, sizeof(e->id));
	return e;
}

/* Continues a digest with a text. */
static int hash_on(uint8_t digest[RULE_DIGEST_BYTES], const char *text)
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	bool good = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) &&
		    EVP_DigestUpdate(c, digest, RULE_DIGEST_BYTES) &&
		    EVP_DigestUpdate(c, text, strlen(text)) && EVP_DigestFinal_ex(c, digest, NULL);

	EVP_MD_CTX_free(c);
	return good ? 0 : -ENOMEM;
}

bool rule_digests_is_floor(const char *id)
{
	return str_starts_with(id, "operator.") || str_starts_with(id, "key.");
}

/* Who set up a barrier lifts it. What a stored rule says wrongly admits nobody else. */
static void narrow(struct rules_ask *ask, const json_t *rule, const char *id)
{
	struct rules_ask said;

	(void)rules_ask_read(
		rule, rule_digests_is_floor(id) ? RULES_ASK_OPERATOR : RULES_ASK_KEY, &said);
	ask->who = said.who > ask->who ? said.who : ask->who;
	ask->links = said.links > ask->links ? said.links : ask->links;
}

static int add_rule(struct rule_digests *d, const json_t *rule, size_t i)
{
	_cleanup_free_ char *text = json_dumps(rule, JSON_COMPACT | JSON_SORT_KEYS);
	struct entry *e = text ? obtain(d, rule, i) : NULL;

	if (!e)
		return -ENOMEM;
	narrow(&e->ask, rule, e->id);
	return hash_on(e->digest, text);
}

static int add_layers(struct rule_digests *d, const json_t *layers)
{
	int r = layers ? 0 : -ENOMEM;

	for (size_t n = 0; r == 0 && n < json_array_size(layers); n++) {
		const json_t *rules = json_object_get(json_array_get(layers, n), "rules");

		for (size_t i = 0; r == 0 && i < json_array_size(rules); i++)
			r = add_rule(d, json_array_get(rules, i), i);
	}
	return r;
}

struct rule_digests *rule_digests_new(const struct network_floors *floors, const json_t *network)
{
	struct rule_digests *d = calloc(1, sizeof(*d));
	json_t *policy = d ? network_policy(floors, network, false, 1) : NULL;

	if (add_layers(d, json_object_get(policy, "layers")) < 0) {
		rule_digests_free(d);
		d = NULL;
	}
	json_decref(policy);
	return d;
}

void rule_digests_free(struct rule_digests *d)
{
	if (!d)
		return;
	free(d->entries);
	free(d);
}

void rule_digests_get(const struct rule_digests *d, const char *id, uint8_t out[RULE_DIGEST_BYTES])
{
	const struct entry *e = find(d, id);

	memset(out, 0, RULE_DIGEST_BYTES);
	if (e)
		memcpy(out, e->digest, RULE_DIGEST_BYTES);
}

struct rules_ask rule_digests_ask(const struct rule_digests *d, const char *id)
{
	const struct entry *e = find(d, id);

	return e ? e->ask : (struct rules_ask){RULES_ASK_KEY, RULES_ASK_ONCE};
}
