/* Shared by rules.c, rules_parse.c and rules_judge.c. */
#ifndef RULES_RULES_INTERNAL_H
#define RULES_RULES_INTERNAL_H

#include "rules/rules.h"

enum rules_host_kind { RULES_EXACT, RULES_BELOW, RULES_ANY_HOST };

struct rules_host {
	enum rules_host_kind kind;
	char *text; /* RULES_BELOW: from the dot on; RULES_ANY_HOST: NULL */
	size_t bytes;
};

/* A member that may be one or several. */
struct rules_list {
	struct policy_at at;
	json_t *value; /* of the member; NULL: it is absent */
	size_t count;
};

int rules_list_begin(const struct policy_at *of, json_t *object, const char *name, size_t max,
	struct rules_list *ret);
json_t *rules_list_item(const struct rules_list *l, size_t i, struct policy_at *ret_at);

/* Room for the items; NULL for none. */
int rules_list_make_room(const struct rules_list *l, size_t item_bytes, void **ret);

int rules_take_text(const char *text, char **ret);

/* ---- rules_call.c ---- */

/* The members of a rule that speak of models and tools. Sets *ret if there are any. */
int rules_call_make(const struct policy_at *of, json_t *rule, enum rules_action action,
	struct rules_call **ret);
void rules_call_free(struct rules_call *c);

/* The API that a request to this path is one of, as far as the rule speaks of it; or 0. */
unsigned rules_call_api(const struct rules_call *c, const char *path);

/* Whether the rule is about a call, or a message of it (NULL: of models). */
bool rules_call_matches(const struct rules_rule *r, unsigned api, const struct call *call,
	const struct call_message *m);

#endif
