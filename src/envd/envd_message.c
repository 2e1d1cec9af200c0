#include "envd/envd_message.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "envd/envd_entry.h"
#include "proto/json_text.h"
#include "proto/proto_json.h"

enum { PIPE_PIECE = 32 * 1024, PTY_PIECE = 16 * 1024 };

static int wrong(struct envd_error *e, const char *name)
{
	return envd_fail(e, CONNECT_INVALID_ARGUMENT, "%s has the wrong type", name);
}

/* --- StartRequest --- */

static int parse_argv(const json_t *process, struct envd_start *s, struct envd_error *e)
{
	const char *cmd = "";
	json_t *args = NULL, *arg;
	size_t i;

	if (proto_json_string(process, "cmd", &cmd) < 0)
		return wrong(e, "process.cmd");
	if (!cmd[0])
		return envd_fail(e, CONNECT_INVALID_ARGUMENT, "process.cmd is missing");
	if (proto_json_array(process, "args", &args) < 0)
		return wrong(e, "process.args");
	s->argv = calloc(json_array_size(args) + 1, sizeof(s->argv[0]));
	if (!s->argv)
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	s->argv[0] = cmd;
	json_array_foreach(args, i, arg)
	{
		if (!json_is_string(arg) ||
			strlen(json_string_value(arg)) != json_string_length(arg))
			return wrong(e, "an element of process.args");
		s->argv[i + 1] = json_string_value(arg);
	}
	s->exec.argv = (struct agent_strings){
		.array = s->argv, .count = (uint32_t)json_array_size(args) + 1};
	return 0;
}

static int parse_env(const json_t *process, struct envd_start *s, struct envd_error *e)
{
	json_t *envs = NULL, *value;
	const char *key;
	uint32_t n = 0;

	if (proto_json_object(process, "envs", &envs) < 0)
		return wrong(e, "process.envs");
	s->env = calloc(json_object_size(envs) + 1, sizeof(s->env[0]));
	if (!s->env)
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	json_object_foreach(envs, key, value)
	{
		if (!json_is_string(value) ||
			strlen(json_string_value(value)) != json_string_length(value))
			return wrong(e, "a value of process.envs");
		if (!key[0] || strchr(key, '='))
			return envd_fail(e, CONNECT_INVALID_ARGUMENT,
				"\"%s\" is no name of an environment variable", key);
		s->env[n] = str_printf("%s=%s", key, json_string_value(value));
		if (!s->env[n++])
			return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	}
	s->exec.env = (struct agent_strings){.array = (const char *const *)s->env, .count = n};
	return 0;
}

int envd_pty_parse(const json_t *o, uint16_t *ret_cols, uint16_t *ret_rows, struct envd_error *e)
{
	json_t *pty = NULL, *size = NULL;
	uint32_t cols = 0, rows = 0;

	if (proto_json_object(o, "pty", &pty) < 0)
		return wrong(e, "pty");
	if (!pty)
		return 0;
	if (proto_json_object(pty, "size", &size) < 0)
		return wrong(e, "pty.size");
	if (size && (proto_json_u32(size, "cols", &cols) < 0 ||
			    proto_json_u32(size, "rows", &rows) < 0))
		return wrong(e, "pty.size");
	if (cols > UINT16_MAX || rows > UINT16_MAX)
		return envd_fail(e, CONNECT_INVALID_ARGUMENT, "pty.size is over 65535");
	*ret_cols = (uint16_t)cols;
	*ret_rows = (uint16_t)rows;
	return 1;
}

/* Options other than the command: terminal, tag, standard input. */
static int parse_options(const json_t *o, struct envd_start *s, struct envd_error *e)
{
	bool with_stdin = true;
	int r = envd_pty_parse(o, &s->exec.cols, &s->exec.rows, e);

	if (r < 0)
		return r;
	if (r > 0)
		s->exec.flags |= AGENT_EXEC_PTY;
	if (proto_json_bool(o, "stdin", &with_stdin) < 0)
		return wrong(e, "stdin");
	if (r == 0 && with_stdin)
		s->exec.flags |= AGENT_EXEC_STDIN;
	if (proto_json_string(o, "tag", &s->exec.tag) < 0)
		return wrong(e, "tag");
	return 0;
}

static uint32_t timeout_of(uint64_t ms)
{
	if (ms == UINT64_MAX)
		return 0;
	return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

int envd_start_parse(const json_t *o, const char *user, uint64_t timeout_ms, struct envd_start *ret,
	struct envd_error *e)
{
	json_t *process = NULL;
	int r;

	*ret = (struct envd_start){
		.exec = {.user = user, .cwd = "", .tag = "", .timeout_ms = timeout_of(timeout_ms)}};
	if (proto_json_object(o, "process", &process) < 0)
		return wrong(e, "process");
	if (!process)
		return envd_fail(e, CONNECT_INVALID_ARGUMENT, "process is missing");
	if (proto_json_string(process, "cwd", &ret->exec.cwd) < 0)
		return wrong(e, "process.cwd");
	r = parse_options(o, ret, e);
	if (r == 0)
		r = parse_argv(process, ret, e);
	if (r == 0)
		r = parse_env(process, ret, e);
	if (r < 0)
		envd_start_done(ret);
	return r;
}

void envd_start_done(struct envd_start *s)
{
	for (char **p = s->env; p && *p; p++)
		free(*p);
	free(s->env);
	free(s->argv);
	s->env = NULL;
	s->argv = NULL;
}

/* --- other requests about processes --- */

int envd_selector_parse(const json_t *o, struct agent_selector *ret, struct envd_error *e)
{
	json_t *selector = NULL;

	*ret = (struct agent_selector){.tag = ""};
	if (proto_json_object(o, "process", &selector) < 0)
		return wrong(e, "process");
	if (selector && (proto_json_u32(selector, "pid", &ret->pid) < 0 ||
				proto_json_string(selector, "tag", &ret->tag) < 0))
		return wrong(e, "process.pid or process.tag");
	if (!ret->pid && !ret->tag[0])
		return envd_fail(
			e, CONNECT_INVALID_ARGUMENT, "process has neither a pid nor a tag");
	return 0;
}

int envd_input_parse(const json_t *o, struct buf *data, uint32_t *ret_flags, struct envd_error *e)
{
	json_t *input = NULL;
	int r = 0;

	if (proto_json_object(o, "input", &input) < 0)
		return wrong(e, "input");
	if (input)
		r = proto_json_bytes(input, "stdin", data);
	if (r < 0)
		return wrong(e, "input.stdin");
	*ret_flags = r ? AGENT_INPUT_STDIN : AGENT_INPUT_PTY;
	if (input && r == 0)
		r = proto_json_bytes(input, "pty", data);
	if (r < 0)
		return wrong(e, "input.pty");
	return r ? 0 : envd_fail(e, CONNECT_INVALID_ARGUMENT, "input is missing");
}

int envd_signal_parse(const json_t *o, uint32_t *ret_signo, struct envd_error *e)
{
	static const struct proto_json_enum names[] = {{"SIGNAL_UNSPECIFIED", 0},
		{"SIGNAL_SIGKILL", SIGKILL}, {"SIGNAL_SIGTERM", SIGTERM}, {"SIGNAL_SIGINT", SIGINT},
		{"SIGNAL_SIGHUP", SIGHUP}, {"SIGNAL_SIGQUIT", SIGQUIT}, {"SIGNAL_SIGUSR1", SIGUSR1},
		{"SIGNAL_SIGUSR2", SIGUSR2}, {"SIGNAL_SIGPIPE", SIGPIPE}, {NULL, 0}};
	int signo = 0;

	if (proto_json_enum(o, "signal", names, &signo) < 0)
		return wrong(e, "signal");
	if (!signo || !proto_json_enum_name(names, signo))
		return envd_fail(e, CONNECT_UNIMPLEMENTED,
			"only SIGNAL_SIGKILL, TERM, INT, HUP, QUIT, PIPE, USR1 and USR2 can be "
			"sent");
	*ret_signo = (uint32_t)signo;
	return 0;
}

/* --- ListResponse --- */

static int write_args(struct buf *out, const struct agent_strings *argv)
{
	const char *s;
	size_t pos = 0;
	int r = buf_add_str(out, "{\"config\":{\"cmd\":");

	if (!r)
		r = envd_json_string(out, agent_strings_next(argv, &pos, &s) ? s : "");
	if (!r)
		r = buf_add_str(out, ",\"args\":[");
	for (bool first = true; !r && agent_strings_next(argv, &pos, &s); first = false) {
		r = first ? 0 : buf_add_u8(out, ',');
		if (!r)
			r = envd_json_string(out, s);
	}
	return r ? r : buf_add_str(out, "],\"envs\":{");
}

static int write_env(struct buf *out, const struct agent_strings *env)
{
	const char *s;
	size_t pos = 0;
	int r = 0;

	for (bool first = true; !r && agent_strings_next(env, &pos, &s); first = false) {
		const char *equals = strchr(s, '=');

		if (!equals)
			return -EBADMSG;
		r = first ? 0 : buf_add_u8(out, ',');
		if (!r)
			r = json_text_string(out, s, (size_t)(equals - s), JSON_TEXT_UTF8);
		if (!r)
			r = buf_add_u8(out, ':');
		if (!r)
			r = envd_json_string(out, equals + 1);
	}
	return r ? r : buf_add_u8(out, '}');
}

int envd_process_write(struct buf *out, const struct agent_process *p)
{
	struct agent_exec exec;
	int r;

	if (agent_exec_decode(p->exec, p->exec_bytes, &exec) < 0)
		return -EBADMSG;
	r = write_args(out, &exec.argv);
	if (!r)
		r = write_env(out, &exec.env);
	if (!r && exec.cwd[0]) {
		r = buf_add_str(out, ",\"cwd\":");
		if (!r)
			r = envd_json_string(out, exec.cwd);
	}
	if (!r)
		r = buf_printf(out, "},\"pid\":%u", p->pid);
	if (!r && exec.tag[0]) {
		r = buf_add_str(out, ",\"tag\":");
		if (!r)
			r = envd_json_string(out, exec.tag);
	}
	return r ? r : buf_add_u8(out, '}');
}

/* --- output --- */

static int write_data(
	struct buf *out, enum connect_channel channel, size_t piece, const struct agent_event *ev)
{
	for (size_t done = 0; done < ev->length; done += piece) {
		size_t left = ev->length - done;
		int r = connect_process_data(
			out, channel, ev->data + done, left < piece ? left : piece);

		if (r < 0)
			return r;
	}
	return 0;
}

static int write_exit(struct buf *out, const struct agent_exit *x)
{
	struct connect_process_end end;
	char text[64];

	if (x->flags & AGENT_EXIT_SIGNALED)
		connect_process_end_of((int)(x->status & 0x7f), text, &end);
	else
		connect_process_end_of(W_EXITCODE((int)(x->status & 0xff), 0), text, &end);
	return connect_process_end(out, &end);
}

int envd_process_output(struct buf *out, const struct agent_event *ev)
{
	switch (ev->type) {
	case AGENT_STDOUT:
		return write_data(out, CONNECT_STDOUT, PIPE_PIECE, ev);
	case AGENT_STDERR:
		return write_data(out, CONNECT_STDERR, PIPE_PIECE, ev);
	case AGENT_PTY:
		return write_data(out, CONNECT_PTY, PTY_PIECE, ev);
	case AGENT_EXIT:
		return write_exit(out, &ev->exit);
	default:
		return -EBADMSG;
	}
}

/* --- filesystem.Filesystem --- */

int envd_path_parse(const json_t *o, const char *name, const char **ret, struct envd_error *e)
{
	*ret = "";
	return proto_json_string(o, name, ret) < 0 ? wrong(e, name) : 0;
}

int envd_depth_parse(const json_t *o, uint32_t *ret, struct envd_error *e)
{
	*ret = 1;
	if (proto_json_u32(o, "depth", ret) < 0)
		return wrong(e, "depth");
	if (*ret == 0)
		*ret = 1;
	if (*ret > AGENT_LIST_DEPTH_MAX)
		*ret = AGENT_LIST_DEPTH_MAX;
	return 0;
}

int envd_watch_parse(const json_t *o, struct agent_watch *ret, struct envd_error *e)
{
	static const struct {
		const char *name;
		uint32_t flag;
	} options[] = {
		{"recursive", AGENT_WATCH_RECURSIVE},
		{"includeEntry", AGENT_WATCH_ENTRY},
		{"allowNetworkMounts", AGENT_WATCH_NETWORK_MOUNTS},
	};

	*ret = (struct agent_watch){0};
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		bool on = false;

		if (proto_json_bool(o, options[i].name, &on) < 0)
			return wrong(e, options[i].name);
		ret->flags |= on ? options[i].flag : 0;
	}
	return envd_path_parse(o, "path", &ret->path, e);
}

static const char *event_name(uint32_t kind)
{
	static const char *const names[] = {
		[AGENT_WATCH_CREATE] = "CREATE",
		[AGENT_WATCH_WRITE] = "WRITE",
		[AGENT_WATCH_REMOVE] = "REMOVE",
		[AGENT_WATCH_RENAME] = "RENAME",
		[AGENT_WATCH_CHMOD] = "CHMOD",
	};

	return kind < ARRAY_SIZE(names) ? names[kind] : NULL;
}

int envd_watch_write(struct buf *out, const struct agent_watch_event *ev)
{
	const char *type = event_name(ev->kind);
	struct agent_entry entry;
	int r;

	if (!type)
		return 0;
	if (ev->entry_bytes && agent_entry_decode(ev->entry, ev->entry_bytes, &entry) < 0)
		return -EBADMSG;
	r = buf_add_str(out, "{\"name\":");
	if (!r)
		r = envd_json_string(out, ev->name);
	if (!r)
		r = buf_printf(out, ",\"type\":\"EVENT_TYPE_%s\"", type);
	if (!r && ev->entry_bytes) {
		r = buf_add_str(out, ",\"entry\":");
		if (!r)
			r = envd_entry_write(out, &entry);
	}
	if (!r)
		r = buf_add_u8(out, '}');
	return r ? r : 1;
}
