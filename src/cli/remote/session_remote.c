#include "cli/remote/session_remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/remote/aside.h"
#include "cli/remote/client_error.h"
#include "cli/remote/sink.h"
#include "cli/terminal.h"
#include "proto/base64.h"
#include "proto/connect.h"
#include "proto/proto_json.h"

enum { FD_MAIN, FD_INPUT, FD_CALLS, END_OF_TEXT = 4 /* ^D */ };

/* How far standard input is:
 *
 *	NONE     nothing was sent
 *	OPEN     the stream of input is open
 *	ENDING   it was ended; its answer says that the command has taken everything
 *	CLOSED   nothing more is sent
 */
enum input_state { INPUT_NONE, INPUT_OPEN, INPUT_ENDING, INPUT_CLOSED };

struct session_remote {
	const struct remote *remote;
	bool tty;
	struct client *main, *input;
	struct aside aside;
	struct connect_decoder decoder; /* of main's answer */
	const uint8_t *piece;		/* of it, not yet decoded */
	size_t piece_bytes;
	struct buf data; /* of the last event */
	struct buf message;
	enum input_state input_state;
	uint32_t pid;
};

/* --- what is said in between --- */

/* What fails here shows in the command's own stream, or is of no use to a command that has ended.
 */
static void say_rpc(struct session_remote *s, const char *method, json_t *body)
{
	const struct client_request request = remote_request(s->remote, "POST", method);

	aside_say(&s->aside, &request, body);
}

/* --- input --- */

static int send_message(struct session_remote *s)
{
	uint8_t head[CONNECT_ENVELOPE_BYTES] = {0};
	size_t n = buf_len(&s->message);
	struct buf envelope = BUF_INIT(n + sizeof(head));
	int r = connect_envelope(&envelope, 0, buf_head(&s->message), n);

	if (r == 0)
		r = client_send(s->input, buf_head(&envelope), buf_len(&envelope), NULL);
	buf_done(&envelope);
	buf_clear(&s->message);
	return r;
}

static int begin_input(struct session_remote *s)
{
	struct client_request request =
		remote_request(s->remote, "POST", "/process.Process/StreamInput");
	int r = client_try(&s->remote->home, &s->input, NULL);

	request.content_type = CONNECT_TYPE_STREAM;
	request.length = CLIENT_CHUNKED;
	if (r == 0)
		r = client_begin(s->input, &request, NULL);
	if (r == 0)
		r = buf_printf(&s->message, "{\"start\":{\"process\":{\"pid\":%u}}}", s->pid);
	if (r == 0)
		r = send_message(s);
	s->input_state = INPUT_OPEN;
	return r;
}

static int send_data(struct session_remote *s, const void *data, size_t n)
{
	size_t encoded = base64_encoded_len(n);
	int r = buf_printf(
		&s->message, "{\"data\":{\"input\":{\"%s\":\"", s->tty ? "pty" : "stdin");
	uint8_t *at = r == 0 ? buf_reserve(&s->message, encoded) : NULL;

	if (!at)
		return -ENOMEM;
	base64_encode((char *)at, data, n);
	buf_commit(&s->message, encoded);
	r = buf_add_str(&s->message, "\"}}}");
	return r == 0 ? send_message(s) : r;
}

static bool send_input(void *peer, const void *data, size_t n)
{
	struct session_remote *s = peer;
	int r = s->input_state == INPUT_NONE ? begin_input(s) : 0;

	if (r == 0 && s->input_state == INPUT_OPEN)
		r = send_data(s, data, n);
	return r == 0 && s->input_state == INPUT_OPEN;
}

static void close_input(struct session_remote *s)
{
	s->input_state = INPUT_CLOSED;
	client_close(s->input);
	s->input = NULL;
	if (!s->tty && s->pid)
		say_rpc(s, "/process.Process/CloseStdin",
			json_pack("{s:o}", "process", remote_process(s->pid)));
}

static void end_input(void *peer)
{
	static const char end = END_OF_TEXT;
	struct session_remote *s = peer;

	if (s->tty) /* a terminal has no other end */
		(void)send_input(s, &end, 1);
	if (s->input_state == INPUT_OPEN && client_end(s->input, NULL) == 0)
		s->input_state = INPUT_ENDING;
	else
		close_input(s);
}

/* An answer before we have ended: the command takes no more. One behind: it has taken all. */
static void listen_to_input(struct session_remote *s)
{
	enum client_event ev = CLIENT_HEAD;

	while (s->input && ev != CLIENT_WAIT)
		if (client_next(s->input, &ev, NULL) < 0 || ev == CLIENT_END)
			close_input(s);
}

static size_t input_room(void *peer)
{
	struct session_remote *s = peer;

	if (!s->pid || s->input_state == INPUT_CLOSED)
		return 0;
	if (!s->input)
		return SESSION_INPUT_MAX;
	return client_room(s->input) > 2 * SESSION_INPUT_MAX ? SESSION_INPUT_MAX : 0;
}

/* --- signals and sizes --- */

static void send_signal(void *peer, int signo)
{
	struct session_remote *s = peer;

	say_rpc(s, "/process.Process/SendSignal",
		json_pack("{s:o, s:s}", "process", remote_process(s->pid), "signal",
			remote_signal_name(signo)));
}

static json_t *size_json(unsigned cols, unsigned rows)
{
	return json_pack("{s:{s:i, s:i}}", "size", "cols", (int)cols, "rows", (int)rows);
}

static void send_size(void *peer, unsigned cols, unsigned rows)
{
	struct session_remote *s = peer;

	if (s->pid)
		say_rpc(s, "/process.Process/Update",
			json_pack("{s:o, s:o}", "process", remote_process(s->pid), "pty",
				size_json(cols, rows)));
}

/* --- output --- */

static int broken(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, EBADMSG, "the daemon's answer is broken");
}

static int take_data(struct session_remote *s, const json_t *data, struct session_event *ret)
{
	static const struct {
		const char *name;
		enum session_event_type type;
	} channels[] = {{"stdout", SESSION_OUT}, {"stderr", SESSION_ERR}, {"pty", SESSION_OUT}};

	for (size_t i = 0; i < ARRAY_SIZE(channels); i++) {
		buf_clear(&s->data);
		if (proto_json_bytes(data, channels[i].name, &s->data) <= 0)
			continue;
		ret->type = channels[i].type;
		ret->data = buf_head(&s->data);
		ret->length = buf_len(&s->data);
		return 1;
	}
	return 1;
}

static int take_exit(const json_t *end, struct session_event *ret)
{
	const char *status = json_string_value(json_object_get(end, "status"));
	int signo = status ? connect_process_signal(status) : 0;

	ret->type = SESSION_EXIT;
	ret->status = signo ? 128 + signo
			    : (int)json_integer_value(json_object_get(end, "exitCode")) & 0xff;
	return 1;
}

static int take_event(
	struct session_remote *s, const json_t *event, struct session_event *ret, struct error *e)
{
	const json_t *start = json_object_get(event, "start"), *end = json_object_get(event, "end");
	json_int_t pid;

	*ret = (struct session_event){.type = SESSION_OTHER};
	if (end)
		return take_exit(end, ret);
	if (!start)
		return take_data(s, json_object_get(event, "data"), ret);
	pid = json_integer_value(json_object_get(start, "pid"));
	if (pid <= 0 || pid > UINT32_MAX)
		return broken(e);
	s->pid = (uint32_t)pid;
	ret->type = SESSION_STARTED;
	return 1;
}

/* A message of the stream, or its end. */
static int take_message(
	struct session_remote *s, bool last, struct session_event *ret, struct error *e)
{
	size_t n;
	const uint8_t *data = connect_decoder_message(&s->decoder, &n);
	json_t *o = json_loadb((const char *)data, n, 0, NULL);
	int r;

	if (!o)
		return broken(e);
	if (!last)
		r = take_event(s, json_object_get(o, "event"), ret, e);
	else
		r = client_stream_error(client_head(s->main), json_object_get(o, "error"), e);
	json_decref(o);
	/* the command's end comes before the stream's */
	return last && r == 0 ? broken(e) : r;
}

/* 1: *ret; 0: more bytes are needed. */
static int decode(struct session_remote *s, struct session_event *ret, struct error *e)
{
	size_t used = 0;
	enum connect_event ev = connect_decoder_next(&s->decoder, s->piece, s->piece_bytes, &used);

	s->piece += used;
	s->piece_bytes -= used;
	switch (ev) {
	case CONNECT_EVENT_MESSAGE:
	case CONNECT_EVENT_END:
		return take_message(s, ev == CONNECT_EVENT_END, ret, e);
	case CONNECT_EVENT_ERROR:
		return broken(e);
	default:
		return 0;
	}
}

/* 1: bytes came; 0: not now. */
static int receive(struct session_remote *s, struct error *e)
{
	enum client_event ev;
	int r;

	while ((r = client_next(s->main, &ev, e)) == 0) {
		if (ev == CLIENT_WAIT)
			return 0;
		if (ev == CLIENT_HEAD && client_head(s->main)->status != 200)
			return client_refusal(s->main, e);
		if (ev == CLIENT_END)
			return broken(e);
		if (ev != CLIENT_BODY)
			continue;
		s->piece = client_body(s->main, &s->piece_bytes);
		return 1;
	}
	return r;
}

static void listen_to_rest(struct session_remote *s)
{
	listen_to_input(s);
	aside_step(&s->aside);
}

static int next(void *peer, struct session_event *ret, struct error *e)
{
	struct session_remote *s = peer;
	int r;

	listen_to_rest(s);
	do {
		r = decode(s, ret, e);
		if (r == 0) {
			r = receive(s, e);
			if (r <= 0)
				return r;
			r = 0;
		}
	} while (r == 0);
	return r;
}

static int check(void *peer, struct error *e)
{
	listen_to_rest(peer);
	return 0;
}

static void poll_fds(void *peer, bool hold, struct pollfd fds[SESSION_PEER_FDS])
{
	struct session_remote *s = peer;

	fds[FD_MAIN] = client_poll(s->main, hold);
	if (s->input)
		fds[FD_INPUT] = client_poll(s->input, false);
	fds[FD_CALLS] = aside_poll(&s->aside);
}

static uint64_t deadline_ns(void *peer)
{
	return ((struct session_remote *)peer)->aside.renew_ns;
}

const struct session_peer_ops session_remote_ops = {next, check, poll_fds, deadline_ns, input_room,
	send_input, end_input, send_signal, send_size};

/* --- starting --- */

static json_t *start_json(const struct session_remote_options *o)
{
	json_t *args = json_array(), *root, *process;
	unsigned short cols, rows;

	for (int i = 1; i < o->argc; i++)
		if (json_array_append_new(args, json_string(o->argv[i])) < 0) {
			json_decref(args);
			return NULL;
		}
	process = json_pack("{s:s, s:o, s:O*, s:s*}", "cmd", o->argv[0], "args", args, "envs",
		o->env, "cwd", o->workdir);
	root = json_pack("{s:o, s:b}", "process", process, "stdin", !o->no_input && !o->tty);
	if (root && o->tty) {
		terminal_size(&cols, &rows);
		(void)json_object_set_new(root, "pty", size_json(cols, rows)); /* else 80 x 24 */
	}
	return root;
}

static int send_start(struct session_remote *s, json_t *body, struct error *e)
{
	_cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	_cleanup_(buf_done) struct buf envelope = BUF_INIT(CONNECT_MESSAGE_HARD_MAX);
	struct client_request request = remote_request(s->remote, "POST", "/process.Process/Start");
	int r;

	if (!text)
		return error_set(e, ERROR_USAGE, EINVAL,
			"an argument or variable is not UTF-8, which the daemon's protocol needs");
	r = connect_envelope(&envelope, 0, text, strlen(text));
	if (r < 0)
		return error_set_errno(e, ERROR_LIMIT, -r, "the command line is too long");
	request.content_type = CONNECT_TYPE_STREAM;
	request.length = (int64_t)buf_len(&envelope);
	r = client_begin(s->main, &request, e);
	if (r == 0)
		r = client_send(s->main, buf_head(&envelope), buf_len(&envelope), e);
	return r == 0 ? client_end(s->main, e) : r;
}

int session_remote_open(
	const struct session_remote_options *o, struct session_remote **ret, struct error *e)
{
	struct session_remote *s = calloc(1, sizeof(*s));
	json_t *body;
	int r;

	if (!s)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	s->remote = o->remote;
	s->tty = o->tty;
	s->input_state = o->no_input ? INPUT_CLOSED : INPUT_NONE;
	s->aside = aside_init(o->remote, o->lease ? REMOTE_LEASE_S : 0);
	s->piece = (const uint8_t *)"";
	connect_decoder_init(&s->decoder, 0, true);
	buf_init(&s->data, SINK_MAX);
	buf_init(&s->message, 4 * SESSION_INPUT_MAX);
	body = start_json(o);
	r = client_open(&o->remote->home, &s->main, e);
	if (r == 0)
		r = send_start(s, body, e);
	json_decref(body);
	if (r == 0)
		*ret = s;
	else
		session_remote_close(s);
	return r;
}

void session_remote_close(struct session_remote *s)
{
	if (!s)
		return;
	client_close(s->main);
	client_close(s->input);
	aside_close(&s->aside);
	connect_decoder_done(&s->decoder);
	buf_done(&s->data);
	buf_done(&s->message);
	free(s);
}

uint32_t session_remote_pid(const struct session_remote *s)
{
	return s->pid;
}

int session_remote_wait_started(struct session_remote *s, struct error *e)
{
	while (!s->pid) {
		struct session_event ev;
		int r = next(s, &ev, e);

		if (r == 0)
			r = client_wait(s->main, CLIENT_PATIENCE_S, e);
		if (r < 0)
			return r;
	}
	return 0;
}
