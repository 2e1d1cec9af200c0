#include "rules/rules_ask.h"

#include <string.h>

static const char *const who_words[] = {
	[RULES_ASK_KEY] = "key", [RULES_ASK_PERSON] = "person", [RULES_ASK_OPERATOR] = "operator"};
static const char *const links_words[] = {
	[RULES_ASK_LONGER] = "longer", [RULES_ASK_ONCE] = "once", [RULES_ASK_NO_LINKS] = "no"};

/* The place of a word in a list; `otherwise` for none, and count for another one. */
static unsigned find(const char *word, const char *const *words, unsigned count, unsigned otherwise)
{
	unsigned i = 0;

	while (word && i < count && strcmp(word, words[i]) != 0)
		i++;
	return word ? i : otherwise;
}

const char *rules_ask_who_word(enum rules_ask_who who)
{
	return who_words[who];
}

const char *rules_ask_links_word(enum rules_ask_links links)
{
	return links_words[links];
}

static bool is_text_or_none(const json_t *v)
{
	return !v || json_is_string(v);
}

static bool has_others(const json_t *ask)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)ask, name, v)
	{
		if (strcmp(name, "who") != 0 && strcmp(name, "links") != 0)
			return true;
	}
	return false;
}

const char *rules_ask_read(const json_t *rule, enum rules_ask_who otherwise, struct rules_ask *ret)
{
	const json_t *ask = json_object_get(rule, "ask"), *who = json_object_get(ask, "who"),
		     *links = json_object_get(ask, "links");
	unsigned w, l;

	*ret = (struct rules_ask){RULES_ASK_OPERATOR, RULES_ASK_NO_LINKS};
	if (ask && (!json_is_object(ask) || has_others(ask)))
		return "expected an object of \"who\" and \"links\"";
	w = find(json_string_value(who), who_words, RULES_ASK_WHO_, otherwise);
	if (!is_text_or_none(who) || w == RULES_ASK_WHO_)
		return "who must be \"operator\", \"key\" or \"person\"";
	l = find(json_string_value(links), links_words, RULES_ASK_LINKS_,
		w == RULES_ASK_OPERATOR ? RULES_ASK_NO_LINKS : RULES_ASK_ONCE);
	if (!is_text_or_none(links) || l == RULES_ASK_LINKS_)
		return "links must be \"no\", \"once\" or \"longer\"";
	if (w == RULES_ASK_OPERATOR && l != RULES_ASK_NO_LINKS)
		return "the operator decides by no link: links must be \"no\", or missing";
	*ret = (struct rules_ask){(enum rules_ask_who)w, (enum rules_ask_links)l};
	return NULL;
}

struct rules_ask rules_ask_of(const char *who, const char *links)
{
	unsigned w = find(who, who_words, RULES_ASK_WHO_, RULES_ASK_KEY);
	unsigned l = find(links, links_words, RULES_ASK_LINKS_, RULES_ASK_ONCE);

	return (struct rules_ask){w < RULES_ASK_WHO_ ? (enum rules_ask_who)w : RULES_ASK_OPERATOR,
		l < RULES_ASK_LINKS_ ? (enum rules_ask_links)l : RULES_ASK_NO_LINKS};
}
