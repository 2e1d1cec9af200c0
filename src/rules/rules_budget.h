/* Budgets of rules (docs/policy.md#budgets): how much of what a rule allows there is, in requests,
 * tokens and money, for a sandbox or for all sandboxes of a key. Here is what they say, and what a
 * request costs; who counts is the daemon. */
#ifndef RULES_RULES_BUDGET_H
#define RULES_RULES_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "rules/policy_json.h"

enum {
	RULES_BUDGETS_MAX = 16, /* of a document */
	RULES_PRICES_MAX = 64,	/* likewise */
	RULES_BUDGET_ID_MAX = 48,
	RULES_BUDGET_UNSAID = 32768, /* tokens that a request may get that does not say how many */
};

enum rules_budget_per { RULES_PER_SANDBOX, RULES_PER_KEY };
enum rules_budget_window { RULES_PER_DAY, RULES_IN_TOTAL };

/* Money is in millionths of a dollar. */
struct rules_amounts {
	uint64_t requests, tokens, micros;
};

/* Micros for a million tokens. */
struct rules_price {
	char *model; /* a pattern, in lower case; owned */
	uint64_t in, out;
};

struct rules_prices {
	struct rules_price *list;
	unsigned count;
};

struct rules_budget {
	enum rules_budget_per per;
	enum rules_budget_window window;
	bool ask;			   /* a person, when it is used up; else it denies */
	struct rules_amounts limits;	   /* 0: none */
	const struct rules_prices *prices; /* of its layer */
};

struct rules_call;

/* The member `budget` of a rule. call: what the rule says of models, or NULL; set to need the body
 * if the budget does. *ret stays NULL without the member. 0, -EINVAL or -ENOMEM. */
int rules_budget_make(const struct policy_at *of, json_t *rule, struct rules_call *call,
	struct rules_budget **ret);
void rules_budget_free(struct rules_budget *b); /* NULL is fine */

/* The member `prices` of a layer. *ret stays NULL without it. */
int rules_prices_make(const struct policy_at *of, json_t *layer, struct rules_prices **ret);
void rules_prices_free(struct rules_prices *p); /* likewise */

/* The first that fits a model; NULL: none. */
const struct rules_price *rules_price_of(const struct rules_prices *p, const char *model);

/* Of so many tokens, rounded up. price: NULL costs nothing. */
uint64_t rules_price_micros(const struct rules_price *price, uint64_t in, uint64_t out);

/* "sandbox", "key"; "day", "total". */
const char *rules_budget_per_word(enum rules_budget_per per);
const char *rules_budget_window_word(enum rules_budget_window window);

#endif
