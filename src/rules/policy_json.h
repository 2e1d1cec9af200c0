/* Reads the JSON of policies. All errors are ERROR_USAGE and begin with the member that is wrong:
 * "rules[3].net: expected ...". */
#ifndef RULES_POLICY_JSON_H
#define RULES_POLICY_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/error.h"

enum { POLICY_HOST_MAX = 253, POLICY_MEMBER_MAX = 96 };

/* A place in the policy, for messages. */
struct policy_at {
	char text[POLICY_MEMBER_MAX];
	struct error *e;
};

/* Fills the error. Returns -EINVAL. */
int policy_bad(const struct policy_at *at, const char *wanted);

struct policy_at policy_member(const struct policy_at *of, const char *name);
struct policy_at policy_item(const struct policy_at *of, size_t i);

/* Checks that `object` is an object with no members but these. names ends with NULL. Returns 0 or
 * -EINVAL. */
int policy_known_members(const struct policy_at *at, json_t *object, const char *const *names);

/* Reads a number from min to max. If the member is absent, *ret stays as it is. Returns 0 or
 * -EINVAL. */
int policy_get_number(const struct policy_at *of, json_t *object, const char *name, json_int_t min,
	json_int_t max, unsigned *ret);

/* Returns the member's text, or NULL if it is absent or no text. */
const char *policy_text(json_t *object, const char *name);

/* Checks that the member is an array of at most max items, or absent. Returns its length or
 * -EINVAL. */
int policy_get_array(
	const struct policy_at *of, json_t *object, const char *name, size_t max, json_t **ret);

/* Whether text is a name of labels of a-z 0-9 - _ in lower case, of at most POLICY_HOST_MAX
 * bytes. */
bool policy_is_host(const char *text);

#endif
