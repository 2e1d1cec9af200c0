/* What a hostile guest's agent says, up to what a client gets to read of it: events of a connection
 * (agent_client.h) turned into JSON and envelopes, which must be well-formed whatever was said.
 *
 * The first byte chooses the request that is answered, the second the size of the pieces; then come
 * frames, in a short form so that mutations keep their shape: type, flags, length (2 bytes), bytes.
 */
#include "fuzz.h"

#include <errno.h>
#include <jansson.h>

#include "base/reader.h"
#include "envd/envd_entry.h"
#include "envd/envd_message.h"
#include "proto/connect.h"
#include "proto/proto_json.h"

enum { OUT_MAX = 16 << 20 };

static void check_json(const struct buf *b)
{
	json_t *o = json_loadb((const char *)buf_head(b), buf_len(b), JSON_DECODE_ANY, NULL);

	check(json_is_object(o));
	json_decref(o);
}

static void check_envelopes(const struct buf *b)
{
	const uint8_t *data = buf_len(b) ? buf_head(b) : NULL, *message;
	size_t n = buf_len(b), used, len;
	struct connect_decoder d;
	enum connect_event event;

	connect_decoder_init(&d, CONNECT_MESSAGE_HARD_MAX, true);
	while ((event = connect_decoder_next(&d, data, n, &used)) == CONNECT_EVENT_MESSAGE) {
		const char *reason;
		json_t *o;

		data += used;
		n -= used;
		message = connect_decoder_message(&d, &len);
		o = proto_json_parse(message, len, &reason);
		check(o);
		json_decref(o);
	}
	check(event == CONNECT_EVENT_MORE && connect_decoder_at_boundary(&d));
	connect_decoder_done(&d);
}

static void check_error(const struct agent_event *ev)
{
	struct buf b = BUF_INIT(OUT_MAX);
	struct envd_error e = {0};
	struct error plain = {0};

	check(agent_event_error(ev, &plain) < 0 && plain.code != ERROR_NONE);
	envd_error_of_agent(&ev->error, &e);
	check(e.code != CONNECT_OK && e.status >= 400);
	check(envd_error_body(&b, &e) == 0);
	check_json(&b);
	buf_clear(&b);
	check(connect_unary_error(&b, e.code, e.message) == 0);
	check_json(&b);
	buf_done(&b);
}

/* One event as it would go out to a client. */
static void tell(const struct agent_event *ev)
{
	struct buf b = BUF_INIT(OUT_MAX);
	int r = 0;

	switch (ev->type) {
	case AGENT_STDOUT:
	case AGENT_STDERR:
	case AGENT_PTY:
	case AGENT_EXIT:
		check(envd_process_output(&b, ev) == 0);
		check_envelopes(&b);
		break;
	case AGENT_PROCESS:
		r = envd_process_write(&b, &ev->process);
		check(r == 0 || r == -EBADMSG);
		if (r == 0)
			check_json(&b);
		break;
	case AGENT_ENTRY:
		check(envd_entry_write(&b, &ev->entry) == 0);
		check_json(&b);
		break;
	case AGENT_WATCH_EVENT:
		r = envd_watch_write(&b, &ev->watch);
		check(r == 1 || r == 0 || r == -EBADMSG);
		if (r == 1)
			check_json(&b);
		break;
	case AGENT_ERROR:
		check_error(ev);
		break;
	default:
		break;
	}
	buf_done(&b);
}

static int take_events(struct agent_conn *c)
{
	struct agent_event ev;
	struct error e = {0};
	int r;

	while ((r = agent_next_event(c, &ev, &e)) == 1)
		tell(&ev);
	check(r == 0 || e.code != ERROR_NONE);
	return r;
}

/* The request that the rest answers. */
static int ask(struct agent_conn *c, uint8_t which)
{
	static const char *const argv[] = {"cat"};
	static const struct agent_exec exec = {
		.flags = AGENT_EXEC_STDIN, .argv = {.array = argv, .count = 1}};
	static const struct agent_exec pty = {
		.flags = AGENT_EXEC_PTY, .argv = {.array = argv, .count = 1}};
	static const struct agent_list list = {.depth = 1, .path = "/"};
	static const struct agent_read read_all = {.length = UINT64_MAX, .path = "/f"};
	static const struct agent_stat stat_one = {.path = "/f"};
	static const struct agent_watch watch = {.path = "/"};
	static const struct agent_write write_one = {.path = "/f"};
	static const struct agent_hello hello = {1, 1};

	switch (which % 11) {
	case 0:
		return agent_exec_start(c, &exec, NULL);
	case 1:
		return agent_exec_start(c, &pty, NULL);
	case 2:
		return agent_request(c, AGENT_LIST_PROCESSES, NULL, NULL);
	case 3:
		return agent_request(c, AGENT_LIST, &list, NULL);
	case 4:
		return agent_request(c, AGENT_READ, &read_all, NULL);
	case 5:
		return agent_request(c, AGENT_STAT, &stat_one, NULL);
	case 6:
		return agent_request(c, AGENT_WATCH, &watch, NULL);
	case 7:
		return agent_request(c, AGENT_WRITE, &write_one, NULL);
	case 8:
		return agent_request(c, AGENT_HELLO, &hello, NULL);
	case 9:
		return agent_request(c, AGENT_GET_METRICS, NULL, NULL);
	default:
		return agent_request(c, AGENT_SYNC, &(struct agent_sync){0}, NULL);
	}
}

static void unfold(struct reader *in, struct buf *out)
{
	while (reader_left(in) >= 4) {
		uint8_t header[AGENT_HEADER_BYTES], type = reader_u8(in), flags = reader_u8(in);
		uint16_t n = reader_le16(in);

		if (n > reader_left(in))
			n = (uint16_t)reader_left(in);
		agent_header_encode(header, type, flags, n);
		check(buf_add(out, header, sizeof(header)) == 0);
		check(!n || buf_add(out, reader_bytes(in, n), n) == 0);
	}
}

static void converse(struct agent_conn *c, const struct buf *said, size_t piece)
{
	size_t n = buf_len(said);
	const uint8_t *data = n ? buf_head(said) : NULL;

	for (size_t at = 0; at < n; at += piece) {
		check(agent_feed(c, data + at, n - at < piece ? n - at : piece) == 0);
		if (take_events(c) < 0)
			return;
	}
	agent_feed_eof(c);
	check(take_events(c) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader in = reader_of(data, size);
	uint8_t which = reader_u8(&in), piece = reader_u8(&in);
	struct buf said = BUF_INIT(OUT_MAX);
	struct agent_conn *c;

	if (size < 2 || agent_open(-1, 0, &c, NULL) < 0)
		return 0;
	check(ask(c, which) == 0);
	unfold(&in, &said);
	converse(c, &said, piece < 200 ? (size_t)piece + 1 : 60000);
	agent_close(c);
	buf_done(&said);
	return 0;
}
