#include "cli/sandbox/policy_check.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/place.h"
#include "base/str.h"
#include "cli/json.h"
#include "cli/sandbox/policy_decision.h"
#include "policy/cdn.h"
#include "policy/network_document.h"
#include "proto/http_headers.h"
#include "proto/json_tree.h"
#include "rules/between_name.h"
#include "rules/rules.h"

enum { STEPS_MAX = 3 };

/* What is asked about. */
struct question {
	char *text; /* what the strings are in; owned */
	char clean[RULES_PATH_MAX + 1], path_digest[POLICY_DECISION_DIGEST];
	struct rules_question asked;
	struct call_reader *reader; /* of its body; NULL: none was read */
	char *body;		    /* owned; NULL: not known */
	size_t body_bytes;
	struct http_header *fields; /* of its headers; owned, with their texts */
	struct http_headers headers;
};

/* One judgement on the way. */
struct step {
	const char *what, *says;
	struct rules_verdict v;
	const char *rule, *reason; /* NULL: those of the verdict */
};

static int bad(struct error *e)
{
	return error_set(e, ERROR_USAGE, EINVAL,
		"--as: give 'METHOD URL', such as 'GET https://api.example.com/path', or HOST:PORT "
		"of a connection");
}

/* "HOST[:PORT]" */
static int take_host(char *text, unsigned port, struct rules_question *q)
{
	char *colon = strchr(text, ':');
	uint64_t given = port;

	if (colon && (str_parse_u64(colon + 1, &given) < 0 || given < 1 || given > UINT16_MAX))
		return -EINVAL;
	if (colon)
		*colon = '\0';
	q->port = (uint16_t)given;
	for (char *s = text; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	if (str_ends_with(text, "."))
		text[strlen(text) - 1] = '\0';
	if (net_parse_address(text, &q->address) == 0)
		return 0;
	q->name = text;
	return policy_is_host(text) ? 0 : -EINVAL;
}

static int take_request(char *url, struct question *q)
{
	const char *asked, *query;
	char *host, *path;

	q->asked.tls = strncasecmp(url, "https://", 8) == 0;
	if (!q->asked.tls && strncasecmp(url, "http://", 7) != 0)
		return -EINVAL;
	host = strstr(url, "://") + 3;
	path = host + strcspn(host, "/?#");
	asked = *path == '/' ? path : "/";
	if (path_clean(asked, strcspn(asked, "?#"), q->clean) == 0)
		q->asked.path = q->clean;
	policy_decision_digest(asked, strcspn(asked, "?#"), q->path_digest);
	query = path + strcspn(path, "?#");
	q->asked.query = *query == '?' ? query + 1 : NULL;
	path[strcspn(path, "#")] = '\0';
	*path = '\0';
	q->asked.kind = RULES_REQUEST;
	return take_host(host, q->asked.tls ? 443 : 80, &q->asked);
}

static int parse(const char *as, struct question *q, struct error *e)
{
	char *blank;

	q->text = strdup(as);
	if (!q->text)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	q->asked.kind = RULES_FLOW;
	blank = strchr(q->text, ' ');
	if (!blank)
		return take_host(q->text, 443, &q->asked) < 0 ? bad(e) : 0;
	*blank = '\0';
	q->asked.method = q->text;
	if (strpbrk(q->text, "abcdefghijklmnopqrstuvwxyz"))
		return error_set(e, ERROR_USAGE, EINVAL,
			"--as: methods are in capitals; requests with others do not pass");
	return take_request(blank + 1 + strspn(blank + 1, " "), q) < 0 ? bad(e) : 0;
}

/* Takes "NAME: VALUE". */
static int take_header(const char *text, struct http_header *h, struct error *e)
{
	size_t n = strcspn(text, ":");
	const char *value = text + n + (text[n] == ':');

	value += strspn(value, " ");
	if (text[n] != ':' || !http_is_token(text, n) || !http_is_field_value(value, strlen(value)))
		return error_set(e, ERROR_USAGE, EINVAL,
			"--header: give 'NAME: VALUE', such as 'prefer: respond-async'");
	*h = (struct http_header){strndup(text, n), strdup(value), n, strlen(value)};
	return h->name && h->value ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int take_headers(const struct option_list *from, struct question *q, struct error *e)
{
	int r = 0;

	if (from->count && q->asked.kind != RULES_REQUEST)
		return error_set(e, ERROR_USAGE, EINVAL, "--header: needs --as 'METHOD URL'");
	q->fields = calloc(from->count + 1, sizeof(q->fields[0]));
	if (!q->fields)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	q->headers.items = q->fields;
	for (unsigned i = 0; i < from->count && r == 0; i++)
		r = take_header(from->items[i], &q->fields[q->headers.count++], e);
	return r;
}

/* What the worker finds out of a request's head before it is judged. */
static void read_head(struct question *q)
{
	const char *upgrade = http_header_get(&q->headers, "upgrade");

	q->asked.headers = &q->headers;
	q->asked.two_methods = rules_has_two_methods(&q->headers, q->asked.query);
	q->asked.two_paths = rules_has_two_paths(&q->headers);
	if (q->asked.two_paths)
		q->asked.path = NULL;
	q->asked.upgrade = upgrade && strcasecmp(upgrade, "websocket") == 0 &&
			   strcmp(q->asked.method, "GET") == 0;
}

/* Without a type, the text tells a form. */
static bool is_json(const char *body)
{
	body += strspn(body, " \t\r\n");
	return *body == '{' || *body == '[';
}

static int read_body(const char *file, struct question *q, struct error *e)
{
	int r;

	if (q->asked.kind != RULES_REQUEST)
		return error_set(e, ERROR_USAGE, EINVAL, "--body: needs --as 'METHOD URL'");
	r = file_read(AT_FDCWD, file, CALL_BODY_MAX + 1, &q->body, &q->body_bytes);
	q->asked.has_body = r >= 0 && q->body_bytes > 0;
	q->asked.form = q->asked.has_body &&
			(http_header_get(&q->headers, "content-type") || !is_json(q->body)) &&
			rules_may_be_form(q->asked.method, true, &q->headers);
	return r < 0 ? error_set_errno(e, ERROR_USAGE, -r, "cannot read %s", file) : 0;
}

/* The request, and its body if that decides. */
static struct rules_verdict judge_request(const struct rules *rules, struct question *q)
{
	struct rules_verdict v = rules_judge(rules, &q->asked);

	if (!v.body || !q->body)
		return v;
	q->reader = call_reader_new(v.body, q->asked.path,
		http_header_get(&q->headers, "content-type") ? &q->headers : NULL);
	if (!q->reader)
		return v;
	(void)call_reader_feed(q->reader, q->body, q->body_bytes); /* the end says the same */
	q->asked.call = call_reader_end(q->reader);
	q->asked.two_methods |= q->asked.call->two_methods;
	return rules_judge(rules, &q->asked);
}

static bool is_inspected(const struct step *s)
{
	return s->v.inspect && s->v.action == RULES_ALLOW;
}

/* Other sandboxes are reached if a rule names them. Returns 0 if the name is another one. */
static unsigned judge_between(
	const struct rules *rules, const struct rules_question *q, struct step *ret)
{
	if (!q->name || !between_name_is(q->name))
		return 0;
	*ret = (struct step){"connection", NULL, rules_judge_between(rules, q->name, q->port)};
	if (!ret->v.rule)
		ret->reason = "no rule allows other sandboxes by name";
	return 1;
}

/* Where no rule leads. The operator may have opened private ranges. */
static unsigned judge_place(const struct rules_question *q, struct step *ret)
{
	const char *what = NULL;
	enum place place = q->name ? PLACE_PUBLIC : place_of(q->address, &what);
	bool closed = place == PLACE_CLOSED;

	if (place == PLACE_PUBLIC)
		return 0;
	*ret = (struct step){.what = "address",
		.says = closed ? "never dialled" : "dialled only where the operator allows it",
		.v.action = closed ? RULES_DENY : RULES_ALLOW,
		.rule = "place",
		.reason = what};
	return 1;
}

/* In the order in which the worker judges; the last one decides. */
static unsigned judge(const struct rules *rules, struct question *q, struct step steps[STEPS_MAX])
{
	struct rules_question flow = q->asked;
	struct step *s = steps;

	if (judge_between(rules, &flow, s))
		return 1;
	s += judge_place(&flow, s);
	if (s > steps && s[-1].v.action == RULES_DENY)
		return 1;
	if (flow.name) {
		flow.kind = RULES_NAME;
		*s++ = (struct step){"name", NULL, rules_judge(rules, &flow)};
		if (s[-1].v.action == RULES_DENY)
			return 1;
	}
	flow.kind = RULES_FLOW;
	*s = (struct step){"connection", NULL, rules_judge(rules, &flow)};
	if (is_inspected(s))
		s->says = "its requests are judged";
	if (is_inspected(s++) && q->asked.kind == RULES_REQUEST) {
		*s = (struct step){"request", NULL, judge_request(rules, q)};
		if (s->v.body)
			s->says = "its body decides";
		s++;
	}
	return (unsigned)(s - steps);
}

static const char *says(const struct step *s)
{
	return s->says ? s->says : rules_action_word(s->v.action);
}

static const char *rule_of(const struct step *s)
{
	return s->rule ? s->rule : rules_id(s->v.rule);
}

static const char *why(const struct step *s)
{
	if (s->v.unclear || s->reason)
		return s->v.unclear ? s->v.unclear : s->reason;
	return s->v.rule && s->v.rule->reason ? s->v.rule->reason : "";
}

/* Where it goes, if that is another server. */
static const struct rules_forward *forward_of(const struct step *steps, unsigned n)
{
	for (unsigned i = 0; i < n && steps[n - 1].v.action == RULES_ALLOW; i++)
		if (steps[i].v.forward)
			return steps[i].v.forward;
	return NULL;
}

static json_t *forward_json(const struct rules_forward *f)
{
	return f ? json_pack("{s:s, s:i, s:s}", "host", f->host, "port", (int)f->port, "path",
			   f->path)
		 : json_null();
}

/* "100 requests, 5 USD per sandbox and day, then deny" */
static void write_budget(const struct rules_budget *b, char *out, size_t cap)
{
	char requests[48] = "", tokens[48] = "", usd[48] = "";

	if (b->limits.requests)
		(void)snprintf(requests, sizeof(requests), "%llu requests",
			(unsigned long long)b->limits.requests); /* fits, as the others do */
	if (b->limits.tokens)
		(void)snprintf(tokens, sizeof(tokens), "%s%llu tokens", requests[0] ? ", " : "",
			(unsigned long long)b->limits.tokens);
	if (b->limits.micros)
		(void)snprintf(usd, sizeof(usd), "%s%.7g USD", requests[0] || tokens[0] ? ", " : "",
			(double)b->limits.micros / 1e6);
	(void)snprintf(out, cap, "%s%s%s per %s %s, then %s", requests, tokens, usd,
		rules_budget_per_word(b->per), b->window == RULES_IN_TOTAL ? "in total" : "and day",
		b->ask ? "ask" : "deny");
}

static const struct rules_budget *budget_of(const struct step *s)
{
	return s->v.action == RULES_ALLOW && s->v.rule ? s->v.rule->budget : NULL;
}

static void print_budget(const struct step *last)
{
	const struct rules_budget *b = budget_of(last);
	char text[200];

	if (!b)
		return;
	write_budget(b, text, sizeof(text));
	printf("  budget: %s\n", text);
}

/* What decides: the last step, or a decision that answers it. */
static const char *verdict_of(const struct step *last, const json_t *decision)
{
	return decision ? json_tree_text(decision, "action") : rules_action_word(last->v.action);
}

static int print_json(const struct rules *rules, const struct step *steps, unsigned n,
	const json_t *decision, struct error *e)
{
	const struct step *last = &steps[n - 1];
	const struct rules_budget *budget = budget_of(last);
	json_t *list = json_array();
	char text[200];

	for (unsigned i = 0; i < n; i++)
		(void)json_array_append_new(list,
			json_pack("{s:s, s:s, s:s}", "of", steps[i].what, "says", says(&steps[i]),
				"rule", rule_of(&steps[i]))); /* what is missing shows */
	if (budget)
		write_budget(budget, text, sizeof(text));
	return json_print(
		json_pack("{s:s, s:s, s:s*, s:s, s:b, s:o, s:s*, s:o}", "verdict",
			verdict_of(last, decision), "rule", rule_of(last), "decision",
			json_string_value(json_object_get(decision, "id")), "reason", why(last),
			"observe", rules->observe, "forward", forward_json(forward_of(steps, n)),
			"budget", budget ? text : NULL, "steps", list),
		e);
}

static void print_decision(const json_t *decision)
{
	const char *until = json_tree_text(decision, "expires");

	printf("  decision: %s (%s, by %s at %s", json_tree_text(decision, "action"),
		json_tree_text(decision, "id"), json_tree_text(decision, "by"),
		json_tree_text(decision, "at"));
	printf("%s%s)\n", *until ? ", until " : "", until);
}

static void print_text(
	const struct rules *rules, const struct step *steps, unsigned n, const json_t *decision)
{
	const struct step *last = &steps[n - 1];
	const struct rules_forward *f = forward_of(steps, n);

	if (is_inspected(last))
		printf("its requests decide: ask about 'METHOD URL'\n");
	else if (last->v.body)
		printf("its body decides: give it with --body FILE\n");
	else if (decision)
		printf("%s by decision %s, which answers rule %s\n",
			json_tree_text(decision, "action"), json_tree_text(decision, "id"),
			rule_of(last));
	else
		printf("%s by rule %s%s%s%s\n", rules_action_word(last->v.action), rule_of(last),
			*why(last) ? ": " : "", why(last),
			rules->observe ? " (only noted: the policy observes)" : "");
	for (unsigned i = 0; i < n; i++)
		printf("  %s: %s (%s)%s%s\n", steps[i].what, says(&steps[i]), rule_of(&steps[i]),
			steps[i].v.noted ? ", noted by " : "",
			steps[i].v.noted ? steps[i].v.noted->id : "");
	if (decision)
		print_decision(decision);
	if (f)
		printf("  forward: https://%s:%u%s\n", f->host, f->port, f->path);
	print_budget(last);
}

static void print_names(const char *what, const struct call_names *names)
{
	for (unsigned i = 0; i < names->count; i++)
		printf("%s%s", i ? ", " : what, names->names[i]);
}

static void print_body(const struct call *c)
{
	printf("  body:");
	if (c->apis & CALL_FORM)
		printf(" a form%s", c->two_methods ? " that replaces the method" : "");
	if (c->unclear)
		printf(" cannot be judged, %s", c->unclear);
	if (c->model[0])
		printf(" model %s", c->model);
	if (c->limited)
		printf(", %llu tokens", (unsigned long long)c->max_tokens);
	print_names(", tools ", &c->tools);
	print_names(", of the provider ", &c->server_tools);
	for (unsigned i = 0; i < c->message_count; i++)
		printf("%s %s%s%s", i ? "," : "",
			c->messages[i].method ? c->messages[i].method : "an answer",
			c->messages[i].tool ? " " : "",
			c->messages[i].tool ? c->messages[i].tool : "");
	printf("\n");
}

static void done(struct question *q)
{
	call_reader_free(q->reader);
	for (unsigned i = 0; i < q->headers.count; i++) {
		free((char *)q->fields[i].name);
		free((char *)q->fields[i].value);
	}
	free(q->fields);
	free(q->body);
	free(q->text);
}

static int answer(const struct rules *rules, struct question *q, json_t *document,
	const json_t *decisions, bool json, struct error *e)
{
	struct step steps[STEPS_MAX];
	unsigned n = judge(rules, q, steps);
	const struct step *last = &steps[n - 1];
	struct rules_question asked = q->asked;
	const json_t *decision = NULL;

	if (strcmp(last->what, "request") != 0)
		asked.kind = RULES_FLOW; /* a person is asked about the connection */
	if (last->v.action == RULES_ASK)
		decision = policy_decision_find(
			decisions, document, last->v.rule, &asked, q->path_digest);
	if (json)
		return print_json(rules, steps, n, decision, e);
	print_text(rules, steps, n, decision);
	if (q->asked.call)
		print_body(q->asked.call);
	return 0;
}

/* --- warnings --- */

static void warn_of_host(const struct rules_rule *rule, const char *host)
{
	const char *network = host ? cdn_of(host) : NULL;

	if (network)
		(void)fprintf(stderr,
			"warning: rule %s allows %s, which is at %s with many other customers: in "
			"TLS that no rule reads, a program can ask for theirs. Give the rule "
			"\"paths\", so that its requests are read\n",
			rules_id(rule), host, network);
}

/* Of rules that allow connections whose requests nobody reads. */
static void warn_of_fronting(const struct rules *rules, const json_t *document)
{
	const json_t *list = json_object_get(document, "rules");

	for (unsigned i = 0; i < rules->count; i++) {
		const struct rules_rule *rule = &rules->rules[i];
		const json_t *host = json_object_get(json_array_get(list, i), "host");

		if (rule->action != RULES_ALLOW || rule->requests || rule->forward)
			continue;
		if (json_is_string(host))
			warn_of_host(rule, json_string_value(host));
		for (size_t n = 0; n < json_array_size(host); n++)
			warn_of_host(rule, json_string_value(json_array_get(host, n)));
	}
}

int policy_check(const char *file, const struct policy_check *of, bool json, struct error *e)
{
	struct question q = {.text = NULL};
	struct policy_at top = {.e = e};
	struct rules rules = {.count = 0};
	json_t *document = NULL, *decisions = NULL;
	int r = network_document_read(file, file, &document, &decisions, e);

	if (r == 0)
		r = rules_make(&top, document, RULES_MAX, &rules);
	if (r == 0)
		warn_of_fronting(&rules, document);
	if (r == 0 && of->as)
		r = parse(of->as, &q, e);
	if (r == 0)
		r = take_headers(of->headers, &q, e);
	if (r == 0 && q.asked.kind == RULES_REQUEST)
		read_head(&q);
	if (r == 0 && of->body)
		r = read_body(of->body, &q, e);
	if (r == 0 && of->as)
		r = answer(&rules, &q, document, decisions, json, e);
	rules_done(&rules);
	json_decref(decisions);
	json_decref(document);
	done(&q);
	return r;
}
