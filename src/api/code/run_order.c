#include "api/code/run_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "http/reply.h"

/* A failing function answers and returns false. */

static bool no_memory(struct request *r)
{
	reply_error(r, 503, "out of memory");
	return false;
}

/* Reads a string; without it *ret is unchanged. */
static bool take_string(struct request *r, const json_t *body, const char *key, const char **ret)
{
	const json_t *v = json_object_get(body, key);

	if (!v || json_is_null(v))
		return true;
	if (!json_is_string(v)) {
		reply_error(r, 400, "%s must be text", key);
		return false;
	}
	*ret = json_string_value(v);
	return true;
}

static bool take_words(struct request *r, const json_t *list, struct run_order *o)
{
	size_t n = json_array_size(list);

	if (n < 1 || n > AGENT_ARGV_MAX) {
		reply_error(r, 400, "command must have 1 to %d words", AGENT_ARGV_MAX);
		return false;
	}
	o->words = calloc(n, sizeof(o->words[0]));
	if (!o->words)
		return no_memory(r);
	for (size_t i = 0; i < n; i++) {
		o->words[i] = json_string_value(json_array_get(list, i));
		if (!o->words[i]) {
			reply_error(r, 400, "command must be text or a list of texts");
			return false;
		}
	}
	if (!*o->words[0]) {
		reply_error(r, 400, "command[0] must name a program");
		return false;
	}
	o->exec.argv = (struct agent_strings){.array = o->words, .count = (uint32_t)n};
	return true;
}

static bool take_command(struct request *r, const json_t *body, struct run_order *o)
{
	const json_t *v = json_object_get(body, "command");

	if (json_is_array(v))
		return take_words(r, v, o);
	o->shell = true;
	o->argv[3] = json_string_value(v);
	if (o->argv[3] && *o->argv[3])
		return true;
	reply_error(r, 400, "command must be given: text for a shell, or a list of words");
	return false;
}

static bool take_number(
	struct request *r, const json_t *body, const char *key, int64_t max, int64_t *ret)
{
	if (api_integer(body, key, ret) != -EINVAL && *ret >= 1 && *ret <= max)
		return true;
	reply_error(r, 400, "%s must be a number from 1 to %lld", key, (long long)max);
	return false;
}

/* Seconds, which may have a fraction. */
static bool take_timeout(struct request *r, const json_t *body, uint32_t *ret_ms)
{
	const json_t *v = json_object_get(body, "timeout");
	double s = v && !json_is_null(v) ? json_number_value(v) : RUN_TIMEOUT_S;

	if (s < 0.001 || s > RUN_TIMEOUT_MAX_S) {
		reply_error(r, 400, "timeout must be a number of seconds, at most %d",
			RUN_TIMEOUT_MAX_S);
		return false;
	}
	*ret_ms = (uint32_t)(s * 1000);
	return true;
}

bool run_order_take(struct request *r, json_t *body, struct run_order *ret)
{
	struct run_order *o = ret;

	*o = (struct run_order){.body = json_incref(body),
		.exec = {.user = "", .cwd = "", .tag = "", .flags = AGENT_EXEC_KILL_ON_CLOSE},
		.output_limit = RUN_OUTPUT};
	if (!take_command(r, body, o) || !take_string(r, body, "cwd", &o->exec.cwd) ||
		!take_string(r, body, "user", &o->exec.user) ||
		!take_string(r, body, "stdin", &o->input) ||
		!api_take_env(r, body, &o->env, &o->exec.env) ||
		!take_timeout(r, body, &o->exec.timeout_ms) ||
		!take_number(r, body, "outputLimit", RUN_OUTPUT_MAX, &o->output_limit) ||
		!api_take_stream(r, body, &o->stream))
		return false;
	if (o->input) {
		o->exec.flags |= AGENT_EXEC_STDIN;
		o->input_bytes = strlen(o->input); /* bodies have no NUL */
	}
	return true;
}

void run_order_done(struct run_order *o)
{
	api_env_free(o->env);
	free(o->words);
	json_decref(o->body);
	*o = (struct run_order){0};
}

void run_order_shell(struct run_order *o, const char *shell)
{
	o->argv[0] = shell;
	o->argv[1] = "-l";
	o->argv[2] = "-c";
	o->exec.argv = (struct agent_strings){.array = o->argv, .count = 4};
}
