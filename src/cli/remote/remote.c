#include "cli/remote/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "sandbox/sandbox_dir.h"

enum { GONE_MS = 10000, GONE_STEP_MS = 2, PAGES_MAX = 10000 };

/* --- finding --- */

/* The page behind *token, which becomes that of the next one, or NULL. */
static int add_page(struct client *c, const char *path, char **token, json_t *all, struct error *e)
{
	_cleanup_free_ char *target =
		*token ? str_printf("%s?nextToken=%s", path, *token) : strdup(path);
	const struct client_request request = {.method = "GET", .target = target};
	json_t *page = NULL;
	const char *next;
	int r = target ? client_call(c, &request, NULL, CLIENT_PATIENCE_S, &page, e)
		       : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r == 0 && json_array_extend(all, page) < 0)
		r = error_set(e, ERROR_INTERNAL, EBADMSG, "the daemon's list is broken");
	json_decref(page);
	if (r < 0)
		return r;
	next = http_header_get(&client_head(c)->headers, "x-next-token");
	free(*token);
	*token = next ? strdup(next) : NULL;
	return next && !*token ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
}

int remote_try_pages(const struct home *home, const char *path, json_t **ret, struct error *e)
{
	_cleanup_(client_closep) struct client *c = NULL;
	_cleanup_free_ char *token = NULL;
	json_t *all = json_array();
	int r = client_try(home, &c, e);

	for (unsigned i = 0; r == 0 && i < PAGES_MAX && (i == 0 || token); i++)
		r = add_page(c, path, &token, all, e);
	if (r == 0)
		*ret = all;
	else
		json_decref(all);
	return r;
}

int remote_try_list(const struct home *home, json_t **ret, struct error *e)
{
	return remote_try_pages(home, "/v2/sandboxes", ret, e);
}

int remote_list(const struct home *home, json_t **ret, struct error *e)
{
	int r = remote_try_list(home, ret, e);

	return r == -ECONNREFUSED ? client_no_daemon(home, e) : r;
}

int remote_find(const json_t *list, const char *prefix, char ret_id[ROUTE_SANDBOX_ID_MAX + 1],
	struct error *e)
{
	const char *found = NULL;
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		const char *id = json_string_value(json_object_get(one, "sandboxID"));

		if (!id || !*prefix || !str_starts_with(id, prefix))
			continue;
		if (found)
			return error_set(e, ERROR_USAGE, EINVAL,
				"several sandboxes begin with '%s': give more of the id", prefix);
		found = id;
	}
	if (!found || strlen(found) > ROUTE_SANDBOX_ID_MAX)
		return error_set(e, ERROR_NOT_FOUND, ENOENT,
			"the daemon has no sandbox %s: see mayfly ps", prefix);
	(void)strcpy(ret_id, found); /* fits */
	return 0;
}

int remote_open(const char *prefix, struct remote *ret, struct error *e)
{
	json_t *list = NULL;
	int r = home_open(NULL, &ret->home, e);

	if (r == 0)
		r = remote_list(&ret->home, &list, e);
	if (r == 0)
		r = remote_find(list, prefix, ret->id, e);
	json_decref(list);
	return r;
}

void remote_close(struct remote *r)
{
	home_close(&r->home);
}

/* --- making and ending --- */

int remote_create(
	struct client *c, json_t *body, char ret_id[ROUTE_SANDBOX_ID_MAX + 1], struct error *e)
{
	const struct client_request request = {.method = "POST", .target = "/v2/sandboxes"};
	json_t *made = NULL;
	const char *id;
	int r = body ? client_call(c, &request, body, REMOTE_CREATE_S, &made, e)
		     : error_set(e, ERROR_USAGE, EINVAL, "an argument is not UTF-8");

	json_decref(body);
	if (r < 0)
		return r;
	id = json_string_value(json_object_get(made, "sandboxID"));
	if (!id || !route_sandbox_id(id, ret_id))
		r = error_set(e, ERROR_INTERNAL, EBADMSG, "the daemon's answer has no id");
	json_decref(made);
	return r;
}

/* The daemon answers when the end is recorded, a little before it has happened. */
static void wait_until_gone(const struct home *home, const char *id)
{
	const struct timespec step = {.tv_nsec = GONE_STEP_MS * (long)NS_PER_MS};
	struct sandbox_dirs dirs = SANDBOX_DIRS_INIT;
	struct error ignored = {0};

	if (sandbox_dirs_open(home->path, &dirs, &ignored) < 0)
		return;
	for (unsigned ms = 0; ms < GONE_MS; ms += GONE_STEP_MS) {
		_cleanup_close_ int fd = sandbox_open_dir(&dirs, id, NULL);

		if (fd < 0)
			break;
		(void)nanosleep(&step, NULL); /* a shorter one is fine */
	}
	sandbox_dirs_close(&dirs);
}

int remote_remove(const struct home *home, const char *id, struct error *e)
{
	_cleanup_free_ char *target = str_printf("/sandboxes/%s", id);
	const struct client_request request = {.method = "DELETE", .target = target};
	_cleanup_(client_closep) struct client *c = NULL;
	int r = target ? client_open(home, &c, e)
		       : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (r == 0)
		r = client_call(c, &request, NULL, CLIENT_PATIENCE_S, NULL, e);
	if (r == 0)
		wait_until_gone(home, id);
	return r;
}

/* --- calls --- */

struct client_request remote_request(const struct remote *r, const char *method, const char *target)
{
	return (struct client_request){.method = method,
		.target = target,
		.sandbox = r->id,
		.port = ROUTE_ENVD_PORT,
		.user = r->user};
}

int remote_call(const struct remote *r, struct client *c, const char *method, json_t *message,
	json_t **ret, struct error *e)
{
	const struct client_request request = remote_request(r, "POST", method);
	int err = message ? client_call(c, &request, message, CLIENT_PATIENCE_S, ret, e)
			  : error_set(e, ERROR_USAGE, EINVAL, "a name is not UTF-8");

	json_decref(message);
	return err;
}

json_t *remote_process(uint32_t pid)
{
	return json_pack("{s:I}", "pid", (json_int_t)pid);
}

const char *remote_signal_name(int signo)
{
	static const char *const names[] = {
		[SIGHUP] = "SIGNAL_SIGHUP",
		[SIGINT] = "SIGNAL_SIGINT",
		[SIGQUIT] = "SIGNAL_SIGQUIT",
		[SIGKILL] = "SIGNAL_SIGKILL",
		[SIGUSR1] = "SIGNAL_SIGUSR1",
		[SIGUSR2] = "SIGNAL_SIGUSR2",
		[SIGPIPE] = "SIGNAL_SIGPIPE",
		[SIGTERM] = "SIGNAL_SIGTERM",
	};

	return signo > 0 && (size_t)signo < ARRAY_SIZE(names) ? names[signo] : NULL;
}

int remote_signal(const struct remote *r, uint32_t pid, int signo, struct error *e)
{
	_cleanup_(client_closep) struct client *c = NULL;
	int err = client_open(&r->home, &c, e);

	return err < 0 ? err
		       : remote_call(r, c, "/process.Process/SendSignal",
				 json_pack("{s:o, s:s}", "process", remote_process(pid), "signal",
					 remote_signal_name(signo)),
				 NULL, e);
}
