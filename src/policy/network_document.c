#include "policy/network_document.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "proto/json_tree.h"
#include "rules/rules.h"

enum { FILE_BYTES_MAX = 1024 * 1024 }; /* with blanks, and decisions */

static int parse_json(const char *text, size_t n, const char *what, json_t **ret, struct error *e)
{
	const char *reason = NULL;

	*ret = json_tree_parse(text, n, JSON_TREE_UNIQUE | JSON_TREE_NO_NUL, &reason);
	return *ret ? 0
		    : error_set(e, ERROR_USAGE, EINVAL, "%s: %s", what,
			      reason ? reason : "out of memory");
}

static int parse(const char *text, size_t n, const char *what, json_t **ret, struct error *e)
{
	json_t *v = NULL;
	int r = parse_json(text, n, what, &v, e);

	r = r ? r : rules_check(v, what, e);

	if (r < 0)
		json_decref(v);
	else
		*ret = v;
	return r;
}

/* Moves the member `decisions` out of a document. */
static int take_decisions(json_t *document, const char *what, json_t **ret, struct error *e)
{
	json_t *list = json_object_get(document, "decisions");

	if (list && !json_is_array(list))
		return error_set(e, ERROR_USAGE, EINVAL,
			"%s.decisions: expected an array as mayfly policy prints it", what);
	*ret = json_incref(list);
	(void)json_object_del(document, "decisions"); /* it may be absent */
	return 0;
}

static int read_both(const char *text, size_t n, const char *what, json_t **ret,
	json_t **ret_decisions, struct error *e)
{
	json_t *v = NULL, *decisions = NULL;
	int r = parse_json(text, n, what, &v, e);

	r = r ? r : take_decisions(v, what, &decisions, e);
	r = r ? r : rules_check(v, what, e);
	if (r == 0) {
		*ret = json_incref(v);
		*ret_decisions = json_incref(decisions);
	}
	json_decref(decisions);
	json_decref(v);
	return r;
}

int network_document_read(
	const char *path, const char *what, json_t **ret, json_t **ret_decisions, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	int r = file_read(AT_FDCWD, path, FILE_BYTES_MAX, &text, &n);

	if (r < 0)
		return error_set_errno(e, ERROR_USAGE, -r, "%s: cannot read %.200s", what, path);
	return ret_decisions ? read_both(text, n, what, ret, ret_decisions, e)
			     : parse(text, n, what, ret, e);
}

bool network_document_is(const char *text)
{
	return text && text[strspn(text, " \t\r\n")] == '{';
}

static bool names_secret(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && strstr(text, "${e2b.");
}

/* Of one rule. */
static int check_headers(json_t *headers, const char *what, size_t i, struct error *e)
{
	const char *name;
	json_t *v;

	json_object_foreach(headers, name, v) if (names_secret(v)) return error_set(e, ERROR_USAGE,
		EINVAL,
		"%s.rules[%zu].headers.%.100s: only the policy of a sandbox itself knows secrets",
		what, i, name);
	return 0;
}

int network_document_no_secrets(const json_t *document, const char *what, struct error *e)
{
	const json_t *rules = json_object_get(document, "rules");
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(rules); i++)
		r = check_headers(json_object_get(json_array_get(rules, i), "headers"), what, i, e);
	return r;
}

int network_document_check(const char *text, const char *what, struct error *e)
{
	json_t *v = NULL;
	int r = parse(text, strlen(text), what, &v, e);

	r = r ? r : network_document_no_secrets(v, what, e);
	json_decref(v);
	return r;
}

static int name_rule(json_t *rule, const char *prefix, size_t i)
{
	const char *id = json_string_value(json_object_get(rule, "id"));
	char text[RULES_ID_MAX + 1];

	if (id)
		(void)snprintf(text, sizeof(text), "%s.%s", prefix, id); /* or is cut */
	else
		(void)snprintf(text, sizeof(text), "%s.rules[%zu]", prefix, i); /* fits */
	return json_object_set_new(rule, "id", json_string(text));
}

static int hide_secret(json_t *value)
{
	return names_secret(value) ? json_string_set(value, RULES_NO_SECRET) : 0;
}

/* Secrets are of a sandbox's own policy. Documents of others that were stored before this was
 * checked may name some: their requests fail. The new value is no longer than any that names a
 * secret, so the document stays within its bounds. */
static int hide_secrets(json_t *rule)
{
	json_t *headers = json_object_get(rule, "headers"), *v;
	const char *name;
	int r = 0;

	json_object_foreach(headers, name, v) r = r ? r : hide_secret(v);
	return r;
}

json_t *network_document_layer(const json_t *document, const char *prefix)
{
	json_t *layer = json_deep_copy(document);
	json_t *rules = json_object_get(layer, "rules");
	int r = layer ? 0 : -1;

	for (size_t i = 0; r == 0 && *prefix && i < json_array_size(rules); i++) {
		r = name_rule(json_array_get(rules, i), prefix, i);
		r = r ? r : hide_secrets(json_array_get(rules, i));
	}
	if (r == 0)
		return layer;
	json_decref(layer);
	return NULL;
}

json_t *network_document_text_layer(const char *text, const char *prefix)
{
	json_t *v = json_tree_stored(text), *layer;

	if (!v)
		return json_pack("{s:s}", "default", "deny");
	layer = network_document_layer(v, prefix);
	json_decref(v);
	return layer;
}

int network_document_inspected(const json_t *document, json_t *hosts)
{
	struct error e = {0};
	struct policy_at top = {.e = &e};
	struct rules all;
	int r;

	if (!document || rules_make(&top, (json_t *)document, RULES_MAX, &all) < 0)
		return 0; /* it judges nothing that is not denied */
	r = rules_inspected(&all, hosts);
	rules_done(&all);
	return r;
}
