#include "cli/remote/remote_command.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

static json_t *with_terminal(json_t *env)
{
	json_t *all = env ? json_copy(env) : json_object();
	const char *term = getenv("TERM");

	if (!json_object_get(all, "TERM"))
		(void)json_object_set_new(
			all, "TERM", json_string(term && *term ? term : "xterm")); /* a hint */
	return all;
}

int remote_command_run(const struct remote_command *o, struct session_result *ret, struct error *e)
{
	struct session_remote_options start = o->start;
	struct session_options so = {.ops = &session_remote_ops,
		.tty = start.tty,
		.no_input = start.no_input,
		.deadline_ns = o->deadline_ns};
	struct session_remote *s = NULL;
	struct error ignored = {0};
	int r;

	start.env = start.tty ? with_terminal(start.env) : json_incref(start.env);
	r = session_remote_open(&start, &s, e);
	so.peer = s;
	if (r == 0)
		r = session_run(&so, ret, e);
	if (r == 0 && ret->given_up && session_remote_pid(s))
		(void)remote_signal(start.remote, session_remote_pid(s), SIGKILL, &ignored);
	session_remote_close(s);
	json_decref(start.env);
	return r;
}
