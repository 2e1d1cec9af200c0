#include "network/approval_right.h"

#include <errno.h>

#include "proto/json_tree.h"

/* What the question says. */
struct said {
	struct rules_ask ask;
	bool unseen;
};

static struct said read_question(const char *text)
{
	json_t *asked = json_tree_stored(text);
	struct said s = {.ask = rules_ask_of(json_string_value(json_object_get(asked, "who")),
				 json_string_value(json_object_get(asked, "links"))),
		.unseen = json_is_true(json_object_get(asked, "unseen"))};

	if (!asked)
		s = (struct said){{RULES_ASK_OPERATOR, RULES_ASK_NO_LINKS}, true};
	json_decref(asked);
	return s;
}

static int forbid(struct error *e, const char *text)
{
	return error_set(e, ERROR_FORBIDDEN, EACCES, "%s", text);
}

static int check_key(const struct said *s, struct error *e)
{
	if (s->ask.who == RULES_ASK_OPERATOR)
		return forbid(
			e, "the rule that asks lets only the operator decide: see its \"ask\"");
	if (s->ask.who == RULES_ASK_PERSON)
		return forbid(e, "the rule that asks lets a person decide, by a link or in the "
				 "operator's terminal, but no API key");
	return 0;
}

static int check_link(const struct said *s, bool allow, bool longer, struct error *e)
{
	if (s->ask.who == RULES_ASK_OPERATOR || s->ask.links == RULES_ASK_NO_LINKS)
		return forbid(e, "the rule that asks lets no link decide: see its \"ask\"");
	if (longer && s->ask.links != RULES_ASK_LONGER)
		return forbid(e, "a link decides once: the rule that asks allows no more");
	if (allow && s->unseen)
		return forbid(e, "a link cannot allow what is not all shown: decide it with "
				 "mayfly approvals, or the API");
	return 0;
}

int approval_right_check(const char *question_json, const struct approval_decider *by,
	const struct store_approval *d, struct error *e)
{
	const struct said s = read_question(question_json);
	bool allow = d->state == STORE_APPROVAL_ALLOWED;
	int r = 0;

	if (by->by == APPROVAL_BY_KEY)
		r = check_key(&s, e);
	else if (by->by == APPROVAL_BY_LINK)
		r = check_link(&s, allow, d->scope != STORE_APPROVAL_ONCE, e);
	if (r == 0 && allow && s.unseen && !by->accepts_unseen)
		r = error_set(e, ERROR_USAGE, EINVAL,
			"not all of it is shown, or much of it is hidden: to allow it all the "
			"same, "
			"say \"acceptUnseen\": true");
	return r;
}

int approval_right_check_end(const char *question_json, struct error *e)
{
	const struct said s = read_question(question_json);

	return check_key(&s, e);
}

bool approval_right_has_link(const char *question_json, const char *rule, bool *ret_operator)
{
	const struct said s = read_question(question_json);

	*ret_operator = s.ask.who == RULES_ASK_PERSON && rule_digests_is_floor(rule);
	return s.ask.who != RULES_ASK_OPERATOR && s.ask.links != RULES_ASK_NO_LINKS;
}
