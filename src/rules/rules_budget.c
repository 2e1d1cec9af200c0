#include "rules/rules_budget.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rules/rules_internal.h"

enum { MICROS = 1000000 };
#define MICROS_MAX 1e15

/* What a number may be, and in which units it is taken. */
struct range {
	double unit, min, max;
};

static const struct range of_requests = {1, 1, 1e9}, of_tokens = {1, 1, 1e12},
			  of_usd = {1.0 / MICROS, 1.0 / MICROS, 1e6},
			  of_price = {1.0 / MICROS, 0, 1e4};

const char *rules_budget_per_word(enum rules_budget_per per)
{
	return per == RULES_PER_KEY ? "key" : "sandbox";
}

const char *rules_budget_window_word(enum rules_budget_window window)
{
	return window == RULES_IN_TOTAL ? "total" : "day";
}

/* --- the members of a budget --- */

/* An absent member leaves *ret. */
static int take_amount(const struct policy_at *of, json_t *object, const char *name,
	const struct range *range, uint64_t *ret)
{
	struct policy_at at = policy_member(of, name);
	json_t *v = json_object_get(object, name);
	double n = json_number_value(v);
	bool whole = range->unit >= 1;

	if (!v)
		return 0;
	if (!json_is_number(v) || n < range->min || n > range->max ||
		(whole && !json_is_integer(v)))
		return error_set(of->e, ERROR_USAGE, EINVAL,
			"%s: expected a %snumber from %.7g to %.0f", at.text, whole ? "whole " : "",
			range->min, range->max);
	*ret = (uint64_t)(n / range->unit + 0.5);
	return 0;
}

/* One of two words; an absent member is the first. */
static int take_word(const struct policy_at *of, json_t *object, const char *name,
	const char *first, const char *second, bool *ret)
{
	struct policy_at at = policy_member(of, name);
	json_t *v = json_object_get(object, name);
	const char *text = json_string_value(v);

	if (v && (!text || (strcmp(text, first) != 0 && strcmp(text, second) != 0)))
		return error_set(of->e, ERROR_USAGE, EINVAL, "%s: expected \"%s\" or \"%s\"",
			at.text, first, second);
	*ret = v && strcmp(text, second) == 0;
	return 0;
}

static int take_amounts(const struct policy_at *at, json_t *v, struct rules_amounts *limits)
{
	int e = take_amount(at, v, "requests", &of_requests, &limits->requests);

	e = e ? e : take_amount(at, v, "tokens", &of_tokens, &limits->tokens);
	e = e ? e : take_amount(at, v, "usd", &of_usd, &limits->micros);
	if (e == 0 && !limits->requests && !limits->tokens && !limits->micros)
		return policy_bad(at, "expected \"requests\", \"tokens\" or \"usd\"");
	return e;
}

static int take_budget(const struct policy_at *at, json_t *v, struct rules_budget *b)
{
	static const char *const names[] = {
		"requests", "tokens", "usd", "per", "window", "then", NULL};
	bool key = false, total = false;
	int e = policy_known_members(at, v, names);

	e = e ? e : take_amounts(at, v, &b->limits);
	e = e ? e : take_word(at, v, "per", "sandbox", "key", &key);
	e = e ? e : take_word(at, v, "window", "day", "total", &total);
	e = e ? e : take_word(at, v, "then", "deny", "ask", &b->ask);
	b->per = key ? RULES_PER_KEY : RULES_PER_SANDBOX;
	b->window = total ? RULES_IN_TOTAL : RULES_PER_DAY;
	return e;
}

/* Tokens are those of models, which the body names. */
static int need_body(
	const struct policy_at *at, const struct rules_budget *b, struct rules_call *call)
{
	if (!b->limits.tokens && !b->limits.micros)
		return 0;
	if (!call || call->apis & CALL_MCP)
		return policy_bad(at, "tokens and usd are for models: say which with \"api\" or "
				      "\"models\"");
	call->body = true;
	return 0;
}

int rules_budget_make(const struct policy_at *of, json_t *rule, struct rules_call *call,
	struct rules_budget **ret)
{
	struct policy_at at = policy_member(of, "budget");
	json_t *v = json_object_get(rule, "budget");
	const char *action = policy_text(rule, "action");
	int e;

	if (!v)
		return 0;
	if (!action || strcmp(action, "allow") != 0)
		return policy_bad(&at, "only rules that allow have a budget");
	if (!policy_text(rule, "id"))
		return policy_bad(&at, "the rule needs an id, by which it is counted");
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	e = take_budget(&at, v, *ret);
	return e ? e : need_body(&at, *ret, call);
}

void rules_budget_free(struct rules_budget *b)
{
	free(b);
}

/* --- prices --- */

static int take_price(
	const struct policy_at *at, const char *model, json_t *v, struct rules_price *p)
{
	static const char *const names[] = {"in", "out", NULL};
	size_t n = strlen(model);
	int e = policy_known_members(at, v, names);

	for (size_t i = 0; i < n && e == 0; i++)
		if (model[i] < '!' || model[i] > '~')
			e = policy_bad(at, "expected a model's name in ASCII; * is a wildcard");
	if (e == 0 && (n == 0 || n > CALL_MODEL_MAX))
		e = policy_bad(at, "expected a model's name of 1 to 200 letters");
	e = e ? e : take_amount(at, v, "in", &of_price, &p->in);
	e = e ? e : take_amount(at, v, "out", &of_price, &p->out);
	if (e == 0 && (!json_object_get(v, "in") || !json_object_get(v, "out")))
		e = policy_bad(at, "expected \"in\" and \"out\", in USD for a million tokens");
	e = e ? e : rules_take_text(model, &p->model);
	for (char *s = e == 0 ? p->model : NULL; s && *s; s++)
		*s = (char)tolower((unsigned char)*s);
	return e;
}

int rules_prices_make(const struct policy_at *of, json_t *layer, struct rules_prices **ret)
{
	struct policy_at at = policy_member(of, "prices");
	json_t *prices = json_object_get(layer, "prices"), *v;
	const char *model;
	int e = 0;

	if (!prices)
		return 0;
	if (!json_is_object(prices) || json_object_size(prices) > RULES_PRICES_MAX)
		return policy_bad(&at, "expected an object of at most 64 models");
	*ret = calloc(1, sizeof(**ret));
	if (*ret)
		(*ret)->list = calloc(json_object_size(prices) + 1, sizeof((*ret)->list[0]));
	if (!*ret || !(*ret)->list)
		return -ENOMEM;
	json_object_foreach(prices, model, v)
	{
		struct policy_at one = policy_member(&at, model);

		e = e ? e : take_price(&one, model, v, &(*ret)->list[(*ret)->count++]);
	}
	return e;
}

void rules_prices_free(struct rules_prices *p)
{
	for (unsigned i = 0; p && i < p->count; i++)
		free(p->list[i].model);
	if (p)
		free(p->list);
	free(p);
}

const struct rules_price *rules_price_of(const struct rules_prices *p, const char *model)
{
	struct path_steps steps = {.left = PATH_STEPS_MAX}; /* of 64 patterns: enough */

	for (unsigned i = 0; p && i < p->count; i++)
		if (path_matches(p->list[i].model, model, &steps))
			return &p->list[i];
	return NULL;
}

uint64_t rules_price_micros(const struct rules_price *price, uint64_t in, uint64_t out)
{
	double micros = 0;
	uint64_t whole;

	if (price)
		micros = ((double)in * (double)price->in + (double)out * (double)price->out) /
			 MICROS;
	micros = micros < MICROS_MAX ? micros : MICROS_MAX;
	whole = (uint64_t)micros;
	return whole + ((double)whole < micros);
}
