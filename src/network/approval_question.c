#include "network/approval_question.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "proto/json_text.h"
#include "proto/json_tree.h"
#include "proto/shown_text.h"
#include "proto/timestamp.h"

enum type { TEXT, LINES, NUMBER, FLAG, CALL, HEADERS, NAMES };

enum {
	CALL_NAMES_MAX = 17,
	CALL_NAME_MAX = 64,
	CALL_LINE_MAX = 8192,
	HEADERS_MAX = 16,
	HEADER_NAME_MAX = 67, /* with the mark of a cut */
	HEADER_VALUE_MAX = 131,
	HEADERS_LINE_MAX = 8192,
};

/* What a member is used for: it is shown to people, or a lasting decision depends on it. Two
 * questions are the same if the whole messages are. */
enum { SHOWN = 1, TARGET = 2 };

/* In the order of display. max: how many bytes of a text are shown, or the largest number. */
static const struct member {
	const char *name;
	enum type type;
	uint64_t max;
	unsigned where;
} members[] = {
	{"host", TEXT, 254, SHOWN | TARGET},
	{"address", TEXT, 45, SHOWN},
	{"port", NUMBER, UINT16_MAX, SHOWN | TARGET},
	{"scheme", TEXT, 8, SHOWN | TARGET},
	{"method", TEXT, 32, SHOWN | TARGET},
	{"path", TEXT, 1024, SHOWN},
	{"pathDigest", TEXT, 64, TARGET},
	{"call", CALL, 0, SHOWN},
	{"callDigest", TEXT, 64, TARGET},
	{"headers", HEADERS, 0, SHOWN},
	{"actionDigest", TEXT, 64, TARGET},
	{"preview", LINES, 2048, SHOWN},
	{"bodyBytes", NUMBER, (uint64_t)1 << 53, SHOWN},
	{"bodyCoding", TEXT, 32, SHOWN},
	{"partial", FLAG, 1, SHOWN},
	{"hiddenBytes", NUMBER, (uint64_t)1 << 53, SHOWN},
	{"hidden", NAMES, 0, SHOWN},
	{"unseen", FLAG, 1, SHOWN},
	{"digest", TEXT, 64, 0},
	{"program", TEXT, 31, SHOWN},
};

/* What was said, in three forms. */
struct forms {
	json_t *shown, *same, *target;
};

static bool is_right(const json_t *v, const struct member *m)
{
	json_int_t n = json_integer_value(v);

	switch (m->type) {
	case TEXT:
	case LINES:
		return json_string_length(v) > 0;
	case NUMBER:
		return json_is_integer(v) && n >= 0 && (uint64_t)n <= m->max;
	case FLAG:
		return json_is_true(v);
	case CALL:
		return json_is_object(v);
	case HEADERS:
	case NAMES:
		return json_array_size(v) > 0;
	}
	return false;
}

/* The worker has written most of it so already, but it may be older, or taken over. */
static json_t *cut_text(json_t *v, size_t max, unsigned how)
{
	const char *s = json_string_value(v);
	_cleanup_free_ char *text = s ? shown_text_make(s, json_string_length(v), max, how) : NULL;

	return text ? json_string(text) : s ? NULL : json_incref(v);
}

static json_t *cut(json_t *v, size_t max)
{
	return cut_text(v, max, 0);
}

/* What is no text is left out. */
static json_t *cut_names(const json_t *names)
{
	json_t *list = json_array(), *v;
	size_t i;

	json_array_foreach((json_t *)names, i, v)
	{
		if (i < CALL_NAMES_MAX && json_is_string(v))
			(void)json_array_append_new(
				list, cut(v, CALL_NAME_MAX)); /* or it has less */
	}
	return list;
}

/* A model, or tools and methods of MCP. */
static json_t *cut_call(const json_t *call)
{
	static const char *const texts[] = {"api", "model"}, *const lists[] = {"serverTools",
								     "tools", "methods"};
	json_t *o = json_object(), *v;

	for (unsigned i = 0; i < ARRAY_SIZE(texts); i++)
		if (json_is_string(v = json_object_get(call, texts[i])))
			(void)json_object_set_new(
				o, texts[i], cut(v, CALL_NAME_MAX)); /* likewise */
	for (unsigned i = 0; i < ARRAY_SIZE(lists); i++)
		if (json_array_size(v = json_object_get(call, lists[i])) > 0)
			(void)json_object_set_new(o, lists[i], cut_names(v)); /* likewise */
	return o;
}

/* What is no header is left out. */
static json_t *cut_headers(const json_t *headers)
{
	json_t *list = json_array(), *v;
	size_t i;

	json_array_foreach((json_t *)headers, i, v)
	{
		json_t *name = json_object_get(v, "name"), *value = json_object_get(v, "value");

		if (i < HEADERS_MAX && json_is_string(name) && json_is_string(value))
			(void)json_array_append_new(list,
				json_pack("{s:o, s:o}", "name", cut(name, HEADER_NAME_MAX), "value",
					cut(value, HEADER_VALUE_MAX))); /* or it has less */
	}
	return list;
}

static json_t *shown(json_t *v, const struct member *m)
{
	switch (m->type) {
	case CALL:
		return cut_call(v);
	case HEADERS:
		return cut_headers(v);
	case NAMES:
		return cut_names(v);
	case LINES:
		return cut_text(v, m->max, SHOWN_TEXT_LINES);
	default:
		return cut(v, m->max);
	}
}

static int take_member(json_t *v, const struct member *m, struct forms *f)
{
	if (json_object_set(f->same, m->name, v) < 0)
		return -ENOMEM;
	if (m->where & SHOWN && json_object_set_new(f->shown, m->name, shown(v, m)) < 0)
		return -ENOMEM;
	return m->where & TARGET && json_object_set(f->target, m->name, v) < 0 ? -ENOMEM : 0;
}

static int take_members(const json_t *said, struct forms *f)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < ARRAY_SIZE(members); i++) {
		json_t *v = json_object_get(said, members[i].name);

		if (is_right(v, &members[i]))
			r = take_member(v, &members[i], f);
	}
	return r;
}

/* The rule's content is hashed beside the question, so another answer is another question. */
static int add_ask(struct forms *f, const struct rules_ask *ask)
{
	if (ask && (json_object_set_new(
			    f->shown, "who", json_string(rules_ask_who_word(ask->who))) < 0 ||
			   json_object_set_new(f->shown, "links",
				   json_string(rules_ask_links_word(ask->links))) < 0))
		return -ENOMEM;
	return 0;
}

/* Workers before this did not say it. */
static int add_unseen(struct forms *f)
{
	if (!json_object_get(f->same, "partial") && !json_object_get(f->same, "bodyCoding"))
		return 0;
	return json_object_set_new(f->shown, "unseen", json_true()) < 0 ? -ENOMEM : 0;
}

/* A lasting decision depends on a path's digest, which may be missing. */
static int take_path(struct forms *f)
{
	json_t *path = json_object_get(f->same, "path");

	if (!path || json_object_get(f->target, "pathDigest"))
		return 0;
	return json_object_set(f->target, "path", path) < 0 ? -ENOMEM : 0;
}

/* With the rule that asks: its id and its content. */
static int hash(
	const json_t *object, const struct approval_question *q, uint8_t out[STORE_APPROVAL_HASH])
{
	_cleanup_free_ char *text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	bool good = text && c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) &&
		    EVP_DigestUpdate(c, q->rule, strlen(q->rule) + 1) &&
		    EVP_DigestUpdate(c, q->digest, sizeof(q->digest)) &&
		    EVP_DigestUpdate(c, text, strlen(text)) && EVP_DigestFinal_ex(c, out, NULL);

	EVP_MD_CTX_free(c);
	return good ? 0 : -ENOMEM;
}

void approval_question_rule(const json_t *said, char out[STORE_APPROVAL_RULE_MAX + 1])
{
	const json_t *v = json_object_get(said, "rule");
	const char *s = json_string_value(v);
	size_t n = s && *s ? str_cut(s, json_string_length(v), STORE_APPROVAL_RULE_MAX) : 0;

	if (n == 0)
		s = "default", n = strlen(s);
	memcpy(out, s, n);
	out[n] = '\0';
}

static int fill(const json_t *said, const char *budget, const struct rules_ask *ask,
	struct forms *f, struct approval_question *q)
{
	int r = f->shown && f->same && f->target ? take_members(said, f) : -ENOMEM;

	if (r == 0 && budget && json_object_set_new(f->shown, "budget", json_string(budget)) < 0)
		r = -ENOMEM;

	r = r ? r : add_ask(f, ask);
	r = r ? r : add_unseen(f);
	r = r ? r : take_path(f);
	if (r < 0)
		return r;
	if (!json_object_get(f->same, "port") ||
		(!json_object_get(f->same, "host") && !json_object_get(f->same, "address")))
		return -EINVAL;
	if (!json_object_get(f->same, "host") && /* an address is what is asked for, then */
		json_object_set(f->target, "address", json_object_get(f->same, "address")) < 0)
		return -ENOMEM;
	approval_question_rule(said, q->rule);
	q->request = json_object_get(f->same, "method");
	r = hash(f->same, q, q->same);
	r = r ? r : hash(f->target, q, q->target);
	q->text = r ? NULL : json_dumps(f->shown, JSON_COMPACT | JSON_ENSURE_ASCII);
	return r ? r : q->text ? 0 : -ENOMEM;
}

int approval_question_make(const json_t *said, const char *budget, const struct rules_ask *ask,
	const uint8_t digest[STORE_APPROVAL_HASH], struct approval_question *ret)
{
	struct forms f = {json_object(), json_object(), json_object()};
	int r;

	*ret = (struct approval_question){.text = NULL};
	memcpy(ret->digest, digest, sizeof(ret->digest));
	r = fill(said, budget, ask, &f, ret);
	json_decref(f.shown);
	json_decref(f.same);
	json_decref(f.target);
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

/* --- for people --- */

static int add_names(struct buf *line, const char *what, const json_t *names)
{
	json_t *v;
	size_t i;
	int r = 0;

	json_array_foreach((json_t *)names, i, v)
	{
		if (r == 0 && json_is_string(v))
			r = buf_printf(line, "%s%s", i ? ", " : what, json_string_value(v));
	}
	return r;
}

char *approval_call_text(const json_t *approval)
{
	const json_t *call = json_object_get(approval, "call");
	const char *model = json_string_value(json_object_get(call, "model"));
	struct buf line = BUF_INIT(CALL_LINE_MAX);
	char *text = NULL;
	int r = call ? buf_add_str(&line, json_tree_text(call, "api")) : -ENOENT;

	if (r == 0 && model)
		r = buf_printf(&line, " model %s", model);
	r = r ? r : add_names(&line, " server tools ", json_object_get(call, "serverTools"));
	r = r ? r : add_names(&line, " tools ", json_object_get(call, "tools"));
	r = r ? r : add_names(&line, " methods ", json_object_get(call, "methods"));
	if (r == 0 && buf_add_u8(&line, 0) == 0)
		text = strdup((const char *)buf_head(&line));
	buf_done(&line);
	return text;
}

char *approval_headers_text(const json_t *approval, const char *before)
{
	struct buf text = BUF_INIT(HEADERS_LINE_MAX);
	json_t *v;
	char *ret = NULL;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(approval, "headers"), i, v)
	{
		r = r ? r
		      : buf_printf(&text, "%s%s: %s", before, json_tree_text(v, "name"),
				json_tree_text(v, "value"));
	}
	if (r == 0 && buf_len(&text) && buf_add_u8(&text, 0) == 0)
		ret = strdup((const char *)buf_head(&text));
	buf_done(&text);
	return ret;
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
