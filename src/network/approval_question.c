#include "network/approval_question.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "proto/json_text.h"
#include "proto/json_tree.h"
#include "proto/timestamp.h"

enum type { TEXT, NUMBER };

/* In the order in which they are shown. max: bytes of a text, the rest is cut; the largest number.
 * target: part of what a decision for longer is about. */
static const struct member {
	const char *name;
	enum type type;
	unsigned max;
	bool target;
} members[] = {
	{"host", TEXT, 254, true},
	{"address", TEXT, 45, false},
	{"port", NUMBER, UINT16_MAX, true},
	{"scheme", TEXT, 8, true},
	{"method", TEXT, 32, true},
	{"path", TEXT, 512, true},
	{"preview", TEXT, 2048, false},
	{"bodyBytes", NUMBER, INT32_MAX, false},
	{"program", TEXT, 31, false},
};

static json_t *take_text(const json_t *v, unsigned max)
{
	const char *s = json_string_value(v);

	return s && *s ? json_stringn(s, str_cut(s, json_string_length(v), max)) : NULL;
}

static json_t *take_number(const json_t *v, unsigned max)
{
	json_int_t n = json_integer_value(v);

	return json_is_integer(v) && n >= 0 && n <= (json_int_t)max ? json_integer(n) : NULL;
}

static int take_members(const json_t *said, json_t *all, json_t *target)
{
	for (unsigned i = 0; i < ARRAY_SIZE(members); i++) {
		const struct member *m = &members[i];
		const json_t *v = json_object_get(said, m->name);
		json_t *taken = m->type == TEXT ? take_text(v, m->max) : take_number(v, m->max);

		if (!taken)
			continue;
		if (json_object_set_new(all, m->name, taken) < 0 ||
			(m->target && json_object_set(target, m->name, taken) < 0))
			return -ENOMEM;
	}
	return 0;
}

static int hash(const json_t *object, const char *rule, uint8_t out[STORE_APPROVAL_HASH])
{
	_cleanup_free_ char *text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	bool good = text && c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) &&
		    EVP_DigestUpdate(c, rule, strlen(rule) + 1) &&
		    EVP_DigestUpdate(c, text, strlen(text)) && EVP_DigestFinal_ex(c, out, NULL);

	EVP_MD_CTX_free(c);
	return good ? 0 : -ENOMEM;
}

static void take_rule(const json_t *said, char out[STORE_APPROVAL_RULE_MAX + 1])
{
	const json_t *v = json_object_get(said, "rule");
	const char *s = json_string_value(v);
	size_t n = s && *s ? str_cut(s, json_string_length(v), STORE_APPROVAL_RULE_MAX) : 0;

	if (n == 0)
		s = "default", n = strlen(s);
	memcpy(out, s, n);
	out[n] = '\0';
}

static int fill(const json_t *said, json_t *all, json_t *target, struct approval_question *q)
{
	int r = all && target ? take_members(said, all, target) : -ENOMEM;

	if (r < 0)
		return r;
	if (!json_object_get(all, "port") ||
		(!json_object_get(all, "host") && !json_object_get(all, "address")))
		return -EINVAL;
	if (!json_object_get(all, "host") && /* an address is what is asked for, then */
		json_object_set(target, "address", json_object_get(all, "address")) < 0)
		return -ENOMEM;
	take_rule(said, q->rule);
	q->request = json_object_get(all, "method");
	r = hash(all, q->rule, q->same);
	r = r ? r : hash(target, q->rule, q->target);
	q->text = r ? NULL : json_dumps(all, JSON_COMPACT | JSON_ENSURE_ASCII);
	return r ? r : q->text ? 0 : -ENOMEM;
}

int approval_question_make(const json_t *said, struct approval_question *ret)
{
	json_t *all = json_object(), *target = json_object();
	int r;

	*ret = (struct approval_question){.text = NULL};
	r = fill(said, all, target, ret);
	json_decref(all);
	json_decref(target);
	if (r == 0 && strlen(ret->text) > STORE_APPROVAL_QUESTION_MAX)
		r = -EINVAL; /* characters that need six bytes each */
	if (r < 0)
		approval_question_done(ret);
	return r;
}

void approval_question_done(struct approval_question *q)
{
	free(q->text);
	q->text = NULL;
}

/* --- as JSON --- */

static void put(json_t *o, const char *name, json_t *v)
{
	(void)json_object_set_new(o, name, v); /* without memory it is missing */
}

static void put_time(json_t *o, const char *name, uint64_t ns)
{
	char text[TIMESTAMP_BYTES];

	put(o, name, json_string(timestamp_format_ns(ns, text)));
}

static void put_decision(json_t *o, const struct store_approval *a)
{
	put_time(o, "decidedAt", a->decided_ns);
	if (a->decided_by)
		put(o, "decidedBy", json_string(a->decided_by));
	if (a->reason)
		put(o, "reason", json_string(a->reason));
	if (a->state != STORE_APPROVAL_ALLOWED && a->state != STORE_APPROVAL_DENIED)
		return;
	put(o, "for", json_string(store_approval_for_name(a->scope)));
	if (a->scope != STORE_APPROVAL_ONCE && a->until_ns < STORE_NEVER_NS)
		put_time(o, "validUntil", a->until_ns);
}

json_t *approval_json(const struct store_approval *a)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "approvalID", a->id, "sandboxID",
		       a->sandbox_id, "rule", a->rule, "state",
		       store_approval_state_name(a->state)),
	       *asked = json_tree_stored(a->question_json);

	if (o) {
		if (asked)
			(void)json_object_update_missing(o, asked); /* likewise */
		put(o, "count", json_integer((json_int_t)a->count));
		put_time(o, "askedAt", a->asked_ns);
		put_time(o, "expiresAt", a->expires_ns);
		if (a->state != STORE_APPROVAL_WAITING)
			put_decision(o, a);
	}
	json_decref(asked);
	return o;
}
