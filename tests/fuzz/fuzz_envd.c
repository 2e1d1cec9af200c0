/* A client's JSON as requests to envd: whatever is accepted can be sent to an agent, whatever is
 * not says why. */
#include "fuzz.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>

#include "envd/envd_message.h"
#include "proto/proto_json.h"

enum { OUT_MAX = 4 << 20 };

static void send(enum agent_type type, const void *message)
{
	struct buf b = BUF_INIT(OUT_MAX);
	int r = agent_encode(&b, type, message);

	/* The agent's limits are told by agent_request(). */
	check(r == 0 || r == -E2BIG);
	buf_done(&b);
}

static void refused(const struct envd_error *e)
{
	check(e->code != CONNECT_OK && e->status >= 400 && e->message[0]);
}

static void try_start(const json_t *o)
{
	struct envd_error e = {0};
	struct envd_start s;

	if (envd_start_parse(o, "user", 1000, &s, &e) < 0) {
		refused(&e);
		return;
	}
	check(s.exec.argv.count > 0 && s.exec.timeout_ms == 1000);
	send(AGENT_EXEC, &s.exec);
	envd_start_done(&s);
}

static void try_process(const json_t *o)
{
	struct buf data = BUF_INIT(OUT_MAX);
	struct agent_resize_process resize = {0};
	struct agent_signal_process sig = {0};
	struct agent_input input = {0};
	struct envd_error e = {0};

	if (envd_selector_parse(o, &sig.process, &e) < 0) {
		refused(&e);
		sig.process = (struct agent_selector){.pid = 1, .tag = ""};
	}
	input.process = resize.process = sig.process;
	if (envd_signal_parse(o, &sig.signo, &e) == 0)
		send(AGENT_SIGNAL_PROCESS, &sig);
	else
		refused(&e);
	if (envd_pty_parse(o, &resize.cols, &resize.rows, &e) == 1)
		send(AGENT_RESIZE_PROCESS, &resize);
	if (envd_input_parse(o, &data, &input.flags, &e) == 0) {
		input.data = buf_len(&data) ? buf_head(&data) : NULL;
		input.data_bytes = (uint32_t)buf_len(&data);
		check(input.flags == AGENT_INPUT_STDIN || input.flags == AGENT_INPUT_PTY);
		send(AGENT_INPUT, &input);
	} else {
		refused(&e);
	}
	buf_done(&data);
}

static void try_files(const json_t *o)
{
	struct agent_list list = {.user = ""};
	struct agent_watch watch;
	struct envd_error e = {0};

	if (envd_path_parse(o, "path", &list.path, &e) == 0 &&
		envd_depth_parse(o, &list.depth, &e) == 0) {
		check(list.depth >= 1 && list.depth <= AGENT_LIST_DEPTH_MAX);
		send(AGENT_LIST, &list);
	} else {
		refused(&e);
	}
	if (envd_watch_parse(o, &watch, &e) == 0)
		send(AGENT_WATCH, &watch);
	else
		refused(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *reason = NULL;
	json_t *o = proto_json_parse(data, size, &reason);

	if (!o) {
		check(reason && reason[0]);
		return 0;
	}
	try_start(o);
	try_process(o);
	try_files(o);
	json_decref(o);
	return 0;
}
