/* What requests take of budgets (docs/policy.md#budgets). A request is charged with the most that
 * it may take before it goes on, and with what it took when it has ended. The two differ only if
 * the server has told how many tokens it counted, in an answer that came whole: what is cut off may
 * have cost all that was asked for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intercept/exchange_internal.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t greatest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void take_one(
	struct exchange_budget *ret, const struct rules_rule *rule, const struct call *call)
{
	const struct rules_budget *b = rule->budget;
	const struct rules_price *price = rules_price_of(b->prices, call ? call->model : "");

	(void)snprintf(ret->id, sizeof(ret->id), "%s", rule->id); /* as long */
	ret->per = b->per;
	ret->window = b->window;
	ret->ask = b->ask;
	ret->limits = b->limits;
	ret->price_in = price ? price->in : 0;
	ret->price_out = price ? price->out : 0;
	ret->most.requests = call && call->message_count ? call->message_count : 1;
}

int exchange_budget_take(
	struct exchange_request_state *q, const struct exchange_verdict *v, const struct call *call)
{
	bool counts = v->action == EXCHANGE_ALLOW || v->action == EXCHANGE_ASK;

	if (q->charge && q->charge->charged)
		return 0;
	free(q->charge);
	q->charge = counts && v->budget_count ? calloc(1, sizeof(*q->charge)) : NULL;
	if (!q->charge)
		return counts && v->budget_count ? -ENOMEM : 0;
	q->charge->asks = v->action == EXCHANGE_ASK;
	for (unsigned i = 0; i < v->budget_count && i < EXCHANGE_BUDGETS_MAX; i++)
		take_one(&q->charge->list[q->charge->count++], v->budgets[i], call);
	return 0;
}

static void set_tokens(
	struct rules_amounts *ret, const struct exchange_budget *b, uint64_t in, uint64_t out)
{
	const struct rules_price price = {.in = b->price_in, .out = b->price_out};

	ret->tokens = in + out;
	ret->micros = rules_price_micros(&price, in, out);
}

/* A token has a byte at least. */
static uint64_t most_in(const struct exchange_request_state *q)
{
	return q->up;
}

static uint64_t most_out(const struct call *call)
{
	uint64_t one = call->limited ? call->max_tokens : RULES_BUDGET_UNSAID;

	return least(one, UINT32_MAX) * (call->choices ? call->choices : 1);
}

void exchange_budget_estimate(struct exchange_request_state *q)
{
	const struct call *call = q->hold->call;

	for (unsigned i = 0; call && call->apis & CALL_MODELS && q->charge && i < q->charge->count;
		i++)
		set_tokens(
			&q->charge->list[i].most, &q->charge->list[i], most_in(q), most_out(call));
}

bool exchange_budget_is_blind(const struct exchange_request_state *q)
{
	if (!q->charge || q->charge->asks)
		return false;
	for (unsigned i = 0; i < q->charge->count; i++)
		if (q->charge->list[i].ask)
			return false;
	return true;
}

static void settle_one(const struct exchange_request_state *q, struct exchange_budget *b,
	const struct model_answer_said *said)
{
	bool whole = !q->verdict;

	b->took = b->most;
	if (!q->went || (whole && !said->counted && q->status >= 400)) {
		b->took.tokens = b->took.micros = 0;
	} else if (said->counted) {
		set_tokens(&b->took, b, said->tokens_in, said->tokens_out);
		if (!whole) {
			b->took.tokens = greatest(b->took.tokens, b->most.tokens);
			b->took.micros = greatest(b->took.micros, b->most.micros);
		}
	}
}

const struct exchange_charge *exchange_budget_end(
	struct exchange_request_state *q, const struct exchange_model *model)
{
	static const struct model_answer_said nothing;

	if (!q->charge || !q->charge->charged)
		return NULL;
	for (unsigned i = 0; i < q->charge->count; i++)
		settle_one(q, &q->charge->list[i], model ? &model->said : &nothing);
	return q->charge;
}
