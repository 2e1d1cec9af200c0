#include "cli/sandbox/activity_verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "proto/json_text.h"
#include "proto/json_tree.h"

enum { TEXT_MAX = 16384, DEPTH_MAX = 4 };

static uint64_t number(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

/* --- the text that a hash covers --- */

static int write_value(struct buf *b, const json_t *v, unsigned depth);

static int write_object(struct buf *b, const json_t *v, unsigned depth)
{
	const char *key;
	json_t *member;
	int r = 0;
	bool first = true;

	json_object_foreach((json_t *)v, key, member)
	{
		if (r || (depth == 0 && (strcmp(key, "id") == 0 || strcmp(key, "hash") == 0)))
			continue;
		r = buf_add_str(b, first ? "{" : ",");
		r = r ? r : json_text_string(b, key, strlen(key), JSON_TEXT_ASCII);
		r = r ? r : buf_add_str(b, ":");
		r = r ? r : write_value(b, member, depth + 1);
		first = false;
	}
	return r ? r : buf_add_str(b, first ? "{}" : "}");
}

static int write_array(struct buf *b, const json_t *v, unsigned depth)
{
	int r = buf_add_str(b, "[");

	for (size_t i = 0; r == 0 && i < json_array_size(v); i++) {
		r = i ? buf_add_str(b, ",") : 0;
		r = r ? r : write_value(b, json_array_get(v, i), depth + 1);
	}
	return r ? r : buf_add_str(b, "]");
}

static int write_value(struct buf *b, const json_t *v, unsigned depth)
{
	if (depth > DEPTH_MAX)
		return -EBADMSG;
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return write_object(b, v, depth);
	case JSON_ARRAY:
		return write_array(b, v, depth);
	case JSON_STRING:
		return json_text_string(
			b, json_string_value(v), json_string_length(v), JSON_TEXT_ASCII);
	case JSON_INTEGER:
		return buf_printf(b, "%lld", (long long)json_integer_value(v));
	case JSON_TRUE:
		return buf_add_str(b, "true");
	case JSON_FALSE:
		return buf_add_str(b, "false");
	default:
		return -EBADMSG; /* records have no others */
	}
}

/* --- one record --- */

static bool take_hash(const char *text, uint8_t hash[ACTIVITY_HASH_BYTES])
{
	return text && strlen(text) == 2 * ACTIVITY_HASH_BYTES &&
	       str_from_hex(text, ACTIVITY_HASH_BYTES, hash);
}

static bool take_link(const json_t *o, struct activity_link *ret)
{
	ret->n = number(o, "n");
	return ret->n && take_hash(json_string_value(json_object_get(o, "hash")), ret->hash);
}

static int bad(const json_t *record, struct error *e, const char *what)
{
	return error_set(e, ERROR_BAD_SNAPSHOT, EBADMSG,
		"the log is not as it was written: record %llu (id %llu, %s) %s",
		(unsigned long long)number(record, "n"), (unsigned long long)number(record, "id"),
		json_tree_text(record, "time"), what);
}

static int check_seen(const struct activity_verify *v, struct error *e)
{
	if (v->seen.n != v->at.n || memcmp(v->seen.hash, v->at.hash, sizeof(v->at.hash)) == 0)
		return 0;
	return error_set(e, ERROR_BAD_SNAPSHOT, EBADMSG,
		"the log is not as it was written: its record %llu is not that of --head",
		(unsigned long long)v->at.n);
}

static int check(struct activity_verify *v, const json_t *record, struct error *e)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(TEXT_MAX);
	struct activity_link is;

	if (!v->begun && !json_object_get(record, "n")) {
		v->older++;
		return 0;
	}
	v->begun = true;
	if (!take_link(record, &is))
		return bad(record, e, "was inserted: it has no number or hash");
	if (is.n > v->at.n + 1)
		return bad(record, e, "is not the next one: records before it were removed");
	if (is.n <= v->at.n)
		return bad(record, e, "was inserted: its number was there before");
	if (write_value(&b, record, 0) < 0)
		return bad(record, e, "was changed: records have no such members");
	if (!activity_chain_follow(&v->at, (const char *)buf_head(&b), buf_len(&b)))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "SHA-256");
	if (memcmp(v->at.hash, is.hash, sizeof(is.hash)) != 0)
		return bad(record, e, "was changed, or put in place of another");
	v->first = v->first ? v->first : is.n;
	v->records++;
	return check_seen(v, e);
}

/* --- pages --- */

int activity_verify_begin(
	struct activity_verify *v, const char *sandbox_id, const char *head, struct error *e)
{
	char *end = NULL;

	*v = (struct activity_verify){.sandbox_id = sandbox_id};
	activity_chain_begin(sandbox_id, &v->at);
	if (!head)
		return 0;
	v->seen.n = strtoull(head, &end, 10);
	if (v->seen.n && *end == ':' && take_hash(end + 1, v->seen.hash))
		return 0;
	return error_set(e, ERROR_USAGE, EINVAL,
		"--head must be what --verify has printed: a number, a colon and 64 hexadecimal "
		"digits");
}

/* Records that made room before they were read. */
static int take_anchor(struct activity_verify *v, const json_t *answer, struct error *e)
{
	struct activity_link anchor;

	if (!take_link(json_object_get(answer, "anchor"), &anchor) || anchor.n <= v->at.n)
		return 0;
	v->passed += v->begun ? anchor.n - v->at.n : 0;
	v->at = anchor;
	return check_seen(v, e);
}

static int check_head(const struct activity_verify *v, const json_t *answer, struct error *e)
{
	struct activity_link head = {0};

	(void)take_link(json_object_get(answer, "head"), &head); /* or there is none */
	if (v->at.n != head.n)
		return error_set(e, ERROR_BAD_SNAPSHOT, EBADMSG,
			"the log is not as it was written: records after %llu were removed, up to "
			"%llu",
			(unsigned long long)v->at.n, (unsigned long long)head.n);
	if (head.n && memcmp(head.hash, v->at.hash, sizeof(head.hash)) != 0)
		return error_set(e, ERROR_BAD_SNAPSHOT, EBADMSG,
			"the log is not as it was written: its head is not the last record");
	if (!json_is_true(json_object_get(answer, "sealed")))
		return error_set(e, ERROR_BAD_SNAPSHOT, EBADMSG,
			"the log's head is not what the daemon wrote last: records were changed, "
			"inserted or removed, or the daemon's key file is another");
	if (v->seen.n > head.n)
		return error_set(e, ERROR_BAD_SNAPSHOT, EBADMSG,
			"the log ends at record %llu, before that of --head: records were removed",
			(unsigned long long)head.n);
	return 0;
}

int activity_verify_page(struct activity_verify *v, const json_t *answer, struct error *e)
{
	const json_t *list = json_object_get(answer, "activity");
	int r = take_anchor(v, answer, e);

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		r = check(v, json_array_get(list, i), e);
	if (r == 0 && !json_is_true(json_object_get(answer, "more")))
		r = check_head(v, answer, e);
	return r;
}

void activity_verify_head(const struct activity_verify *v, char out[ACTIVITY_HEAD_BYTES])
{
	char hash[2 * ACTIVITY_HASH_BYTES + 1];

	str_hex(v->at.hash, sizeof(v->at.hash), hash);
	(void)snprintf(
		out, ACTIVITY_HEAD_BYTES, "%llu:%s", (unsigned long long)v->at.n, hash); /* fits */
}
