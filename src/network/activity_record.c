#include "network/activity_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "proto/json_text.h"
#include "proto/timestamp.h"
#include "store/activity.h"

enum {
	NAMES_MAX = 17, /* of tools: 16, and one that stands for others */
	NAME_MAX = 80
}; /* tokens' names have 64, and what they begin with */

enum type { TEXT, NUMBER, NAMES, WORDS, TRUTH };

/* In the order in which they are shown. max: bytes of a text. */
static const struct member {
	const char *from, *to;
	enum type type;
	unsigned max;
} members[] = {
	{"event", "event", TEXT, 32},
	{"template", "template", TEXT, 64},
	{"snapshot", "snapshot", TEXT, 192},
	{"until", "until", TEXT, 40},
	{"approvalID", "approvalID", TEXT, 32},
	{"state", "state", TEXT, 16},
	{"decidedBy", "decidedBy", TEXT, 300},
	{"for", "for", TEXT, 16},
	{"generation", "generation", NUMBER, 0},
	{"proto", "protocol", TEXT, 16},
	{"direction", "direction", TEXT, 8},
	{"sandbox", "sandbox", TEXT, 32},
	{"name", "name", TEXT, 254},
	{"host", "name", TEXT, 254},
	{"address", "address", TEXT, 45},
	{"port", "port", NUMBER, 0},
	{"method", "method", TEXT, 32},
	{"path", "path", TEXT, 512},
	{"status", "status", NUMBER, 0},
	{"up", "bytesOut", NUMBER, 0},
	{"down", "bytesIn", NUMBER, 0},
	{"verdict", "verdict", TEXT, 16},
	{"rule", "rule", TEXT, 64},
	{"reason", "reason", TEXT, 256},
	{"noted", "noted", TEXT, 96},
	{"budget", "budget", TEXT, 192},
	{"error", "error", TEXT, 32},
	{"secrets", "secrets", NAMES, 0},
	{"api", "api", TEXT, 16},
	{"model", "model", TEXT, 200},
	{"maxTokens", "maxTokens", NUMBER, 0},
	{"tokensIn", "tokensIn", NUMBER, 0},
	{"tokensOut", "tokensOut", NUMBER, 0},
	{"unclear", "unclear", TEXT, 160},
	{"answerCoding", "answerCoding", TEXT, 32},
	{"toolsCalled", "toolsCalled", NAMES, 0},
	{"toolsOffered", "toolsOffered", NAMES, 0},
	{"serverTools", "serverTools", NAMES, 0},
	{"tool", "tool", TEXT, 128},
	{"mcp", "mcp", TEXT, 16},
	{"program", "program", TEXT, 31},
	{"pid", "pid", NUMBER, 0},
	{"parent", "parent", NUMBER, 0},
	{"uid", "uid", NUMBER, 0},
	{"via", "via", TEXT, 16},
	{"argv", "argv", WORDS, 0},
	{"language", "language", TEXT, 32},
	{"code", "code", TEXT, ACTIVITY_TEXT_MAX},
	{"cut", "cut", TRUTH, 0},
	{"user", "user", TEXT, 64},
	{"cwd", "cwd", TEXT, 256},
	{"exitCode", "exitCode", NUMBER, 0},
	{"signal", "signal", NUMBER, 0},
	{"timedOut", "timedOut", TRUTH, 0},
	{"message", "message", TEXT, 256},
};

static int put_text(struct buf *b, const char *key, const json_t *v, unsigned max)
{
	int r;

	if (!json_is_string(v) || json_string_length(v) == 0 || json_string_length(v) > max)
		return 0;
	r = buf_printf(b, ",\"%s\":", key);
	return r ? r
		 : json_text_string(
			   b, json_string_value(v), json_string_length(v), JSON_TEXT_ASCII);
}

static int put_number(struct buf *b, const char *key, const json_t *v)
{
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return 0;
	return buf_printf(b, ",\"%s\":%lld", key, (long long)json_integer_value(v));
}

static int put_names(struct buf *b, const char *key, const json_t *list)
{
	unsigned count = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(list) && count < NAMES_MAX; i++) {
		const json_t *v = json_array_get(list, i);

		if (!json_is_string(v) || json_string_length(v) > NAME_MAX)
			continue;
		r = count++ ? buf_add_str(b, ",") : buf_printf(b, ",\"%s\":[", key);
		r = r ? r
		      : json_text_string(
				b, json_string_value(v), json_string_length(v), JSON_TEXT_ASCII);
	}
	return r || count == 0 ? r : buf_add_str(b, "]");
}

/* All of them: who says them has cut them. */
static int put_words(struct buf *b, const char *key, const json_t *list)
{
	int r = json_array_size(list) ? buf_printf(b, ",\"%s\":[", key) : 0;

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);

		r = i ? buf_add_str(b, ",") : 0;
		r = r ? r
		      : json_text_string(
				b, json_string_value(v), json_string_length(v), JSON_TEXT_ASCII);
	}
	return r || json_array_size(list) == 0 ? r : buf_add_str(b, "]");
}

static int put_member(struct buf *b, const struct member *m, const json_t *v)
{
	switch (m->type) {
	case TEXT:
		return put_text(b, m->to, v, m->max);
	case NUMBER:
		return put_number(b, m->to, v);
	case WORDS:
		return put_words(b, m->to, v);
	case TRUTH:
		return json_is_true(v) ? buf_printf(b, ",\"%s\":true", m->to) : 0;
	default:
		return put_names(b, m->to, v);
	}
}

static uint64_t ms_of(const json_t *said, const char *key, uint64_t max)
{
	const json_t *v = json_object_get(said, key);
	json_int_t ms = json_integer_value(v);

	return json_is_integer(v) && ms >= 0 && (uint64_t)ms <= max ? (uint64_t)ms : max;
}

/* The buffer's text, or NULL. */
static char *finish(struct buf *b, int r)
{
	char *text = r == 0 && buf_add_u8(b, 0) == 0 ? strdup((const char *)buf_head(b)) : NULL;

	buf_done(b);
	return text;
}

/* lists: with lists of names. Without them it has "cut". */
static char *compose(const json_t *said, uint64_t begin_ms, uint64_t end_ms, bool lists)
{
	struct buf b = BUF_INIT(STORE_ACTIVITY_RECORD_MAX + 1);
	char time[TIMESTAMP_BYTES];
	int r = buf_printf(&b, "{\"time\":\"%s\",\"durationMs\":%llu",
		timestamp_format_ns(end_ms * NS_PER_MS, time),
		(unsigned long long)(end_ms - begin_ms));

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(members); i++)
		if (lists || members[i].type != NAMES)
			r = put_member(&b, &members[i], json_object_get(said, members[i].from));
	if (r == 0 && !lists)
		r = buf_add_str(&b, ",\"cut\":true");
	return finish(&b, r ? r : buf_add_str(&b, "}"));
}

char *activity_record(const json_t *said, uint64_t now_ns, uint64_t *ret_at_ns)
{
	uint64_t end_ms = ms_of(said, "end", now_ns / NS_PER_MS),
		 begin_ms = ms_of(said, "begin", end_ms);
	char *text;

	if (!json_is_object(said))
		return NULL;
	*ret_at_ns = end_ms * NS_PER_MS;
	text = compose(said, begin_ms, end_ms, true);
	/* whoever sends many long names hides nothing else */
	return text ? text : compose(said, begin_ms, end_ms, false);
}

char *activity_record_lost(uint64_t count, uint64_t at_ns)
{
	char time[TIMESTAMP_BYTES];

	return str_printf("{\"time\":\"%s\",\"count\":%llu}", timestamp_format_ns(at_ns, time),
		(unsigned long long)count);
}
