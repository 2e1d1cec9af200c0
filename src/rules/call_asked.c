#include "rules/call_asked.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/str.h"
#include "rules/rules_internal.h"

/* What the digest is of, in any order and with some twice. */
struct items {
	char **list;
	unsigned count;
};

/* The letter tells kinds apart. values: of arguments, as JSON without line ends. */
static int add_item(struct items *to, char kind, const char *name, const char *values)
{
	char **grown = array_grow(to->list, to->count, sizeof(grown[0]));

	if (!grown)
		return -ENOMEM;
	to->list = grown;
	grown[to->count] = str_printf("%c%s\n%s", kind, name, values);
	return grown[to->count] ? (to->count++, 0) : -ENOMEM;
}

static void free_items(struct items *i)
{
	for (unsigned n = 0; n < i->count; n++)
		free(i->list[n]);
	free(i->list);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_text(EVP_MD_CTX *c, const char *text)
{
	return EVP_DigestUpdate(c, text, strlen(text) + 1);
}

static int digest(struct items *of, const char *api, char out[CALL_ASKED_DIGEST])
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	uint8_t hash[EVP_MAX_MD_SIZE];
	bool good = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) && add_text(c, api);

	if (of->count)
		qsort(of->list, of->count, sizeof(of->list[0]), compare);
	for (unsigned i = 0; good && i < of->count; i++)
		if (i == 0 || strcmp(of->list[i], of->list[i - 1]) != 0)
			good = add_text(c, of->list[i]);
	good = good && EVP_DigestFinal_ex(c, hash, NULL);
	EVP_MD_CTX_free(c);
	if (good)
		str_hex(hash, 32, out);
	return good ? 0 : -ENOMEM;
}

static void show(struct call_asked_names *to, const char *name)
{
	for (unsigned i = 0; i < to->count; i++)
		if (strcmp(to->names[i], name) == 0)
			return;
	if (to->count < CALL_ASKED_MAX)
		to->names[to->count++] = name;
	else
		to->more = true;
}

/* --- models --- */

static int take_tools(const struct rules_call *c, const struct call_names *tools, bool about,
	struct call_asked *ret, struct items *items)
{
	struct path_steps steps = {.left = PATH_STEPS_MAX}; /* the judgement needed no more */
	int r = 0;

	for (unsigned i = 0; r == 0 && i < tools->count; i++) {
		if (rules_call_names_tool(c, tools->names[i], &steps) != about)
			continue;
		show(&ret->tools, tools->names[i]);
		r = about ? add_item(items, 't', tools->names[i], "") : 0;
	}
	return r;
}

static int take_model(const struct rules_call *c, const struct call *call, struct call_asked *ret,
	struct items *items)
{
	const struct call_names *run = &call->server_tools;
	int r = add_item(items, 'm', call->model, "");

	ret->model = call->model;
	for (unsigned i = 0; r == 0 && i < run->count; i++) {
		show(&ret->server_tools, run->names[i]);
		r = add_item(items, 's', run->names[i], "");
	}
	r = r ? r : take_tools(c, &call->tools, true, ret, items);
	return r ? r : take_tools(c, &call->tools, false, ret, items);
}

/* --- MCP --- */

/* Adds a tool with the values that the rule's conditions look at. */
static int add_call(const struct rules_call *c, const struct call_message *m, struct items *items)
{
	json_t *values = json_array();
	char *text;
	int r = values ? 0 : -ENOMEM;

	for (unsigned i = 0; r == 0 && i < c->argument_count; i++)
		if (json_array_append(values, (json_t *)rules_argument_find(
						      m->arguments, c->arguments[i].at, NULL)) < 0)
			r = -ENOMEM;
	text = r ? NULL : json_dumps(values, JSON_COMPACT | JSON_SORT_KEYS);
	r = text ? add_item(items, 't', m->tool, text) : -ENOMEM;
	free(text);
	json_decref(values);
	return r;
}

/* A rule that asks matches calls of tools only. The others of a batch count, too: a rule of another
 * layer may ask about them. */
static int take_messages(const struct rules_rule *rule, const struct call *call, bool about,
	struct call_asked *ret, struct items *items)
{
	struct path_steps steps = {.left = PATH_STEPS_MAX}; /* the judgement needed no more */
	const char *why;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < call->message_count; i++) {
		const struct call_message *m = &call->messages[i];
		const char *name = m->tool ? m->tool : m->method;

		if (!name || (rules_call_fits(rule, CALL_MCP, call, m, &steps, &why) ==
				     RULES_FITS) != about)
			continue;
		show(m->tool ? &ret->tools : &ret->methods, name);
		r = about ? add_call(rule->call, m, items)
			  : add_item(items, m->tool ? 'c' : 'o', name, "");
	}
	return r;
}

int call_asked_make(const struct rules_rule *rule, const struct call *call, struct call_asked *ret)
{
	const struct rules_call *c = rule ? rule->call : NULL;
	struct items items = {.list = NULL};
	int r;

	*ret = (struct call_asked){.model = ""};
	if (!c || !c->body || !call)
		return 0;
	ret->api = call->apis & c->apis & CALL_MODELS;
	ret->api = ret->api ? ret->api : CALL_MCP;
	if (ret->api == CALL_MCP) {
		r = take_messages(rule, call, true, ret, &items);
		r = r ? r : take_messages(rule, call, false, ret, &items);
	} else {
		r = take_model(c, call, ret, &items);
	}
	r = r ? r : digest(&items, call_api_word(ret->api), ret->digest);
	free_items(&items);
	return r;
}
