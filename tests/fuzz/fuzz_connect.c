/* Connect envelopes, fed whole and in pieces; their payloads as proto3 JSON with everything that
 * reads strings out of it; and encoders whose output must come back. */
#include "fuzz.h"

#include "proto/base64.h"
#include "proto/connect.h"
#include "proto/json_text.h"
#include "proto/proto_json.h"
#include "proto/timestamp.h"

static void use_json(const uint8_t *data, size_t n)
{
	static const struct proto_json_enum signals[] = {{"SIGNAL_SIGKILL", 9}, {NULL, 0}};
	struct buf b = BUF_INIT(1 << 20);
	const char *reason = NULL, *s;
	json_t *j = proto_json_parse(data, n, &reason);
	struct timestamp t, again;
	char text[TIMESTAMP_BYTES];
	int64_t i;
	uint32_t u;
	int e;

	if (!j) {
		check(reason != NULL);
		return;
	}
	if (proto_json_string(j, "string", &s) > 0)
		check(json_text_is_utf8(s, strlen(s)));
	(void)proto_json_i64(j, "number", &i);
	(void)proto_json_u32(j, "number", &u);
	(void)proto_json_bytes(j, "someBytes", &b);
	(void)proto_json_enum(j, "signal", signals, &e);
	if (proto_json_string(j, "time", &s) > 0 && timestamp_parse(s, &t) == 0) {
		check(timestamp_parse(timestamp_format(t, text), &again) == 0);
		check(again.s == t.s && again.ns == t.ns);
	}
	buf_clear(&b);
	check(proto_json_dump(j, &b) == 0);
	json_decref(j);
	buf_done(&b);
}

/* Any bytes as text must give JSON, as data must come back from base64. */
static void use_bytes(const uint8_t *data, size_t n)
{
	struct buf b = BUF_INIT(1 << 20), back = BUF_INIT(1 << 20);
	char *text = malloc(base64_encoded_len(n) + 1);
	json_t *j;

	for (unsigned mode = 0; mode < 2; mode++) {
		buf_clear(&b);
		check(json_text_string(&b, (const char *)data, n, mode) == 0);
		j = json_loadb((const char *)buf_head(&b), buf_len(&b),
			JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		check(j != NULL);
		check(!json_text_is_utf8((const char *)data, n) ||
			(json_string_length(j) == n && !memcmp(json_string_value(j), data, n)));
		json_decref(j);
	}
	base64_encode(text, data, n);
	check(base64_decode_to(&back, text, base64_encoded_len(n)) == 0);
	check(buf_len(&back) == n && (!n || memcmp(buf_head(&back), data, n) == 0));
	buf_clear(&back);
	if (base64_decode_to(&back, (const char *)data, n) == 0)
		check(buf_len(&back) <= n);
	free(text);
	buf_done(&back);
	buf_done(&b);
}

static bool feed(
	struct connect_decoder *d, const uint8_t *data, size_t n, struct buf *story, bool use)
{
	enum connect_event event;
	size_t used, len;
	const uint8_t *message;

	while ((event = connect_decoder_next(d, data, n, &used)) != CONNECT_EVENT_MORE) {
		check(used <= n);
		if (event == CONNECT_EVENT_ERROR) {
			check(d->error != CONNECT_OK && d->reason);
			(void)buf_printf(story, "<error %s>", d->reason);
			return false;
		}
		data += used;
		n -= used;
		message = connect_decoder_message(d, &len);
		(void)buf_printf(story, "<%d %zu>", event, len);
		(void)buf_add(story, message, len);
		if (use)
			use_json(message, len);
	}
	check(used == n);
	return true;
}

static void run(const uint8_t *data, size_t size, size_t piece, bool response, struct buf *story)
{
	struct connect_decoder d;
	bool alive = true;

	connect_decoder_init(&d, 4096, response);
	for (size_t at = 0; at < size && alive; at += piece)
		alive = feed(&d, data + at, size - at < piece ? size - at : piece, story,
			piece == SIZE_MAX / 2);
	(void)buf_printf(story, "<eof %d>", connect_decoder_at_boundary(&d));
	connect_decoder_done(&d);
}

static void use_user(const uint8_t *data, size_t n)
{
	char user[CONNECT_USER_MAX + 1], *text = calloc(1, n + 1);

	for (size_t i = 0; i < n; i++)
		text[i] = (char)data[i];
	if (connect_basic_user(text, user) > 0)
		check(strlen(user) > 0);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = BUF_INIT(1 << 20), pieces = BUF_INIT(1 << 20);

	if (size < 1)
		return 0;
	run(data + 1, size - 1, SIZE_MAX / 2, data[0] & 1, &whole);
	run(data + 1, size - 1, 1 + (data[0] >> 1) % 16, data[0] & 1, &pieces);
	check(same(&whole, &pieces));
	use_json(data + 1, size - 1);
	use_bytes(data + 1, size - 1);
	use_user(data + 1, size - 1);
	buf_done(&whole);
	buf_done(&pieces);
	return 0;
}
