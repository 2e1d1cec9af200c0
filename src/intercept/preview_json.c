/* The preview of a body that is JSON. It is read as a stream. Beside that, a hash is kept of each
 * member's name, to find those that stand twice in an object. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "intercept/preview_internal.h"
#include "intercept/secret_name.h"
#include "proto/json_stream.h"
#include "proto/shown_text.h"
#include "rules/fold.h"

enum { LEVELS = JSON_STREAM_DEPTH_MAX + 2, ROOM_FIRST = 64, NOT_HIDDEN = -1 };

/* Hashes, in places by their value; 0: free. Two names with the same hash are as good as one. */
struct names {
	uint64_t *list; /* owned */
	size_t room, count;
};

struct reader {
	struct json_stream stream;
	struct buf *out;
	const struct intercept *intercept;
	struct preview *preview;
	struct names names;
	uint64_t objects;     /* begun so far */
	uint64_t ids[LEVELS]; /* of the object that has members at this level */
	bool some[LEVELS];    /* something stands at this level already */
	bool key;	      /* a member's name was written, and its value follows */
	bool secret;	      /* likewise, and the value is hidden */
	int level;	      /* of a container that is being hidden, or NOT_HIDDEN */
	size_t hidden;	      /* bytes in it so far */
	int err;
};

/* --- names that stand twice --- */

static uint64_t mix(uint64_t h)
{
	h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
	h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
	return (h ^ (h >> 32)) | 1;
}

static bool enter(uint64_t *list, size_t room, uint64_t hash)
{
	size_t at = (hash >> 1) & (room - 1);

	while (list[at] && list[at] != hash)
		at = (at + 1) & (room - 1);
	if (list[at])
		return false;
	list[at] = hash;
	return true;
}

static int grow(struct names *n)
{
	size_t room = n->room ? 2 * n->room : ROOM_FIRST;
	uint64_t *list = calloc(room, sizeof(list[0]));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n->room; i++)
		if (n->list[i])
			(void)enter(list, room, n->list[i]); /* each is there once */
	free(n->list);
	n->list = list;
	n->room = room;
	return 0;
}

static void note_key(struct reader *r, const struct json_stream_token *t)
{
	uint64_t hash = 14695981039346656037u;
	char name[JSON_STREAM_TEXT_MAX + 5];

	(void)fold_name(t->text, t->n, name, sizeof(name) - 1); /* fits */
	for (const char *c = name; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 1099511628211u;
	if (2 * r->names.count >= r->names.room && grow(&r->names) < 0) {
		r->err = -ENOMEM;
		return;
	}
	if (r->names.count++ >= PREVIEW_MEMBERS_MAX)
		r->preview->wrong = "a person cannot be asked: its body has too many members";
	else if (!enter(r->names.list, r->names.room, mix(hash ^ mix(r->ids[t->depth]))))
		r->preview->wrong = "a person cannot be asked: a member of its body stands twice";
}

/* --- writing --- */

/* Without room nothing more is written. */
static void check(struct reader *r, int result)
{
	if (result == -EMSGSIZE)
		r->preview->cut = true;
	else if (result < 0)
		r->err = result;
}

static bool writes(const struct reader *r)
{
	return r->level == NOT_HIDDEN && !r->preview->cut && !r->err;
}

static void put(struct reader *r, const char *text)
{
	size_t n = strlen(text);

	if (writes(r))
		check(r, buf_len(r->out) + n < r->out->max ? buf_add(r->out, text, n) : -EMSGSIZE);
}

static void put_string(struct reader *r, const struct json_stream_token *t)
{
	put(r, "\"");
	if (writes(r))
		check(r, preview_put(r->out, t->text, t->n,
				 SHOWN_TEXT_QUOTED | PREVIEW_STRICT | (t->cut ? PREVIEW_CUT : 0),
				 r->intercept, r->preview));
	if (writes(r) && t->cut) {
		put(r, "...");
		r->preview->cut = true; /* what follows is not shown either */
	}
	put(r, "\"");
}

static void put_hidden(struct reader *r, size_t n, bool quoted)
{
	r->preview->hidden += n;
	put(r, quoted ? "\"" : "");
	if (writes(r))
		check(r, preview_put_hidden(r->out, n));
	put(r, quoted ? "\"" : "");
}

/* --- reading --- */

static void separate(struct reader *r, unsigned depth)
{
	if (r->some[depth] && !r->key)
		put(r, ", ");
	r->some[depth] = true;
	r->key = false;
}

static void on_key(struct reader *r, const struct json_stream_token *t)
{
	note_key(r, t);
	if (r->level != NOT_HIDDEN) {
		r->hidden += t->n;
		return;
	}
	separate(r, t->depth);
	put_string(r, t);
	put(r, ": ");
	r->key = true;
	r->secret = secret_name_is(t->text, t->n);
	if (r->secret)
		preview_note_name(r->preview, t->text, t->n);
}

static void on_begin(struct reader *r, const struct json_stream_token *t)
{
	bool object = t->kind == JSON_STREAM_OBJECT;

	if (r->level == NOT_HIDDEN)
		separate(r, t->depth);
	r->some[t->depth + 1] = false;
	if (object)
		r->ids[t->depth + 1] = ++r->objects;
	if (r->secret) {
		r->level = (int)t->depth;
		r->hidden = 0;
	}
	r->secret = false;
	put(r, object ? "{" : "[");
}

static void on_end(struct reader *r, const struct json_stream_token *t)
{
	if (r->level == (int)t->depth) {
		r->level = NOT_HIDDEN;
		put_hidden(r, r->hidden, false);
		return;
	}
	put(r, r->stream.objects >> t->depth & 1 ? "}" : "]");
}

static void on_value(struct reader *r, const struct json_stream_token *t)
{
	bool text = t->kind == JSON_STREAM_STRING, number = t->kind == JSON_STREAM_NUMBER;

	if (r->level != NOT_HIDDEN) {
		r->hidden += text || number ? t->n : 0;
		return;
	}
	separate(r, t->depth);
	if (r->secret && (text || number))
		put_hidden(r, t->n, text);
	else if (text)
		put_string(r, t);
	else
		put(r, number			       ? t->text
			: t->kind == JSON_STREAM_TRUE  ? "true"
			: t->kind == JSON_STREAM_FALSE ? "false"
						       : "null");
	r->secret = false;
}

static void on(void *arg, const struct json_stream_token *t)
{
	struct reader *r = arg;

	if (r->err || r->preview->wrong)
		return;
	if (t->kind == JSON_STREAM_KEY || t->kind == JSON_STREAM_STRING ||
		t->kind == JSON_STREAM_NUMBER)
		r->preview->bytes += t->n;
	if (t->kind == JSON_STREAM_KEY)
		on_key(r, t);
	else if (t->kind == JSON_STREAM_OBJECT || t->kind == JSON_STREAM_ARRAY)
		on_begin(r, t);
	else if (t->kind == JSON_STREAM_END)
		on_end(r, t);
	else
		on_value(r, t);
}

int preview_put_json(
	struct buf *out, const void *data, size_t n, const struct intercept *i, struct preview *p)
{
	struct reader r = {.out = out, .intercept = i, .preview = p, .level = NOT_HIDDEN};
	bool good;

	json_stream_begin(&r.stream, on, &r);
	good = json_stream_feed(&r.stream, data, n) && json_stream_end(&r.stream);
	free(r.names.list);
	return r.err ? r.err : good ? 0 : -EINVAL;
}
