#include "policy/network_shown.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "policy/network_document.h"
#include "policy/network_list.h"

enum { ENTRY_BYTES = NETWORK_HOST_MAX + 8 };

#define ONE_ADDRESS "/32"

/* "example.com:443", of a rule that network_rule() made. */
static json_t *entry_of(const json_t *rule)
{
	const char *host = json_string_value(json_object_get(rule, "host"));
	const char *net = json_string_value(json_object_get(rule, "net")),
		   *text = host ? host : net;
	json_int_t port = json_integer_value(json_array_get(json_object_get(rule, "ports"), 0));
	char entry[ENTRY_BYTES];
	int n = text ? (int)strlen(text) : 0;

	if (net && str_ends_with(net, ONE_ADDRESS))
		n -= (int)strlen(ONE_ADDRESS);
	if (port)
		(void)snprintf(entry, sizeof(entry), "%.*s:%d", n, text, (int)port); /* fits */
	else
		(void)snprintf(entry, sizeof(entry), "%.*s", n, text); /* likewise */
	return json_string(entry);
}

static json_t *entries_of(const json_t *rules)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < json_array_size(rules); i++)
		if (json_array_append_new(list, entry_of(json_array_get(rules, i))) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *of_operator(const struct network_floor *f)
{
	json_t *allow = NULL;

	if (f->mode == NETWORK_OFF)
		allow = json_array();
	else if (f->mode == NETWORK_ALLOW_LIST)
		allow = entries_of(f->rules);
	return json_pack("{s:o*, s:o*}", "allow", allow, "policy", f->policy ? json_true() : NULL);
}

static json_t *of_list(const char *text)
{
	return network_document_is(text) ? json_pack("{s:b}", "policy", 1)
					 : json_pack("{s:o*}", "allow", network_list_words(text));
}

/* Takes the floor. */
static void add(json_t *to, const char *name, json_t *floor)
{
	if (json_object_size(floor))
		(void)json_object_set(to, name, floor); /* or it is not shown */
	json_decref(floor);
}

json_t *network_floors_shown(const struct network_floors *floors)
{
	json_t *shown = json_object();

	if (floors->all)
		add(shown, "operator", of_operator(floors->all));
	add(shown, "key", of_list(floors->key));
	add(shown, "template", of_list(floors->template));
	if (json_object_size(shown))
		return shown;
	json_decref(shown);
	return NULL;
}
