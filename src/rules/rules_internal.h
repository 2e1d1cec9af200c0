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

/* A member that is one value or an array of them. */
struct rules_list {
	struct policy_at at;
	json_t *value; /* the member's value; NULL: it is absent */
	size_t count;
};

int rules_list_begin(const struct policy_at *of, json_t *object, const char *name, size_t max,
	struct rules_list *ret);
json_t *rules_list_item(const struct rules_list *l, size_t i, struct policy_at *ret_at);

/* Allocates an array for the items, or NULL if there are none. Returns 0 or an error. */
int rules_list_make_room(const struct rules_list *l, size_t item_bytes, void **ret);

int rules_take_text(const char *text, char **ret);

/* ---- rules_parse.c ---- */

/* A header with its name in lower case. Without a value: NULL. */
int rules_take_header(
	const struct policy_at *of, const char *name, json_t *v, struct rules_header *ret);

/* ---- rules_headers.c ---- */

/* The member `headers` of a rule, whose other members were taken. Sets its scheme, too. */
int rules_headers_make(const struct policy_at *of, json_t *rule, struct rules_rule *r);

/* Whether headers name at most RULES_SECRETS_MAX different secrets. 0, or ERROR_LIMIT. */
int rules_headers_check(const struct policy_at *top, const struct rules *r);

/* ---- rules_fields.c ---- */

/* The member `requestHeaders` (header) or `query` of a rule. */
int rules_fields_make(const struct policy_at *of, json_t *rule, const char *member, bool header,
	enum rules_action action, struct rules_fields *ret);
void rules_fields_done(struct rules_fields *f);

/* Whether the form of a request must be read for a rule's `query`. */
bool rules_fields_need_form(const struct rules_rule *r, const struct rules_question *q);

enum rules_fit { RULES_FITS_NOT, RULES_FITS, RULES_FITS_UNCLEAR };

/* Whether both conditions fit. If it cannot be told, *ret_why says why. */
enum rules_fit rules_fields_fit(const struct rules_rule *r, const struct rules_question *q,
	struct path_steps *steps, const char **ret_why);

/* ---- rules_forward.c ---- */

/* The member `forward` of a rule, whose other members were taken. Sets its scheme, too. */
int rules_forward_make(const struct policy_at *of, json_t *rule, struct rules_rule *r);

/* ---- rules_call.c ---- */

/* Parses the members of a rule about models and tools. Sets *ret if there are any. */
int rules_call_make(const struct policy_at *of, json_t *rule, enum rules_action action,
	struct rules_call **ret);
void rules_call_free(struct rules_call *c);

/* Returns the API of a request to this path if the rule is about that API, else 0. */
unsigned rules_call_api(const struct rules_call *c, const char *path);

/* Takes a pattern, and lets its asterisks match slashes. It has at most CALL_MODEL_MAX bytes. */
int rules_take_wide(const char *text, char **ret);

/* Whether the rule matches a call. m: a message of MCP; NULL for a call to a model. If it cannot be
 * told, *ret_why says why. */
enum rules_fit rules_call_fits(const struct rules_rule *r, unsigned api, const struct call *call,
	const struct call_message *m, struct path_steps *steps, const char **ret_why);

/* Whether one of its `tools` matches the name; without any, none does. */
bool rules_call_names_tool(const struct rules_call *c, const char *tool, struct path_steps *steps);

/* Returns what a JSON pointer leads to, or NULL. *odd (if not NULL): a name on its way is there in
 * another spelling, so that some server may find something else. */
const json_t *rules_argument_find(const json_t *v, const char *pointer, bool *odd);

enum rules_fit rules_argument_fits(
	const struct rules_argument *a, bool hard, const json_t *arguments, const char **ret_why);

#endif
