/* GET /invocations/{} and /agents/{}/invocations: invocations and their outcomes
 * (docs/agents.md). */
#include <errno.h>
#include <string.h>

#include "api/agents/agent_json.h"
#include "api/api.h"
#include "api/auth.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "invocation/outcome.h"
#include "proto/uri.h"
#include "store/invocations.h"
#include "store/keys.h"

enum {
	LIST_USUAL = 20,
	SEARCH_TEXT_MAX = 256,
	SEARCH_BYTES = 4 << 20, /* that one request looks at, and a row more */
};

static json_t *time_or_null(uint64_t ns)
{
	return ns ? api_time(ns) : json_null();
}

/* Its answer is only in the whole form. */
static json_t *to_json(const struct store_invocation *v, bool whole)
{
	bool over = v->state == STORE_INVOCATION_OVER;
	json_t *o =
		json_pack("{s:s, s:I, s:s, s:i, s:s?, s:b, s:s, s:s?, s:o, s:o, s:o, s:s?, s:s?}",
			"invocation", v->id, "cursor", (json_int_t)v->seq, "agent", v->agent,
			"version", (int)v->version, "session", v->session, "async", v->async,
			"state", store_invocation_state_name(v->state), "sandboxID", v->sandbox_id,
			"askedAt", api_time(v->asked_ns), "startedAt", time_or_null(v->started_ns),
			"endedAt", time_or_null(v->ended_ns), "code", over ? v->code : NULL,
			"message", over ? v->message : NULL);

	if (!o || !over)
		return o;
	(void)json_object_update_new(
		o, json_pack("{s:o, s:I, s:o}", "exitCode",
			   v->status < 0 ? json_null() : json_integer((json_int_t)v->status),
			   "outputBytes", (json_int_t)v->printed, "stderr",
			   api_text(v->errors, v->errors_bytes)));
	if (v->started_ns)
		(void)json_object_set_new(o, "durationMs",
			json_integer((json_int_t)((v->ended_ns - v->started_ns) / NS_PER_MS)));
	if (v->metered)
		(void)json_object_set_new(o, "usage",
			json_pack("{s:I, s:I, s:I}", "cpuMs", (json_int_t)(v->cpu_us / 1000),
				"networkInBytes", (json_int_t)v->in_bytes, "networkOutBytes",
				(json_int_t)v->out_bytes));
	if (whole && v->output)
		(void)json_object_update_new(
			o, json_pack("{s:o, s:b}", "output", api_text(v->output, v->output_bytes),
				   "truncated", v->printed > v->output_bytes));
	return o;
}

static int take_one(void *arg, const struct store_invocation *v)
{
	json_t **ret = arg;

	*ret = to_json(v, true);
	return 0;
}

void api_invocation(struct request *r)
{
	json_t *answer = NULL;
	struct error e = {0};

	if (store_invocation_get(
		    fleet_of(r)->store, r->params[0], auth_scope(r), take_one, &answer, &e) < 0)
		reply_failure(r, &e);
	else
		reply_json(r, 200, answer);
}

struct listing {
	json_t *list;
	uint64_t last;
	char search[SEARCH_TEXT_MAX + 1]; /* "": all */
	uint32_t limit, rows;		  /* of the list; that were looked at */
	size_t bytes;			  /* likewise */
};

static bool is_in(const char *text, const void *data, size_t n)
{
	return n && memmem(data, n, text, strlen(text));
}

static bool matches(const char *text, const struct store_invocation *v)
{
	return is_in(text, v->errors, v->errors_bytes) || is_in(text, v->output, v->output_bytes) ||
	       (v->message && strstr(v->message, text)) || (v->code && strstr(v->code, text)) ||
	       (v->session && strstr(v->session, text)) || strstr(v->id, text);
}

/* 1: enough. */
static int add_one(void *arg, const struct store_invocation *v)
{
	struct listing *l = arg;

	l->last = v->seq;
	l->rows++;
	l->bytes += v->errors_bytes + v->output_bytes;
	if ((!*l->search || matches(l->search, v)) &&
		json_array_append_new(l->list, to_json(v, false)) < 0)
		return -ENOMEM;
	return json_array_size(l->list) == l->limit || (*l->search && l->bytes > SEARCH_BYTES);
}

static bool take_search(struct request *r, struct listing *l)
{
	int n = uri_query_get(r->head->query, "search", l->search, sizeof(l->search));

	if (n == -ENOENT || (n > 0 && strlen(l->search) == (size_t)n))
		return true;
	reply_error(r, 400, "search must be a text of 1 to %d bytes", SEARCH_TEXT_MAX);
	return false;
}

/* Reads the query. False: answered. */
static bool take_filter(struct request *r, struct store_invocation_filter *f)
{
	unsigned long long cursor = 0;
	char word[8] = "";
	int n = uri_query_get(r->head->query, "order", word, sizeof(word));
	int e = uri_query_u64(r->head->query, "cursor", INT64_MAX, &cursor);

	if (e < 0 && e != -ENOENT) {
		reply_error(r, 400, "cursor must be that of an earlier answer");
		return false;
	}
	if (n != -ENOENT && strcmp(word, "asc") != 0 && strcmp(word, "desc") != 0) {
		reply_error(r, 400, "order must be asc or desc");
		return false;
	}
	f->ascending = strcmp(word, "asc") == 0;
	f->cursor = cursor;
	f->limit = api_limit(r, STORE_INVOCATIONS_LIST_MAX, LIST_USUAL);
	return f->limit;
}

void api_agent_invocations(struct request *r)
{
	struct store_invocation_filter f = {.limit = 0};
	struct listing l = {0};
	struct store_agent agent;
	struct error e = {0};
	int err;

	if (!take_filter(r, &f) || !take_search(r, &l))
		return;
	l.limit = f.limit;
	if (*l.search)
		f.limit = STORE_INVOCATIONS_SCAN_MAX;
	if (!agent_of_path(r, &agent))
		return;
	f.agent_id = agent.id;
	l.list = json_array();
	l.last = f.cursor;
	err = store_invocation_list(fleet_of(r)->store, &f, add_one, &l, &e);
	if (err >= 0) {
		reply_json(r, 200,
			json_pack("{s:o, s:I, s:b}", "invocations", l.list, "cursor",
				(json_int_t)l.last, "more", err > 0 || l.rows == f.limit));
		return;
	}
	json_decref(l.list);
	if (e.code == ERROR_NONE)
		(void)error_set(&e, ERROR_INTERNAL, -err, "out of memory");
	reply_failure(r, &e);
}
