#include "cli/sandbox/policy_suggest.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/json.h"
#include "cli/remote/admin.h"
#include "cli/remote/remote.h"
#include "policy/suggest.h"

enum { PAGE = 1000 };

/* What the log could not keep. */
struct gaps {
	json_int_t lost, dropped;
};

static json_int_t number(const json_t *answer, const char *key)
{
	return json_integer_value(json_object_get(answer, key));
}

static int take_page(struct suggest *s, const json_t *answer, struct gaps *gaps, struct error *e)
{
	const json_t *list = json_object_get(answer, "activity");
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		r = suggest_note(s, json_array_get(list, i), e);
	*gaps = (struct gaps){number(answer, "lost"), number(answer, "dropped")};
	return r;
}

static int read_all(const struct home *home, const char *id, struct suggest *s, struct gaps *gaps,
	struct error *e)
{
	json_int_t cursor = 0;
	bool more = true;
	int r = 0;

	while (r == 0 && more) {
		json_t *answer = NULL;
		_cleanup_free_ char *target = str_printf(
			"/sandboxes/%s/activity?kind=flow,request,model,lost&limit=%d&cursor=%lld",
			id, PAGE, (long long)cursor);

		if (!target)
			return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		r = admin_call(home, "GET", target, NULL, &answer, e);
		r = r ? r : take_page(s, answer, gaps, e);
		more = json_is_true(json_object_get(answer, "more"));
		cursor = number(answer, "cursor");
		json_decref(answer);
	}
	return r == -ECONNREFUSED && e->code == ERROR_NONE ? client_no_daemon(home, e) : r;
}

static void warn(const struct suggest *s, const struct gaps *gaps)
{
	if (gaps->lost + gaps->dropped)
		fprintf(stderr,
			"%lld records of the activity are missing: the policy may lack rules for "
			"them\n",
			(long long)(gaps->lost + gaps->dropped));
	if (s->unsure)
		fprintf(stderr,
			"%u requests are left out, because their paths can be read in two ways\n",
			s->unsure);
}

static int print(struct suggest *s, const struct gaps *gaps, struct error *e)
{
	json_t *policy = NULL;
	int r = suggest_policy(s, &policy, e);

	if (r < 0)
		return r;
	warn(s, gaps);
	return json_print(policy, e);
}

/* The daemon's list lacks sandboxes that have ended, so they need the whole id. */
static int find(const char *prefix, struct remote *remote, struct error *e)
{
	int r = remote_open(prefix, remote, e);

	if (r == 0 || e->code != ERROR_NOT_FOUND || !route_sandbox_id(prefix, remote->id))
		return r;
	error_clear(e);
	return 0;
}

int policy_suggest(const char *prefix, struct error *e)
{
	struct remote remote = REMOTE_INIT;
	struct gaps gaps = {0};
	struct suggest s;
	int r = suggest_begin(&s) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;

	r = r ? r : find(prefix, &remote, e);
	r = r ? r : read_all(&remote.home, remote.id, &s, &gaps, e);
	r = r ? r : print(&s, &gaps, e);
	suggest_done(&s);
	remote_close(&remote);
	return r;
}
