#include "envd/envd_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "envd/envd_message.h"
#include "proto/proto_json.h"

enum { INPUT_PAUSE = 256 * 1024 }; /* waiting bytes of a stream at which its body is paused */

/* Sends bytes in pieces, each after the agent's OK to the previous one. So only one piece waits in
 * the agent, and the order is kept. */
struct input {
	char *tag;
	struct agent_selector process;
	uint32_t flags;
	struct buf data;
	struct budget_hold hold; /* for data */
	bool known;		 /* process is set */
	bool tried;		 /* the agent was asked, so it knows the process */
	bool asked;		 /* one piece is being sent */
	bool ended;		 /* data will get no more bytes */
	bool streamed;
	struct connect_decoder decoder; /* for a stream */
};

static void input_done(struct envd_call *c)
{
	struct input *in = c->state;

	if (!in)
		return;
	connect_decoder_done(&in->decoder);
	buf_done(&in->data);
	budget_release(&in->hold);
	free(in->tag);
	free(in);
}

static struct input *input_new(struct envd_call *c, struct envd_error *e)
{
	struct input *in = calloc(1, sizeof(*in));

	c->state = in;
	if (!in) {
		(void)envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
		return NULL;
	}
	buf_init(&in->data, CONNECT_MESSAGE_DEFAULT + INPUT_PAUSE);
	connect_decoder_init(&in->decoder, 0, false);
	request_hold(c->r, &in->hold);
	return in;
}

static int set_process(struct input *in, const json_t *o, struct envd_error *e)
{
	int r = envd_selector_parse(o, &in->process, e);

	if (r < 0)
		return r;
	free(in->tag);
	in->tag = strdup(in->process.tag);
	in->process.tag = in->tag;
	in->known = true;
	return in->tag ? 0
		       : envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
}

static void answer(struct envd_call *c, const struct input *in)
{
	if (!in->streamed)
		envd_rpc_reply_text(c, "{}");
	else if (envd_rpc_wrote(c, connect_envelope(&c->out, 0, "{}", 2)))
		envd_rpc_end(c);
}

/* Counts the waiting bytes. Returns -errno if the budget has no room. */
static int hold(struct input *in, struct envd_error *e)
{
	if (budget_set(&in->hold, buf_len(&in->data)))
		return 0;
	return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "%s", BUDGET_REFUSAL);
}

/* Sends the next piece, or answers if none will follow. A client that sends no bytes still wants to
 * know whether the process exists: the agent is asked once. */
static int pump(struct envd_call *c, struct envd_error *e)
{
	struct input *in = c->state;
	size_t n = buf_len(&in->data);
	struct agent_input m = {.process = in->process,
		.flags = in->flags,
		.data = n ? buf_head(&in->data) : NULL,
		.data_bytes = n < AGENT_PAYLOAD_MAX ? (uint32_t)n : AGENT_PAYLOAD_MAX};
	int r;

	if (in->asked)
		return 0;
	if (!n && (!in->ended || in->tried)) {
		if (in->ended)
			answer(c, in);
		return 0;
	}
	r = envd_call_ask(c, AGENT_INPUT, &m, e);
	if (r < 0)
		return r;
	in->asked = in->tried = true;
	buf_consume(&in->data, m.data_bytes);
	budget_force(&in->hold, buf_len(&in->data));
	if (in->streamed && buf_len(&in->data) < INPUT_PAUSE)
		request_resume(c->r);
	return 0;
}

static void on_event(struct envd_call *c, const struct agent_event *ev)
{
	struct input *in = c->state;
	struct envd_error e;

	if (ev->type != AGENT_OK) {
		(void)envd_rpc_wrote(c, -EBADMSG);
		return;
	}
	in->asked = false;
	if (pump(c, &e) < 0)
		envd_rpc_fail(c, &e);
}

int envd_input_begin(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct input *in = input_new(c, e);
	int r = in ? set_process(in, o, e) : -ENOMEM;

	if (r == 0)
		r = envd_input_parse(o, &in->data, &in->flags, e);
	if (r == 0)
		r = hold(in, e);
	if (r < 0)
		return r;
	in->ended = true;
	return pump(c, e);
}

/* --- StreamInput --- */

static int check_known(const struct input *in, struct envd_error *e)
{
	if (in->known)
		return 0;
	return envd_fail(e, CONNECT_INVALID_ARGUMENT, "the first message of the stream is start");
}

static int take_data(struct envd_call *c, const json_t *data, struct envd_error *e)
{
	struct input *in = c->state;
	uint32_t flags;
	int r = check_known(in, e);

	if (r < 0)
		return r;
	r = envd_input_parse(data, &in->data, &flags, e);
	if (r == 0)
		r = hold(in, e);
	if (r < 0)
		return r;
	if (in->flags && in->flags != flags)
		return envd_fail(e, CONNECT_INVALID_ARGUMENT,
			"a stream goes to standard input or to a terminal, not to both");
	in->flags = flags;
	if (buf_len(&in->data) >= INPUT_PAUSE)
		request_pause(c->r);
	return pump(c, e);
}

static int take_message(struct envd_call *c, const uint8_t *p, size_t n, struct envd_error *e)
{
	const char *reason;
	json_t *o = proto_json_parse(p, n, &reason), *start = NULL, *data = NULL;
	int r = 0;

	if (!o)
		return envd_fail(e, CONNECT_INVALID_ARGUMENT, "%s", reason);
	if (proto_json_object(o, "start", &start) < 0 || proto_json_object(o, "data", &data) < 0)
		r = envd_fail(e, CONNECT_INVALID_ARGUMENT, "start or data has the wrong type");
	if (r == 0 && start)
		r = set_process(c->state, start, e);
	if (r == 0 && data)
		r = take_data(c, data, e);
	json_decref(o);
	return r;
}

static void on_body(struct envd_call *c, const uint8_t *data, size_t n)
{
	struct input *in = c->state;
	struct envd_error e;
	int r = 0;

	for (size_t pos = 0, used; r == 0 && !c->over;) {
		enum connect_event event =
			connect_decoder_next(&in->decoder, data + pos, n - pos, &used);
		const uint8_t *message;
		size_t length;

		pos += used;
		if (event == CONNECT_EVENT_MORE)
			return;
		if (event == CONNECT_EVENT_ERROR) {
			r = envd_fail(&e, in->decoder.error, "%s", in->decoder.reason);
			break;
		}
		message = connect_decoder_message(&in->decoder, &length);
		r = take_message(c, message, length, &e);
	}
	if (r < 0 && !c->over)
		envd_rpc_fail(c, &e);
}

static void on_body_end(struct envd_call *c)
{
	struct input *in = c->state;
	struct envd_error e;
	int r = 0;

	in->ended = true;
	if (!connect_decoder_at_boundary(&in->decoder))
		r = envd_fail(&e, CONNECT_INVALID_ARGUMENT, "the stream is cut off");
	if (r == 0)
		r = check_known(in, &e);
	if (r == 0)
		r = pump(c, &e);
	if (r < 0)
		envd_rpc_fail(c, &e);
}

void envd_stream_input_open(struct envd_call *c)
{
	struct envd_error e;
	struct input *in = input_new(c, &e);

	if (!in) {
		envd_rpc_fail(c, &e);
		return;
	}
	in->streamed = true;
	request_resume(c->r);
}

const struct envd_ops envd_input_ops = {
	.fail = envd_rpc_fail, .event = on_event, .done = input_done};
const struct envd_ops envd_stream_input_ops = {.fail = envd_rpc_fail,
	.event = on_event,
	.body = on_body,
	.body_end = on_body_end,
	.done = input_done};
