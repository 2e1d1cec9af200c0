/* Parses the JSON of rules. Many members may be one value or an array of values. Every member is
 * checked. An unknown member is an error, because a rule must not mean less than its author
 * thinks. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/http_headers.h"
#include "rules/between_name.h"
#include "rules/rules_ask.h"
#include "rules/rules_internal.h"

enum { STATUS_MIN = 200, STATUS_MAX = 599 };

/* --- one or several --- */

int rules_list_begin(const struct policy_at *of, json_t *object, const char *name, size_t max,
	struct rules_list *ret)
{
	*ret = (struct rules_list){policy_member(of, name), json_object_get(object, name), 0};
	if (!ret->value)
		return 0;
	ret->count = json_is_array(ret->value) ? json_array_size(ret->value) : 1;
	if (ret->count == 0)
		return policy_bad(&ret->at, "expected at least one: leave it out for any");
	if (ret->count > max)
		return error_set(
			of->e, ERROR_LIMIT, E2BIG, "%s: has more than %zu", ret->at.text, max);
	return 0;
}

json_t *rules_list_item(const struct rules_list *l, size_t i, struct policy_at *ret_at)
{
	bool many = json_is_array(l->value);

	*ret_at = many ? policy_item(&l->at, i) : l->at;
	return many ? json_array_get(l->value, i) : l->value;
}

int rules_list_make_room(const struct rules_list *l, size_t item_bytes, void **ret)
{
	*ret = l->count ? calloc(l->count, item_bytes) : NULL;
	return l->count && !*ret ? -ENOMEM : 0;
}

/* --- what a rule matches --- */

static int take_host(const struct policy_at *at, const char *text, struct rules_host *h)
{
	char name[POLICY_HOST_MAX + 1];
	size_t n = text ? strlen(text) : 0;

	if (n == 0 || n >= sizeof(name))
		return policy_bad(at, "expected a name, *.name or *");
	for (size_t i = 0; i <= n; i++)
		name[i] = (char)tolower((unsigned char)text[i]);
	if (strcmp(name, "*") == 0) {
		h->kind = RULES_ANY_HOST;
		return 0;
	}
	h->kind = strncmp(name, "*.", 2) == 0 ? RULES_BELOW : RULES_EXACT;
	if (!policy_is_host(h->kind == RULES_BELOW ? name + 2 : name))
		return policy_bad(at, "expected a name, *.name or *");
	h->text = strdup(h->kind == RULES_BELOW ? name + 1 : name);
	h->bytes = strlen(h->text ? h->text : "");
	return h->text ? 0 : -ENOMEM;
}

static int take_hosts(const struct policy_at *of, json_t *object, struct rules_rule *r)
{
	struct rules_list l;
	int e = rules_list_begin(of, object, "host", RULES_ITEMS_MAX, &l);

	e = e ? e : rules_list_make_room(&l, sizeof(r->hosts[0]), (void **)&r->hosts);
	for (size_t i = 0; i < l.count && e == 0; i++) {
		struct policy_at at;
		const char *text = json_string_value(rules_list_item(&l, i, &at));

		e = take_host(&at, text, &r->hosts[r->host_count++]);
		if (e == 0 && r->hosts[i].text && between_name_is(r->hosts[i].text))
			r->between = true;
	}
	return e;
}

static int take_nets(const struct policy_at *of, json_t *object, struct rules_rule *r)
{
	struct rules_list l;
	int e = rules_list_begin(of, object, "net", RULES_ITEMS_MAX, &l);

	e = e ? e : rules_list_make_room(&l, sizeof(r->nets[0]), (void **)&r->nets);
	for (size_t i = 0; i < l.count && e == 0; i++) {
		struct policy_at at;
		const char *text = json_string_value(rules_list_item(&l, i, &at));

		if (!text || net_parse(text, &r->nets[r->net_count++]) < 0)
			e = policy_bad(&at, "expected IPv4 in CIDR form, 192.0.2.0/24");
	}
	return e;
}

static int take_ports(const struct policy_at *of, json_t *object, struct rules_rule *r)
{
	struct rules_list l;
	int e = rules_list_begin(of, object, "ports", RULES_PORTS_MAX, &l);

	e = e ? e : rules_list_make_room(&l, sizeof(r->ports[0]), (void **)&r->ports);
	for (size_t i = 0; i < l.count && e == 0; i++) {
		struct policy_at at;
		json_int_t v = json_integer_value(rules_list_item(&l, i, &at));

		if (v < 1 || v > UINT16_MAX) /* 0 for what is no number, too */
			return policy_bad(&at, "expected a port, 1 to 65535");
		r->ports[r->port_count++] = (uint16_t)v;
	}
	return e;
}

int rules_take_text(const char *text, char **ret)
{
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int take_methods(const struct policy_at *of, json_t *object, struct rules_rule *r)
{
	struct rules_list l;
	int e = rules_list_begin(of, object, "methods", RULES_ITEMS_MAX, &l);

	e = e ? e : rules_list_make_room(&l, sizeof(r->methods[0]), (void **)&r->methods);
	for (size_t i = 0; i < l.count && e == 0; i++) {
		struct policy_at at;
		const char *text = json_string_value(rules_list_item(&l, i, &at));

		if (!text || strlen(text) > RULES_METHOD_MAX || !http_is_token(text, strlen(text)))
			return policy_bad(&at, "expected a method, such as \"GET\"");
		e = rules_take_text(text, &r->methods[r->method_count]);
		for (char *s = r->methods[r->method_count++]; s && *s; s++)
			*s = (char)toupper((unsigned char)*s);
	}
	return e;
}

static int take_paths(const struct policy_at *of, json_t *object, struct rules_rule *r)
{
	struct rules_list l;
	int e = rules_list_begin(of, object, "paths", RULES_ITEMS_MAX, &l);

	e = e ? e : rules_list_make_room(&l, sizeof(r->paths[0]), (void **)&r->paths);
	for (size_t i = 0; i < l.count && e == 0; i++) {
		struct policy_at at;
		const char *text = json_string_value(rules_list_item(&l, i, &at));

		if (!text || !path_is_pattern(text))
			return policy_bad(&at,
				"expected a path of ASCII that begins with '/', without '?' and "
				"';', "
				"and with letters instead of %XX; * and ** are wildcards");
		e = rules_take_text(text, &r->paths[r->path_count++]);
	}
	return e;
}

static int take_scheme(const struct policy_at *of, json_t *object, struct rules_rule *r)
{
	struct policy_at at = policy_member(of, "scheme");
	json_t *v = json_object_get(object, "scheme");
	const char *text = json_string_value(v);

	if (!v)
		return 0;
	if (!text || (strcmp(text, "http") != 0 && strcmp(text, "https") != 0))
		return policy_bad(&at, "expected \"http\" or \"https\"");
	r->scheme = text[4] ? RULES_HTTPS : RULES_HTTP;
	return 0;
}

/* --- what a rule does --- */

static int take_action(const struct policy_at *of, json_t *object, struct rules_rule *r)
{
	static const enum rules_action actions[] = {
		RULES_DENY, RULES_ALLOW, RULES_ASK, RULES_RESPOND, RULES_LOG};
	struct policy_at at = policy_member(of, "action");
	const char *text = policy_text(object, "action");

	for (size_t i = 0; text && i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strcmp(text, rules_action_word(actions[i])) == 0) {
			r->action = actions[i];
			return 0;
		}
	return policy_bad(&at, "expected \"allow\", \"deny\", \"ask\", \"respond\" or \"log\"");
}

static bool is_printable(const char *text, size_t max)
{
	size_t n = text ? strlen(text) : 0;

	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return n && n <= max;
}

static int take_reason(const struct policy_at *of, json_t *object, struct rules_rule *r)
{
	struct policy_at at = policy_member(of, "reason");
	json_t *v = json_object_get(object, "reason");

	if (!v)
		return 0;
	if (!is_printable(json_string_value(v), RULES_REASON_MAX))
		return policy_bad(&at, "expected 1 to 160 printable characters of ASCII");
	if (r->action != RULES_DENY && r->action != RULES_ASK)
		return policy_bad(&at, "only rules that deny or ask have a reason");
	return rules_take_text(json_string_value(v), &r->reason);
}

/* Who decides is the daemon's matter. */
static int check_ask(const struct policy_at *of, json_t *object, const struct rules_rule *r)
{
	struct policy_at at = policy_member(of, "ask");
	struct rules_ask ask;
	const char *wrong;

	if (!json_object_get(object, "ask"))
		return 0;
	if (r->action != RULES_ASK && !(r->budget && r->budget->ask))
		return policy_bad(&at, "stands in rules that ask, or whose budget does");
	wrong = rules_ask_read(object, RULES_ASK_KEY, &ask);
	return wrong ? policy_bad(&at, wrong) : 0;
}

int rules_take_header(
	const struct policy_at *of, const char *name, json_t *v, struct rules_header *h)
{
	struct policy_at at = policy_member(of, name);
	const char *text = json_string_value(v);
	int e;

	if (!http_is_token(name, strlen(name)) || strlen(name) > 64 || http_is_reserved(name))
		return policy_bad(&at, "no header of this name may be set");
	if (v && (!text || strlen(text) > 2048 || !http_is_field_value(text, strlen(text))))
		return policy_bad(&at, "expected a string without control characters");
	e = rules_take_text(name, &h->name);
	for (char *s = h->name; s && *s; s++)
		*s = (char)tolower((unsigned char)*s);
	return e || !v ? e : rules_take_text(text, &h->value);
}

static int take_headers(const struct policy_at *of, json_t *object, struct rules_answer *a)
{
	struct policy_at at = policy_member(of, "headers");
	json_t *headers = json_object_get(object, "headers"), *v;
	const char *name;
	int e = 0;

	if (!headers)
		return 0;
	if (!json_is_object(headers) || json_object_size(headers) > RULES_HEADERS_MAX)
		return policy_bad(&at, "expected an object of at most 20 headers");
	a->headers = calloc(json_object_size(headers) + 1, sizeof(a->headers[0]));
	if (!a->headers)
		return -ENOMEM;
	json_object_foreach(headers, name, v) if (e == 0) e =
		rules_take_header(&at, name, v, &a->headers[a->header_count++]);
	return e;
}

static int take_body(const struct policy_at *of, json_t *object, struct rules_answer *a)
{
	struct policy_at at = policy_member(of, "body");
	json_t *v = json_object_get(object, "body");
	const char *text = v ? json_string_value(v) : "";

	if (!text || json_string_length(v) > RULES_BODY_MAX)
		return policy_bad(&at, "expected a string of at most 16384 bytes");
	a->body_bytes = strlen(text);
	return rules_take_text(text, &a->body);
}

static int take_answer(const struct policy_at *of, json_t *object, struct rules_rule *r)
{
	static const char *const names[] = {"status", "headers", "body", NULL};
	struct policy_at at = policy_member(of, "respond");
	json_t *v = json_object_get(object, "respond");
	int e;

	if (!v != (r->action != RULES_RESPOND))
		return policy_bad(
			&at, "is required with the action \"respond\", and allowed only there");
	if (!v)
		return 0;
	r->answer = calloc(1, sizeof(*r->answer));
	if (!r->answer)
		return -ENOMEM;
	r->answer->status = STATUS_MIN;
	e = policy_known_members(&at, v, names);
	e = e ? e : policy_get_number(&at, v, "status", STATUS_MIN, STATUS_MAX, &r->answer->status);
	e = e ? e : take_headers(&at, v, r->answer);
	e = e ? e : take_body(&at, v, r->answer);
	if (e == 0 && r->answer->body_bytes &&
		(r->answer->status == 204 || r->answer->status == 304))
		return policy_bad(&at, "an answer of this status has no body");
	return e;
}

static int take_upgrade(const struct policy_at *of, json_t *object, struct rules_rule *r)
{
	struct policy_at at = policy_member(of, "upgrade");
	json_t *v = json_object_get(object, "upgrade");

	if (v && !json_is_true(v))
		return policy_bad(&at, "expected true: leave it out for requests only");
	if (v && r->action != RULES_ALLOW && r->action != RULES_ASK)
		return policy_bad(&at, "stands in rules that allow or ask, and only there");
	r->upgrade = v;
	return 0;
}

/* --- rules --- */

/* Without one, it is its place: "rules[3]". */
static int take_id(
	const struct policy_at *of, json_t *object, const struct rules *all, struct rules_rule *r)
{
	struct policy_at at = policy_member(of, "id");
	json_t *v = json_object_get(object, "id");
	char text[32];

	(void)snprintf(text, sizeof(text), "rules[%u]", all->count - 1); /* fits */
	if (v && !is_printable(json_string_value(v), RULES_ID_MAX))
		return policy_bad(&at, "expected 1 to 64 printable characters of ASCII");
	return rules_take_text(v ? json_string_value(v) : text, &r->id);
}

static int check_between(const struct policy_at *at, const struct rules_rule *r)
{
	for (unsigned i = 0; i < r->host_count; i++)
		if (!r->hosts[i].text || !between_name_is(r->hosts[i].text))
			return policy_bad(at, "a rule for other sandboxes has no other hosts");
	if (r->requests || r->net_count || (r->action != RULES_ALLOW && r->action != RULES_DENY))
		return policy_bad(at, "a rule for other sandboxes allows or denies connections, "
				      "by host and ports");
	return 0;
}

static int take_rule(
	const struct policy_at *at, json_t *object, const struct rules *all, struct rules_rule *r)
{
	static const char *const names[] = {"id", "action", "host", "net", "ports", "methods",
		"paths", "scheme", "reason", "respond", "api", "models", "maxTokens", "serverTools",
		"tools", "arguments", "forward", "headers", "budget", "requestHeaders", "query",
		"upgrade", "ask", NULL};
	int e = policy_known_members(at, object, names);

	e = e ? e : take_id(at, object, all, r);
	e = e ? e : take_action(at, object, r);
	e = e ? e : take_hosts(at, object, r);
	e = e ? e : take_nets(at, object, r);
	e = e ? e : take_ports(at, object, r);
	e = e ? e : take_methods(at, object, r);
	e = e ? e : take_paths(at, object, r);
	e = e ? e : take_scheme(at, object, r);
	e = e ? e : take_reason(at, object, r);
	e = e ? e : take_answer(at, object, r);
	e = e ? e
	      : rules_fields_make(
			at, object, "requestHeaders", true, r->action, &r->request_headers);
	e = e ? e : rules_fields_make(at, object, "query", false, r->action, &r->query);
	e = e ? e : take_upgrade(at, object, r);
	e = e ? e : rules_call_make(at, object, r->action, &r->call);
	e = e ? e : rules_forward_make(at, object, r);
	e = e ? e : rules_headers_make(at, object, r);
	e = e ? e : rules_budget_make(at, object, r->call, &r->budget);
	e = e ? e : check_ask(at, object, r);
	if (r->budget)
		r->budget->prices = all->prices;
	r->requests = r->method_count || r->path_count || r->scheme || r->request_headers.count ||
		      r->query.count || r->upgrade || r->answer || r->call || r->budget;
	return e == 0 && r->between ? check_between(at, r) : e;
}

static int take_rules(const struct policy_at *of, json_t *object, unsigned max, struct rules *all)
{
	json_t *rules;
	struct policy_at at = policy_member(of, "rules");
	int n = policy_get_array(of, object, "rules", max, &rules), e = 0;

	if (n <= 0)
		return n;
	all->rules = calloc((size_t)n, sizeof(all->rules[0]));
	if (!all->rules)
		return -ENOMEM;
	for (int i = 0; i < n && e == 0; i++) {
		struct policy_at one = policy_item(&at, (size_t)i);
		struct rules_rule *r = &all->rules[all->count++];

		e = take_rule(&one, json_array_get(rules, (size_t)i), all, r);
		all->names = all->names || (r->host_count && !r->between) || r->requests;
	}
	return e;
}

/* --- layers --- */

/* One of two words. */
static int take_choice(const struct policy_at *of, json_t *object, const char *name, const char *no,
	const char *yes, bool *ret)
{
	struct policy_at at = policy_member(of, name);
	const char *text = policy_text(object, name);

	if (!text || (strcmp(text, no) != 0 && strcmp(text, yes) != 0))
		return error_set(of->e, ERROR_USAGE, EINVAL, "%s: expected \"%s\" or \"%s\"",
			at.text, no, yes);
	*ret = strcmp(text, yes) == 0;
	return 0;
}

int rules_make(const struct policy_at *at, json_t *layer, unsigned max, struct rules *ret)
{
	static const char *const names[] = {"version", "mode", "default", "rules", "prices", NULL};
	unsigned version;
	int e = policy_known_members(at, layer, names);

	*ret = (struct rules){.count = 0};
	e = e ? e : policy_get_number(at, layer, "version", RULES_VERSION, RULES_VERSION, &version);
	e = e ? e : take_choice(at, layer, "default", "deny", "allow", &ret->default_allow);
	if (e == 0 && json_object_get(layer, "mode"))
		e = take_choice(at, layer, "mode", "enforce", "observe", &ret->observe);
	e = e ? e : rules_prices_make(at, layer, &ret->prices);
	e = e ? e : take_rules(at, layer, max, ret);
	if (e < 0)
		rules_done(ret);
	return e;
}

/* --- documents --- */

static int check_ids(const struct policy_at *top, const struct rules *r)
{
	for (unsigned i = 0; i < r->count; i++)
		for (unsigned n = 0; n < i; n++)
			if (strcmp(r->rules[i].id, r->rules[n].id) == 0)
				return error_set(top->e, ERROR_USAGE, EINVAL,
					"%s%srules[%u].id: rules[%u] has this id, too", top->text,
					top->text[0] ? "." : "", i, n);
	return 0;
}

/* Ids that get a prefix must not be cut, as what is counted is known by them. */
static int check_budgets(const struct policy_at *top, const struct rules *r)
{
	unsigned budgets = 0;

	for (unsigned i = 0; i < r->count; i++) {
		const struct rules_rule *rule = &r->rules[i];

		if (rule->budget && strlen(rule->id) > RULES_BUDGET_ID_MAX)
			return error_set(top->e, ERROR_USAGE, EINVAL,
				"%s%srules[%u].id: of a rule with a budget it has at most %d bytes",
				top->text, top->text[0] ? "." : "", i, RULES_BUDGET_ID_MAX);
		budgets += rule->budget != NULL;
	}
	if (budgets > RULES_BUDGETS_MAX)
		return error_set(top->e, ERROR_LIMIT, E2BIG,
			"%s%srules: more than %d have a budget", top->text, top->text[0] ? "." : "",
			RULES_BUDGETS_MAX);
	return 0;
}

int rules_check(json_t *document, const char *what, struct error *e)
{
	struct policy_at top = {.e = e}, version = {.e = e};
	char *text = json_dumps(document, JSON_COMPACT | JSON_ENCODE_ANY);
	size_t bytes = text ? strlen(text) : 0;
	struct rules all;
	int r;

	free(text);
	if (bytes > RULES_DOCUMENT_BYTES)
		return error_set(e, ERROR_LIMIT, E2BIG, "%s: has %zu bytes, and may have %d", what,
			bytes, RULES_DOCUMENT_BYTES);
	(void)snprintf(top.text, sizeof(top.text), "%.40s", what); /* or is cut */
	version = policy_member(&top, "version");
	r = rules_make(&top, document, RULES_DOCUMENT_MAX, &all);
	if (r == -ENOMEM)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (r < 0)
		return r;
	r = json_object_get(document, "version") ? check_ids(&top, &all)
						 : policy_bad(&version, "expected 1");
	r = r ? r : rules_headers_check(&top, &all);
	r = r ? r : check_budgets(&top, &all);
	rules_done(&all);
	return r;
}
