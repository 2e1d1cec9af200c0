/* Writes what connect.h declares: envelopes, errors, and the most frequent messages. */
#include "proto/connect.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "proto/base64.h"
#include "proto/json_text.h"

static void put_header(uint8_t *p, uint8_t flags, size_t n)
{
	p[0] = flags;
	p[1] = (uint8_t)(n >> 24);
	p[2] = (uint8_t)(n >> 16);
	p[3] = (uint8_t)(n >> 8);
	p[4] = (uint8_t)n;
}

int connect_envelope(struct buf *out, uint8_t flags, const void *payload, size_t n)
{
	uint8_t *p;

	if (n > UINT32_MAX)
		return -EMSGSIZE;
	p = buf_reserve(out, CONNECT_ENVELOPE_BYTES + n);
	if (!p)
		return -errno;
	put_header(p, flags, n);
	if (n)
		memcpy(p + CONNECT_ENVELOPE_BYTES, payload, n);
	buf_commit(out, CONNECT_ENVELOPE_BYTES + n);
	return 0;
}

int connect_envelope_begin(struct buf *out, uint8_t flags, size_t *ret_mark)
{
	uint8_t *p = buf_reserve(out, CONNECT_ENVELOPE_BYTES);

	if (!p)
		return -errno;
	put_header(p, flags, 0);
	*ret_mark = buf_len(out);
	buf_commit(out, CONNECT_ENVELOPE_BYTES);
	return 0;
}

int connect_envelope_end(struct buf *out, size_t mark, int err)
{
	uint8_t *p = out->data + out->start + mark;
	size_t n;

	assert(buf_len(out) >= mark + CONNECT_ENVELOPE_BYTES);
	n = buf_len(out) - mark - CONNECT_ENVELOPE_BYTES;
	if (!err && n > UINT32_MAX)
		err = -EMSGSIZE;
	if (err)
		out->end = out->start + mark;
	else
		put_header(p, p[0], n);
	return err;
}

/* ---- the end of a stream, and errors ---- */

int connect_end_ok(struct buf *out)
{
	return connect_envelope(out, CONNECT_END, "{}", 2);
}

static int write_error(struct buf *out, enum connect_code code, const char *message)
{
	int r = buf_printf(out, "{\"code\":\"%s\",\"message\":", connect_code_name(code));

	if (!r)
		r = json_text_string(out, message, strlen(message), JSON_TEXT_UTF8);
	return r ? r : buf_add_u8(out, '}');
}

int connect_end_error(struct buf *out, enum connect_code code, const char *message)
{
	size_t mark;
	int r = connect_envelope_begin(out, CONNECT_END, &mark);

	if (r)
		return r;
	r = buf_add_str(out, "{\"error\":");
	if (!r)
		r = write_error(out, code, message);
	if (!r)
		r = buf_add_u8(out, '}');
	return connect_envelope_end(out, mark, r);
}

int connect_unary_error(struct buf *out, enum connect_code code, const char *message)
{
	size_t mark = buf_len(out);
	int r = write_error(out, code, message);

	if (r)
		out->end = out->start + mark;
	return r;
}

/* ---- hot messages ---- */

static int add_text(struct buf *out, const char *json)
{
	return connect_envelope(out, 0, json, strlen(json));
}

int connect_process_start(struct buf *out, uint32_t pid)
{
	char json[64];

	(void)snprintf(json, sizeof(json), "{\"event\":{\"start\":{\"pid\":%u}}}", pid);
	return add_text(out, json);
}

int connect_process_keepalive(struct buf *out)
{
	return add_text(out, "{\"event\":{\"keepalive\":{}}}");
}

int connect_watch_start(struct buf *out)
{
	return add_text(out, "{\"start\":{}}");
}

int connect_watch_keepalive(struct buf *out)
{
	return add_text(out, "{\"keepalive\":{}}");
}

static const char data_tail[] = "\"}}}";

static const char *data_head(enum connect_channel channel)
{
	switch (channel) {
	case CONNECT_STDOUT:
		return "{\"event\":{\"data\":{\"stdout\":\"";
	case CONNECT_STDERR:
		return "{\"event\":{\"data\":{\"stderr\":\"";
	default:
		return "{\"event\":{\"data\":{\"pty\":\"";
	}
}

size_t connect_process_data_len(enum connect_channel channel, size_t n)
{
	return CONNECT_ENVELOPE_BYTES + strlen(data_head(channel)) + base64_encoded_len(n) +
	       strlen(data_tail);
}

int connect_process_data(struct buf *out, enum connect_channel channel, const void *data, size_t n)
{
	const char *head = data_head(channel);
	size_t head_len = strlen(head), len;
	uint8_t *p;

	if (n > UINT32_MAX / 2)
		return -EMSGSIZE;
	len = connect_process_data_len(channel, n);
	p = buf_reserve(out, len);
	if (!p)
		return -errno;
	put_header(p, 0, len - CONNECT_ENVELOPE_BYTES);
	p += CONNECT_ENVELOPE_BYTES;
	memcpy(p, head, head_len);
	p += head_len;
	base64_encode((char *)p, data, n);
	p += base64_encoded_len(n);
	memcpy(p, data_tail, strlen(data_tail));
	buf_commit(out, len);
	return 0;
}

/* Writes every field, even zeros: clients accept both, and logs are easier to read. */
static int write_end(struct buf *out, const struct connect_process_end *end)
{
	int r = buf_printf(out,
		"{\"event\":{\"end\":{\"exitCode\":%d,\"exited\":%s,\"status\":", end->exit_code,
		end->exited ? "true" : "false");

	if (!r)
		r = json_text_string(out, end->status, strlen(end->status), JSON_TEXT_UTF8);
	if (!r && end->error) {
		r = buf_add_str(out, ",\"error\":");
		if (!r)
			r = json_text_string(out, end->error, strlen(end->error), JSON_TEXT_UTF8);
	}
	return r ? r : buf_add_str(out, "}}}");
}

int connect_process_end(struct buf *out, const struct connect_process_end *end)
{
	size_t mark;
	int r = connect_envelope_begin(out, 0, &mark);

	return r ? r : connect_envelope_end(out, mark, write_end(out, end));
}

/* The reference's words for Linux's signals; clients compare "signal: killed". */
static const char *signal_text(int signal)
{
	static const char *const texts[] = {
		[SIGHUP] = "hangup",
		[SIGINT] = "interrupt",
		[SIGQUIT] = "quit",
		[SIGILL] = "illegal instruction",
		[SIGTRAP] = "trace/breakpoint trap",
		[SIGABRT] = "aborted",
		[SIGBUS] = "bus error",
		[SIGFPE] = "floating point exception",
		[SIGKILL] = "killed",
		[SIGUSR1] = "user defined signal 1",
		[SIGSEGV] = "segmentation fault",
		[SIGUSR2] = "user defined signal 2",
		[SIGPIPE] = "broken pipe",
		[SIGALRM] = "alarm clock",
		[SIGTERM] = "terminated",
	};

	if (signal > 0 && (size_t)signal < sizeof(texts) / sizeof(texts[0]))
		return texts[signal];
	return NULL;
}

void connect_process_end_of(int wait_status, char text[64], struct connect_process_end *ret)
{
	*ret = (struct connect_process_end){.status = text};
	if (WIFSIGNALED(wait_status)) {
		const char *name = signal_text(WTERMSIG(wait_status));

		ret->exit_code = -1;
		if (name)
			(void)snprintf(text, 64, "signal: %s", name);
		else
			(void)snprintf(text, 64, "signal: signal %d", WTERMSIG(wait_status));
		ret->error = text;
		return;
	}
	ret->exited = true;
	ret->exit_code = WEXITSTATUS(wait_status);
	(void)snprintf(text, 64, "exit status %d", ret->exit_code);
	ret->error = ret->exit_code ? text : NULL;
}

int connect_process_signal(const char *status)
{
	int number = 0;

	if (strncmp(status, "signal: ", 8) != 0)
		return 0;
	for (int i = 1; i < NSIG; i++) {
		const char *name = signal_text(i);

		if (name && strcmp(status + 8, name) == 0)
			return i;
	}
	return sscanf(status + 8, "signal %d", &number) == 1 ? number : SIGKILL;
}
