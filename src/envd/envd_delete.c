/* DELETE of a file or of a directory with all that is in it: our extension (docs/http.md). */
#include <stdlib.h>

#include "base/cleanup.h"
#include "envd/envd_http.h"

static void on_event(struct envd_call *c, const struct agent_event *ev)
{
	struct envd_error e;

	if (ev->type == AGENT_OK) {
		envd_reply_empty(c->r, 204);
		envd_call_finish(c);
		return;
	}
	(void)envd_fail(&e, CONNECT_INTERNAL, "the sandbox's agent broke its protocol");
	envd_call_fail_http(c, &e);
}

void envd_delete_file(struct request *r, const struct instance *i)
{
	static const struct envd_ops ops = {.fail = envd_call_fail_http, .event = on_event};
	_cleanup_free_ char *path = NULL, *user = NULL;
	struct agent_remove m = {.flags = AGENT_REMOVE_RECURSIVE};
	struct envd_call *c = envd_call_new(r, i, &ops);
	struct envd_error e;
	int err;

	if (!c)
		return;
	err = envd_file_query(r, &path, &user, &e);
	if (err == 0) {
		m.path = path;
		m.user = user;
		err = envd_call_ask(c, AGENT_REMOVE, &m, &e);
	}
	if (err < 0)
		envd_call_fail_http(c, &e);
	else
		request_resume(r); /* drops a body */
}
