/* Links in webhooks that decide an approval (docs/consent.md). Whoever has the link may decide. Its
 * signature covers the approval and the expiry time; only the store has the key. GET changes
 * nothing, so programs that open links in messages decide nothing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/consent/approval_decision.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "network/approval_link.h"
#include "network/approval_question.h"
#include "network/approval_right.h"
#include "network/approvals.h"
#include "proto/html_text.h"
#include "proto/json_tree.h"
#include "proto/shown_text.h"
#include "proto/uri.h"

enum {
	PAGE_MAX = 64 * 1024,
	SIGNATURE_MAX = 80,
	LINE_TEXT_MAX = 8192,
	BODY_MAX = 4096 /* anybody may send one */
};

/* The approval as JSON if the link is good; NULL: answered. */
struct link {
	unsigned long long expires_s;
	char signature[SIGNATURE_MAX];
	json_t *approval;
};

static int check(void *arg, const struct store_approval *a)
{
	struct link *l = arg;

	if (approval_link_holds(a, l->expires_s, l->signature))
		l->approval = approval_json(a);
	return 0;
}

static json_t *find(struct request *r)
{
	struct link l = {0};
	const char *query = r->head->query;

	if (uri_query_u64(query, "expires", INT64_MAX, &l.expires_s) == 0 &&
		uri_query_get(query, "signature", l.signature, sizeof(l.signature)) > 0)
		(void)store_approval_get(
			fleet_of(r)->store, r->params[0], NULL, check, &l, NULL); /* or none */
	if (!l.approval)
		reply_error(r, 403, "this link is not valid, or has expired");
	return l.approval;
}

/* --- the page --- */

static bool is_waiting(const json_t *approval)
{
	return strcmp(json_tree_text(approval, "state"), "waiting") == 0;
}

/* One line of what is asked. */
static int add_line(struct buf *b, const char *name, const json_t *v, bool html)
{
	_cleanup_free_ char *number =
		json_is_integer(v) ? str_printf("%lld", (long long)json_integer_value(v)) : NULL;
	const char *given = json_string_value(v);
	unsigned how = strcmp(name, "preview") == 0 ? SHOWN_TEXT_LINES : 0;
	_cleanup_free_ char *text =
		given ? shown_text_make(given, strlen(given), LINE_TEXT_MAX, how) : NULL;
	const char *s = text ? text : json_is_true(v) ? "yes" : number;
	int r;

	if (!s)
		return 0;
	r = buf_printf(b, "%-10s ", name);
	r = r ? r : html ? html_text_add(b, s) : buf_add_str(b, s);
	return r ? r : buf_add_str(b, "\n");
}

static int add_lines(struct buf *b, const json_t *approval, bool html)
{
	static const char *const waits[] = {"sandboxID", "rule", "host", "address", "port",
		"scheme", "method", "path", "call", "bodyCoding", "bodyBytes", "partial", "preview",
		"hiddenBytes", "unseen", "program", "budget", "askedAt", "expiresAt", "state",
		NULL};
	/* whoever finds the link later learns no more of the request */
	static const char *const over[] = {
		"sandboxID", "rule", "state", "decidedBy", "decidedAt", "reason", NULL};
	const char *const *names = is_waiting(approval) ? waits : over;
	_cleanup_free_ char *text = approval_call_text(approval);
	json_t *call = text ? json_string(text) : NULL;
	int r = 0;

	for (unsigned i = 0; r == 0 && names[i]; i++)
		r = add_line(b, names[i],
			strcmp(names[i], "call") == 0 ? call : json_object_get(approval, names[i]),
			html);
	json_decref(call);
	return r;
}

/* A line for each. */
static int add_headers(struct buf *b, const json_t *approval, bool html)
{
	_cleanup_free_ char *text = approval_headers_text(approval, "\nheader     ");
	int r;

	if (!text)
		return 0;
	r = html ? html_text_add(b, text + 1) : buf_add_str(b, text + 1);
	return r ? r : buf_add_str(b, "\n");
}

static int add_form(struct buf *b, const json_t *approval)
{
	static const char deny[] = "<p>Not all of it is shown, or much of it is hidden, so a link "
				   "cannot allow it.</p>\n"
				   "<form method=\"post\"><button name=\"decision\" "
				   "value=\"deny\">Deny</button></form>\n";
	static const char form[] = "<form method=\"post\">\n"
				   "<button name=\"decision\" value=\"allow\">Allow once</button>\n"
				   "<button name=\"decision\" value=\"deny\">Deny</button>\n"
				   "</form>\n";

	if (!is_waiting(approval))
		return buf_add_str(b, "<p>It is decided already.</p>\n");
	if (json_object_get(approval, "unseen"))
		return buf_add_str(b, deny);
	return buf_add_str(b, form);
}

static int write_page(struct buf *b, const json_t *approval, bool html)
{
	static const char head[] = "<!doctype html><meta charset=\"utf-8\"><meta name=\"viewport\" "
				   "content=\"width=device-width\"><title>A sandbox asks</title>"
				   "<h1>A sandbox asks</h1>\n<pre>\n";
	static const char how[] = "\nPOST decision=allow or decision=deny to this URL to decide.\n";
	int r = html ? buf_add_str(b, head) : 0;

	r = r ? r : add_lines(b, approval, html);
	if (is_waiting(approval))
		r = r ? r : add_headers(b, approval, html);
	if (html) {
		r = r ? r : buf_add_str(b, "</pre>\n");
		return r ? r : add_form(b, approval);
	}
	return r ? r : buf_add_str(b, is_waiting(approval) ? how : "\nIt is decided already.\n");
}

static void show(struct request *r, const json_t *approval, bool html)
{
	struct buf b = BUF_INIT(PAGE_MAX);
	const struct http_field fields[] = {
		{"Cache-Control", "no-store"},
		{"Referrer-Policy", "no-referrer"},
		{"X-Frame-Options", "DENY"},
		{"Content-Security-Policy", "default-src 'none'; form-action 'self'"},
	};
	struct http_reply reply = {.status = 200,
		.fields = fields,
		.field_count = ARRAY_SIZE(fields),
		.content_type = html ? "text/html; charset=utf-8" : "text/plain; charset=utf-8"};

	if (write_page(&b, approval, html) < 0) {
		reply_error(r, 503, "out of memory");
	} else {
		reply.body = buf_head(&b);
		reply.len = buf_len(&b);
		(void)request_reply(r, &reply); /* the client may be gone */
	}
	buf_done(&b);
}

static bool wants_html(const struct request *r)
{
	const char *accept = http_header_get(&r->head->headers, "accept");

	return accept && strstr(accept, "text/html");
}

void api_approval_page(struct request *r)
{
	json_t *approval = find(r);

	if (approval)
		show(r, approval, wants_html(r));
	json_decref(approval);
}

/* --- deciding --- */

/* A form of a browser, or JSON. */
static json_t *take_body(struct request *r, const char *text, size_t n)
{
	char decision[8];

	if (uri_query_get(text, "decision", decision, sizeof(decision)) > 0)
		return json_pack("{s:s}", "decision", decision);
	return api_body(r, text, n);
}

static void decide_with(struct request *r, const char *text, size_t n)
{
	json_t *approval = find(r), *body = approval ? take_body(r, text, n) : NULL;
	struct approval_decider decider = {.by = APPROVAL_BY_LINK};
	struct store_approval d;
	struct error e = {0};

	if (body && approval_decision_take(r, body, &d, &decider.accepts_unseen)) {
		d.decided_by = "link";
		if (approvals_decide(fleet_of(r), r->params[0], &decider, &d, &e) < 0) {
			reply_failure(r, &e);
		} else {
			json_decref(approval);
			approval = find(r);
			if (approval)
				show(r, approval, wants_html(r));
		}
	}
	json_decref(body);
	json_decref(approval);
}

void api_approval_link(struct request *r)
{
	request_collect(r, BODY_MAX, decide_with);
}
