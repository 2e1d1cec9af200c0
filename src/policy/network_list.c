#include "policy/network_list.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "policy/network_document.h"
#include "policy/network_floor.h"
#include "policy/network_target.h"

enum { WORD_BYTES = NETWORK_HOST_MAX + 8, ID_BYTES = 32 };

#define BETWEEN ", \t"
#define OFF	"off"
#define ON	"on"

/* Takes the next word; returns false at the end. A word that is too long is cut, and then is no
 * valid target. */
static bool next_word(const char **text, char out[WORD_BYTES])
{
	const char *s = *text + strspn(*text, BETWEEN);
	size_t n = strcspn(s, BETWEEN), kept = n < WORD_BYTES ? n : WORD_BYTES - 1;

	memcpy(out, s, kept);
	out[kept] = '\0';
	*text = s + n;
	return n > 0;
}

static bool is_off(const char *text)
{
	char word[WORD_BYTES];

	return next_word(&text, word) && strcmp(word, OFF) == 0 && !next_word(&text, word);
}

bool network_list_is_word(const char *word)
{
	return strcasecmp(word, ON) == 0 || strcasecmp(word, OFF) == 0;
}

static int check_word(const char *word, const char *what, struct error *e)
{
	struct network_target t;
	const char *reason;

	if (network_list_is_word(word))
		return error_set(e, ERROR_USAGE, EINVAL,
			"%s: '%s' is no name: write on or off alone", what, word);
	if (network_target_parse(word, true, &t, &reason) < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "%s: '%.140s': %s", what, word, reason);
	return 0;
}

int network_list_check(const char *text, const char *what, struct error *e)
{
	const char *rest = text ? text : "";
	char word[WORD_BYTES];
	unsigned count = 0;
	int r = 0;

	if (network_document_is(rest))
		return network_document_check(rest, what, e);
	if (strlen(rest) > NETWORK_LIST_TEXT_MAX)
		return error_set(
			e, ERROR_LIMIT, E2BIG, "%s: %d bytes at most", what, NETWORK_LIST_TEXT_MAX);
	if (is_off(rest))
		return 0;
	while (r == 0 && next_word(&rest, word))
		r = ++count > NETWORK_LIST_MAX
			    ? error_set(e, ERROR_LIMIT, E2BIG, "%s: %d names and addresses at most",
				      what, NETWORK_LIST_MAX)
			    : check_word(word, what, e);
	return r;
}

json_t *network_list_words(const char *text)
{
	const char *rest = text ? text : "";
	char word[WORD_BYTES];
	json_t *list = json_array();
	bool off = is_off(rest);

	while (list && !off && next_word(&rest, word))
		if (json_array_append_new(list, json_string(word)) < 0) {
			json_decref(list);
			return NULL;
		}
	if (off || json_array_size(list))
		return list;
	json_decref(list);
	return NULL;
}

static int add_rules(json_t *rules, const char *text, const char *id)
{
	char word[WORD_BYTES], name[ID_BYTES];
	struct network_target t;
	const char *reason;

	for (unsigned n = 0; n < NETWORK_LIST_MAX && next_word(&text, word); n++) {
		if (network_target_parse(word, true, &t, &reason) < 0)
			continue; /* `off`, or never: it was checked */
		(void)snprintf(name, sizeof(name), "%s[%u]", id, n); /* fits */
		if (json_array_append_new(rules, network_rule(name, "allow", &t)) < 0)
			return -1;
	}
	return 0;
}

int network_list_layer(const char *text, const char *id, json_t **ret)
{
	const struct network_target all = {.bits = 0};
	json_t *rules;
	char word[WORD_BYTES];
	const char *rest = text ? text : "";

	if (network_document_is(text)) {
		*ret = network_document_text_layer(text, id);
		return *ret ? 0 : -1;
	}
	if (!next_word(&rest, word))
		return 0;
	rules = json_array();
	if (!rules || (!is_off(text) && add_rules(rules, text, id) < 0) ||
		json_array_append_new(rules, network_rule(id, "deny", &all)) < 0) {
		json_decref(rules);
		return -1;
	}
	*ret = json_pack("{s:o, s:s}", "rules", rules, "default", "deny");
	return *ret ? 0 : -1;
}
