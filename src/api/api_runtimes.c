#include "api/api_runtimes.h"

#include <errno.h>
#include <stdio.h>

#include "api/api.h"
#include "api/unplaced.h"
#include "base/cleanup.h"
#include "catalog/runtime_words.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"

enum { AGAIN_S = 10 };

static const char *const states[] = {
	[RUNTIME_READY] = "ready",
	[RUNTIME_MISSING] = "missing",
	[RUNTIME_WAITING] = "waiting",
	[RUNTIME_BUILDING] = "building",
	[RUNTIME_FAILED] = "failed",
};

/* --- a creation --- */

static void refuse_failed(
	struct request *r, const struct runtime *rt, const struct runtime_status *s)
{
	char message[RUNTIME_WORDS_MAX];

	runtime_say_failed(rt, s, message);
	reply_unavailable(r, s->again_s, false, "runtime_failed", message);
}

static void refuse_coming(
	struct request *r, const struct runtime *rt, const struct runtime_status *s)
{
	char words[RUNTIME_WORDS_MAX], message[RUNTIME_WORDS_MAX + 32];

	runtime_say_coming(rt, s, words);
	(void)snprintf(
		message, sizeof(message), "%s: try again in %d s", words, AGAIN_S); /* fits */
	reply_unavailable(r, AGAIN_S, true, "runtime_building", message);
}

static void refuse_missing(struct request *r, const struct runtime *rt)
{
	char message[RUNTIME_WORDS_MAX];
	struct error e = {0};

	runtime_say_missing(fleet_of(r), rt, message);
	(void)error_set(&e, ERROR_NOT_FOUND, ENOENT, "%s", message); /* it is what counts */
	api_reply_unplaced(r, &e);
}

static bool is_ready(struct request *r, const struct runtime *rt)
{
	struct runtime_status s;

	runtime_builds_want(fleet_of(r), rt, &s);
	if (s.state == RUNTIME_FAILED)
		refuse_failed(r, rt, &s);
	else if (s.state == RUNTIME_MISSING)
		refuse_missing(r, rt);
	else if (s.state != RUNTIME_READY)
		refuse_coming(r, rt, &s);
	return s.state == RUNTIME_READY;
}

bool api_runtime_take(struct request *r, const json_t *name, char ret[STORE_NAME_MAX + 1])
{
	const struct option_list *all = fleet_of(r)->options.runtimes;
	const char *word = json_string_value(name);
	_cleanup_free_ char *names = NULL;
	struct runtime rt;

	if (!word || !runtimes_find(all, word, &rt)) {
		names = runtimes_names(all);
		reply_error(r, 400, "runtime must be one of %s", names ? names : "this host's");
		return false;
	}
	if (!is_ready(r, &rt))
		return false;
	(void)snprintf(ret, STORE_NAME_MAX + 1, "%s", rt.template); /* was checked: fits */
	return true;
}

/* --- the list --- */

static json_t *runtime_json(struct fleet *f, const struct runtime *rt)
{
	char missing[RUNTIME_WORDS_MAX];
	const char *message = NULL;
	struct runtime_status s;

	runtime_builds_look(f, rt, &s);
	if (s.state == RUNTIME_FAILED)
		message = s.reason;
	if (s.state == RUNTIME_MISSING) {
		runtime_say_missing(f, rt, missing);
		message = missing;
	}
	return json_pack("{s:s, s:s, s:s, s:s?, s:o, s:s?}", "name", rt->name, "template",
		rt->template, "state", states[s.state], "phase", *s.phase ? s.phase : NULL,
		"percent", s.percent >= 0 ? json_integer(s.percent) : json_null(), "message",
		message);
}

void api_runtimes_list(struct request *r)
{
	struct fleet *f = fleet_of(r);
	json_t *list = json_array();
	struct runtime rt;

	for (unsigned i = 0; runtimes_get(f->options.runtimes, i, &rt); i++)
		if (json_array_append_new(list, runtime_json(f, &rt)) < 0) {
			json_decref(list);
			list = NULL; /* out of memory */
			break;
		}
	reply_json(r, 200, list);
}
