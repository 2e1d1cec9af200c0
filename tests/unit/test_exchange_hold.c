/* Requests of intercepted connections that wait for a person, and what the person is shown. */
#include "test.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "h2_peer.h"
#include "intercept/held_headers.h"
#include "intercept/preview.h"

/* What was asked last, and what nobody waits for any more. */
struct people {
	struct fixture f; /* first: the argument of its callbacks */
	unsigned asked, unasked;
	uint64_t id;
	bool partial, nobody;
	int64_t body_bytes;
	char path[1100], preview[2100], digest[EXCHANGE_DIGEST_BYTES];
	char action[EXCHANGE_DIGEST_BYTES], headers[3000];   /* of each "name: value\n" */
	char call[2000], call_digest[EXCHANGE_DIGEST_BYTES]; /* "": none */
};

static void copy(char *to, size_t n, const char *text)
{
	(void)snprintf(to, n, "%s", text ? text : "");
}

static size_t add_names(char *to, size_t room, char kind, const struct exchange_names *names)
{
	size_t n = 0;

	for (unsigned i = 0; i < names->count; i++)
		n += (size_t)snprintf(to + n, room - n, " %c:%s", kind, names->names[i]);
	return n;
}

static void copy_call(struct people *p, const struct exchange_call *c)
{
	char *to = p->call;
	size_t n = c ? (size_t)snprintf(to, sizeof(p->call), "%s %s", c->api, c->model) : 0;

	to[n] = '\0';
	copy(p->call_digest, sizeof(p->call_digest), c ? c->digest : NULL);
	if (!c)
		return;
	n += add_names(to + n, sizeof(p->call) - n, 's', &c->server_tools);
	n += add_names(to + n, sizeof(p->call) - n, 't', &c->tools);
	(void)add_names(to + n, sizeof(p->call) - n, 'm', &c->methods);
}

static const char *on_ask(void *arg, const struct exchange_question *q)
{
	struct people *p = arg;

	assert_string_equal(q->rule, "buy");
	p->asked++;
	p->id = q->id;
	p->partial = q->partial;
	p->body_bytes = q->body_bytes;
	copy(p->path, sizeof(p->path), q->path);
	copy(p->preview, sizeof(p->preview), q->preview);
	copy(p->digest, sizeof(p->digest), q->digest);
	copy(p->action, sizeof(p->action), q->action_digest);
	p->headers[0] = '\0';
	for (unsigned i = 0; i < q->header_count; i++)
		(void)snprintf(p->headers + strlen(p->headers),
			sizeof(p->headers) - strlen(p->headers), "%s: %s\n", q->headers[i].name,
			q->headers[i].value);
	copy_call(p, q->call);
	return p->nobody ? "nobody is there" : NULL;
}

static void on_unask(void *arg, uint64_t id, bool judged)
{
	struct people *p = arg;

	assert_int_equal(id, p->id);
	p->unasked++;
}

static void open_people(struct people *p, enum exchange_protocol protocol)
{
	struct intercept *i = fixture_intercept(fixture_rules);
	struct exchange_options o = {.protocol = protocol,
		.host = "held.test",
		.port = 443,
		.intercept = i,
		.callbacks = {fixture_judge, fixture_record, p, on_ask, on_unask}};

	*p = (struct people){.f = {.out = {BUF_INIT(64 << 20), BUF_INIT(64 << 20)},
				     .log = BUF_INIT(16 << 20),
				     .asked = "/buy"}};
	assert_non_null(i);
	assert_int_equal(exchange_new(&o, &p->f.x), 0);
	intercept_unref(i);
}

static size_t feed(struct people *p, enum exchange_side from, const char *text)
{
	return fixture_feed(&p->f, from, text, strlen(text), SIZE_MAX);
}

static void expect(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
}

#define HEAD  "POST /buy?a=b HTTP/1.1\r\nHost: held.test\r\n"
#define ORDER HEAD "Content-Length: 5\r\n\r\norder"
#define NEXT  "GET /next HTTP/1.1\r\nHost: held.test\r\n\r\n"
#define OK    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void a_request_waits(void **state)
{
	struct people p;

	open_people(&p, EXCHANGE_HTTP1);
	assert_int_equal(feed(&p, EXCHANGE_GUEST, ORDER NEXT), strlen(ORDER));
	assert_int_equal(p.asked, 1);
	assert_string_equal(p.path, "/buy?a=b");
	assert_string_equal(p.preview, "order");
	assert_true(!p.partial && p.body_bytes == 5 && exchange_is_held(p.f.x));
	assert_int_equal(buf_len(&p.f.out[EXCHANGE_SERVER]), 0);
	exchange_decide(p.f.x, p.id + 1, true, ""); /* of another */
	assert_true(exchange_is_held(p.f.x));
	exchange_decide(p.f.x, p.id, true, "");
	fixture_drain(&p.f);
	assert_false(exchange_is_held(p.f.x));
	expect(fixture_sent(&p.f, EXCHANGE_SERVER), "POST /buy?a=b HTTP/1.1\r\n");
	expect(fixture_sent(&p.f, EXCHANGE_SERVER), "Content-Length: 5\r\n\r\norder");
	exchange_decide(p.f.x, p.id, false, ""); /* for the second time */
	(void)feed(&p, EXCHANGE_SERVER, OK);
	assert_int_equal(feed(&p, EXCHANGE_GUEST, NEXT), strlen(NEXT));
	(void)feed(&p, EXCHANGE_SERVER, OK);
	assert_string_equal(
		fixture_log(&p.f), "POST /buy 200 allowed 5 2\nGET /next 200 allowed 0 2\n");
	assert_int_equal(p.unasked, 0);
	fixture_close(&p.f);
}

static void a_request_is_denied(void **state)
{
	struct people p;

	for (unsigned nobody = 0; nobody < 2; nobody++) {
		open_people(&p, EXCHANGE_HTTP1);
		p.nobody = nobody;
		(void)feed(&p, EXCHANGE_GUEST, ORDER);
		if (!nobody)
			exchange_decide(p.f.x, p.id, false, "too dear");
		fixture_drain(&p.f);
		expect(fixture_sent(&p.f, EXCHANGE_GUEST), "HTTP/1.1 403 ");
		expect(fixture_sent(&p.f, EXCHANGE_GUEST),
			nobody ? "mayfly: nobody is there\n"
			       : "mayfly: nobody has allowed it: too dear\n");
		assert_int_equal(feed(&p, EXCHANGE_GUEST, NEXT), strlen(NEXT));
		assert_string_equal(fixture_log(&p.f), "POST /buy 403 denied 5 0\n");
		fixture_close(&p.f);
	}
}

/* Of a body just what a person sees is taken; chunks do not matter. */
/* A body is read whole before, up to 4 MiB. Of a larger one only the first bytes are, if its length
 * is known, else 4 MiB. */
static void a_large_body_waits(void **state)
{
	static const size_t sizes[] = {3 * PREVIEW_MAX, CALL_BODY_MAX - 1, CALL_BODY_MAX + 70000};
	static char text[CALL_BODY_MAX + 100000];

	for (unsigned n = 0; n < 2 * ARRAY_SIZE(sizes); n++) {
		size_t size = sizes[n / 2], all, took, read = size;
		bool chunked = n % 2, large = size > CALL_BODY_MAX;
		struct people p;
		int head = snprintf(text, sizeof(text), HEAD "%s%zu\r\n\r\n",
			chunked ? "Transfer-Encoding: chunked\r\nX: " : "Content-Length: ", size);

		head += chunked ? sprintf(text + head, "%zx\r\n", size) : 0;
		memset(text + head, 'x', size);
		all = (size_t)head + size;
		all += chunked ? (size_t)sprintf(text + all, "\r\n0\r\n\r\n") : 0;
		read = !large ? all - (size_t)head : chunked ? CALL_BODY_MAX : PREVIEW_MAX;
		open_people(&p, EXCHANGE_HTTP1);
		took = fixture_feed(&p.f, EXCHANGE_GUEST, text, all, SIZE_MAX);
		assert_int_equal(took, (size_t)head + read);
		assert_true(p.asked == 1 && p.partial);
		assert_int_equal(p.body_bytes, chunked && large ? -1 : (int)size);
		assert_int_equal(strlen(p.preview), PREVIEW_MAX - 1);
		assert_false(exchange_wants(p.f.x, EXCHANGE_GUEST));
		exchange_decide(p.f.x, p.id, true, "");
		took += fixture_feed(&p.f, EXCHANGE_GUEST, text + took, all - took, SIZE_MAX);
		assert_int_equal(took, all);
		(void)feed(&p, EXCHANGE_SERVER, OK);
		expect(fixture_log(&p.f), "POST /buy 200 allowed");
		fixture_close(&p.f);
	}
}

static void the_digest_tells_requests_apart(void **state)
{
	static const char *const requests[] = {ORDER, HEAD "Content-Length: 5\r\n\r\nother",
		"POST /buy?a=c HTTP/1.1\r\nHost: held.test\r\nContent-Length: 5\r\n\r\norder",
		"PUT /buy?a=b HTTP/1.1\r\nHost: held.test\r\nContent-Length: 5\r\n\r\norder",
		HEAD "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\norder"};
	char seen[ARRAY_SIZE(requests)][EXCHANGE_DIGEST_BYTES];
	struct people p;

	for (unsigned i = 0; i < ARRAY_SIZE(requests); i++) {
		open_people(&p, EXCHANGE_HTTP1);
		(void)feed(&p, EXCHANGE_GUEST, requests[i]);
		copy(seen[i], sizeof(seen[i]), p.digest);
		assert_int_equal(strlen(seen[i]), 64);
		for (unsigned n = 0; n < i; n++)
			assert_string_not_equal(seen[i], seen[n]);
		fixture_close(&p.f);
		assert_int_equal(p.unasked, 1);
	}
}

/* What makes another question, what a decision for longer is about, and what is shown. */
static const struct {
	const char *one, *other; /* heads, as of HTTP/1.1 */
	bool same, target;
	const char *shown; /* of the second one */
} with_headers[] = {
	{"X-Amz-Target: DynamoDB.DescribeTable\r\n", "X-Amz-Target: DynamoDB.DeleteTable\r\n",
		false, false, "X-Amz-Target: DynamoDB.DeleteTable\n"},
	{"", "X-Amz-Target: DynamoDB.DeleteTable\r\n", false, false,
		"X-Amz-Target: DynamoDB.DeleteTable\n"},
	{"", "X_Amz_Target: A.B\r\n", false, false, "X_Amz_Target: A.B\n"},
	{"SOAPAction: get\r\n", "SOAPAction: pay\r\n", false, false, "SOAPAction: pay\n"},
	{"Destination: /a\r\n", "Destination: /b\r\n", false, false, "Destination: /b\n"},
	{"", "X-Whatever: 1\r\n", false, true, "X-Whatever: 1\n"},
	{"X-Whatever: 1\r\n", "X-Whatever: 1 \r\n", true, true, "X-Whatever: 1\n"},
	{"X-Whatever: 1\r\n", "x-whatever: 1\r\n", true, true, "x-whatever: 1\n"},
	{"X-Whatever: a\r\n", "X-Whatever: A\r\n", false, true, "X-Whatever: A\n"},
	/* the order of names does not matter, that of one name's fields does */
	{"A: 1\r\nB: 2\r\n", "B: 2\r\nA: 1\r\n", true, true, "A: 1\nB: 2\n"},
	{"A: 1\r\nA: 2\r\n", "A: 2\r\nA: 1\r\n", false, true, "A: 2\nA: 1\n"},
	{"A-b: 1\r\nA_b: 2\r\n", "A_b: 2\r\nA-b: 1\r\n", false, true, "A_b: 2\nA-b: 1\n"},
	{"A: 1\r\nB: 2\r\n", "A: 1B: 2\r\n", false, true, "A: 1B: 2\n"},
	{"Authorization: Bearer a\r\n", "Authorization: Bearer b\r\n", false, true,
		"Authorization: [8 bytes hidden]\n"},
	{"", "X: sk-mfly-0123456789\r\n", false, true, "X: [18 bytes hidden]\n"},
	/* usual ones are not shown */
	{"Accept: */*\r\n", "Accept: application/json\r\n", false, true, ""},
	{"Accept: */*\r\n", "Accept: application/vnd.x.v2+json\r\n", false, true,
		"Accept: application/vnd.x.v2+json\n"},
	{"Connection: keep-alive\r\n", "Connection: keep-alive, x-a\r\n", false, true, ""},
	/* harmless ones count for nothing */
	{"", "Connection: Keep-Alive\r\n", true, true, ""},
	{"User-Agent: a\r\n", "User-Agent: b\r\n", true, true, ""},
	{"Date: a\r\nTraceparent: 1\r\nAccept-Encoding: gzip\r\nX-Request-ID: 1\r\n", "", true,
		true, ""},
	{"", "User_Agent: b\r\n", false, true, "User_Agent: b\n"},
};

static void ask_with(struct people *p, const char *head)
{
	_cleanup_free_ char *text = str_printf("%s%sContent-Length: 5\r\n\r\norder", HEAD, head);

	open_people(p, EXCHANGE_HTTP1);
	(void)feed(p, EXCHANGE_GUEST, text);
	assert_int_equal(p->asked, 1);
	fixture_close(&p->f);
}

static void headers_make_questions(void **state)
{
	struct people one, other;

	for (unsigned i = 0; i < ARRAY_SIZE(with_headers); i++) {
		ask_with(&one, with_headers[i].one);
		ask_with(&other, with_headers[i].other);
		if ((strcmp(one.digest, other.digest) == 0) != with_headers[i].same ||
			(strcmp(one.action, other.action) == 0) != with_headers[i].target)
			fail_msg("%s%s", with_headers[i].one, with_headers[i].other);
		assert_string_equal(other.headers, with_headers[i].shown);
		assert_false(other.partial);
	}
}

/* Junk in front hides no action, and the person is told that there is more. */
static void many_headers_are_cut(void **state)
{
	static const char long_value[] =
		"word after word after word after word after word after word after word after word "
		"after word after word after word after word after word after word after word";
	struct buf head = BUF_INIT(1 << 16);
	struct people p;

	for (unsigned i = 0; i < 100; i++)
		(void)buf_printf(&head, "A%u: %s\r\n", i, long_value);
	(void)buf_add_str(&head, "X-Amz-Target: Delete\r\n");
	(void)buf_add_u8(&head, 0);
	ask_with(&p, (const char *)buf_head(&head));
	assert_true(str_starts_with(p.headers, "X-Amz-Target: Delete\nA0: word"));
	expect(p.headers, "...\n");
	assert_true(p.partial);
	buf_done(&head);
}

static void a_server_that_goes_is_replaced(void **state)
{
	struct people p;

	for (unsigned how = 0; how < 4; how++) {
		open_people(&p, EXCHANGE_HTTP1);
		(void)feed(&p, EXCHANGE_GUEST, ORDER);
		if (how == 0)
			exchange_receive_end(p.f.x, EXCHANGE_SERVER);
		else if (how == 1)
			(void)feed(&p, EXCHANGE_SERVER, "HTTP/1.1 408 Request Timeout\r\n\r\n");
		else
			exchange_fail_server(p.f.x, "reset");
		assert_true(exchange_is_held(p.f.x) && !exchange_needs_server(p.f.x));
		exchange_decide(p.f.x, p.id, true, "");
		assert_true(exchange_needs_server(p.f.x));
		assert_int_equal(buf_len(&p.f.out[EXCHANGE_SERVER]), 0);
		exchange_renew_server(p.f.x, how == 3 ? "no way" : NULL);
		(void)feed(&p, EXCHANGE_SERVER, OK);
		assert_string_equal(fixture_log(&p.f),
			how == 3 ? "POST /buy 502 failed 5 0\n" : "POST /buy 200 allowed 5 2\n");
		fixture_close(&p.f);
	}
}

static void judged_again(void **state)
{
	struct people p;

	open_people(&p, EXCHANGE_HTTP1);
	(void)feed(&p, EXCHANGE_GUEST, HEAD "Content-Length: 5\r\n\r\n");
	assert_int_equal(p.asked, 0); /* nobody yet: there is nothing to see */
	exchange_judge_held(p.f.x);
	assert_true(exchange_is_held(p.f.x));
	p.f.asked = NULL;
	exchange_judge_held(p.f.x);
	assert_false(exchange_is_held(p.f.x));
	(void)feed(&p, EXCHANGE_GUEST, "order");
	(void)feed(&p, EXCHANGE_SERVER, OK);
	p.f.asked = "/buy";
	(void)feed(&p, EXCHANGE_GUEST, ORDER);
	p.f.denied = "/buy";
	exchange_judge_held(p.f.x);
	fixture_drain(&p.f);
	assert_string_equal(
		fixture_log(&p.f), "POST /buy 200 allowed 5 2\nPOST /buy 403 denied 5 0\n");
	assert_int_equal(p.unasked, 1);
	fixture_close(&p.f);
}

/* Also if the rest of its body is still to come. */
static void judged_again_and_answered(void **state)
{
	struct people p;

	for (unsigned how = 0; how < 3; how++) {
		open_people(&p, EXCHANGE_HTTP1);
		p.f.read = how == 1 ? "/buy" : NULL;
		p.f.canned = how == 1 ? "/buy" : NULL;
		(void)feed(&p, EXCHANGE_GUEST, how == 2 ? HEAD "Content-Length: 5\r\n\r\n" : ORDER);
		p.f.canned = "/buy";
		exchange_judge_held(p.f.x);
		fixture_drain(&p.f);
		expect(fixture_sent(&p.f, EXCHANGE_GUEST), "HTTP/1.1 418 ");
		expect(fixture_sent(&p.f, EXCHANGE_GUEST), "\r\n\r\ntea");
		assert_string_equal(fixture_log(&p.f),
			how ? "POST /buy 418 allowed 0 0\n" : "POST /buy 418 allowed 5 0\n");
		assert_int_equal(p.unasked, how == 0);
		assert_int_equal(buf_len(&p.f.out[EXCHANGE_SERVER]), 0);
		fixture_close(&p.f);
	}
}

/* Who allows a request has seen it by the policy of then. */
static void judged_again_for_its_body(void **state)
{
	struct people p;

	for (unsigned gone = 0; gone < 2; gone++) {
		open_people(&p, EXCHANGE_HTTP1);
		(void)feed(&p, EXCHANGE_GUEST, ORDER);
		if (gone) {
			exchange_fail_server(p.f.x, "reset");
			exchange_decide(p.f.x, p.id, true, "");
			exchange_judge_held(p.f.x);
			assert_true(exchange_needs_server(p.f.x));
		}
		p.f.read = "/buy";
		exchange_judge_held(p.f.x);
		exchange_decide(p.f.x, p.id, true, "");
		fixture_drain(&p.f);
		expect(fixture_sent(&p.f, EXCHANGE_GUEST), "the policy has changed: try again");
		assert_string_equal(fixture_log(&p.f), "POST /buy 403 denied 5 0\n");
		fixture_close(&p.f);
	}
}

static void an_approval_is_judged_again(void **state)
{
	struct people p;

	open_people(&p, EXCHANGE_HTTP1);
	(void)feed(&p, EXCHANGE_GUEST, ORDER);
	exchange_fail_server(p.f.x, "reset");
	exchange_decide(p.f.x, p.id, true, "");
	p.f.denied = "/buy";
	exchange_judge_held(p.f.x);
	fixture_drain(&p.f);
	assert_false(exchange_needs_server(p.f.x));
	assert_string_equal(fixture_log(&p.f), "POST /buy 403 denied 5 0\n");
	fixture_close(&p.f);
}

/* --- bodies that are judged --- */

#define CHAT_HEAD                                                                                  \
	"POST /v1/chat/completions HTTP/1.1\r\nHost: held.test\r\n"                                \
	"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
#define OPENS	"1\r\n{\r\n"
#define BREAKS	"1\r\n!\r\n"
#define FOLLOWS "5\r\nafter\r\n0\r\n\r\n"

static const char chat[] = "/v1/chat/completions";

/* Feeds a chunk of JSON's spaces. */
static void feed_spaces(struct people *p, size_t n)
{
	static char text[40 << 10];
	int head = snprintf(text, sizeof(text), "%zx\r\n", n);

	memset(text + head, ' ', n);
	memcpy(text + head + n, "\r\n", 3);
	assert_int_equal(feed(p, EXCHANGE_GUEST, text), head + n + 2);
}

/* It may go on, and waits for room: what follows in the same piece stays behind it. */
static void a_body_keeps_its_order(void **state)
{
	struct people p;
	static const char last[] = "!after\r\n0\r\n\r\n";
	const char *sent;
	size_t n;

	open_people(&p, EXCHANGE_HTTP1);
	p.f.read = chat;
	(void)feed(&p, EXCHANGE_GUEST, CHAT_HEAD OPENS);
	for (unsigned i = 0; i < 32; i++)
		feed_spaces(&p, 32 << 10);
	assert_int_equal(buf_len(&p.f.out[EXCHANGE_SERVER]), 0);
	(void)feed(&p, EXCHANGE_GUEST, BREAKS FOLLOWS);
	sent = fixture_sent(&p.f, EXCHANGE_SERVER);
	n = strlen(sent);
	assert_true(n > 1 << 20);
	assert_string_equal(sent + n - strlen(last), last);
	(void)feed(&p, EXCHANGE_SERVER, OK);
	assert_string_equal(fixture_log(&p.f), "POST /v1/chat/completions 200 allowed 1048583 2\n");
	fixture_close(&p.f);
}

/* The rest of it is read, and then a person is asked. */
static void a_body_that_cannot_be_judged_is_asked(void **state)
{
	struct people p;

	open_people(&p, EXCHANGE_HTTP1);
	p.f.read = p.f.asked = chat;
	(void)feed(&p, EXCHANGE_GUEST, CHAT_HEAD OPENS);
	feed_spaces(&p, 2 * PREVIEW_MAX);
	assert_true(p.asked == 0 && exchange_is_held(p.f.x) && !exchange_is_asked(p.f.x));
	(void)feed(&p, EXCHANGE_GUEST, BREAKS);
	assert_true(p.asked == 0 && exchange_is_held(p.f.x));
	(void)feed(&p, EXCHANGE_GUEST, FOLLOWS);
	assert_true(p.asked == 1 && !p.partial && exchange_is_asked(p.f.x));
	assert_false(exchange_wants(p.f.x, EXCHANGE_GUEST));
	exchange_decide(p.f.x, p.id, true, "");
	(void)feed(&p, EXCHANGE_SERVER, OK);
	assert_string_equal(fixture_log(&p.f), "POST /v1/chat/completions 200 allowed 4103 2\n");
	fixture_close(&p.f);
}

/* --- calls --- */

static void ask_about_model(struct people *p, const char *tools)
{
	static char *models[] = {(char *)"**"};
	static struct rules_call call = {
		.apis = CALL_MODELS, .models = models, .model_count = 1, .body = true};
	static const struct rules_rule rule = {.action = RULES_ASK, .call = &call};
	_cleanup_free_ char *body = str_printf("{\"model\":\"gpt-5\",\"tools\":[%s]}", tools);
	_cleanup_free_ char *request = str_printf("POST %s HTTP/1.1\r\nHost: held.test\r\n"
						  "Content-Type: application/json\r\n"
						  "Content-Length: %zu\r\n\r\n%s",
		chat, strlen(body), body);

	open_people(p, EXCHANGE_HTTP1);
	p->f.read = p->f.asked = chat;
	p->f.asks = &rule;
	(void)feed(p, EXCHANGE_GUEST, request);
	assert_int_equal(p->asked, 1);
}

/* A person sees what is called, without possible secrets and bounded. */
static void a_call_is_told(void **state)
{
	struct people p;
	char many[4096] = "", pad[81] = "";
	size_t n = 0;

	ask_about_model(&p, "{\"type\":\"web_search\"},"
			    "{\"type\":\"function\",\"function\":{\"name\":\"pay\\u0007\"}},"
			    "{\"type\":\"function\",\"function\":{\"name\":\"" HELD_SECRET "\"}}");
	assert_string_equal(p.call, "openai gpt-5 s:web_search t:pay\\u{7} t:[19 bytes hidden]");
	assert_int_equal(strlen(p.call_digest), 64);
	fixture_close(&p.f);
	memset(pad, 'x', sizeof(pad) - 1);
	for (unsigned i = 0; i < 30; i++)
		n += (size_t)snprintf(many + n, sizeof(many) - n,
			"%s{\"type\":\"function\",\"function\":{\"name\":\"n%u_%s\"}}",
			i ? "," : "", i, i ? "" : pad);
	ask_about_model(&p, many);
	expect(p.call,
		" t:n0_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... t:n1_ ");
	expect(p.call, " t:n15_ t:...");
	fixture_close(&p.f);
}

static void a_rule_that_reads_no_call_tells_none(void **state)
{
	struct people p;

	open_people(&p, EXCHANGE_HTTP1);
	(void)feed(&p, EXCHANGE_GUEST, ORDER);
	assert_true(p.asked == 1 && !p.call[0] && !p.call_digest[0]);
	fixture_close(&p.f);
}

/* --- forms --- */

#define FORM                                                                                       \
	"POST /form HTTP/1.1\r\nHost: held.test\r\nContent-Type: "                                 \
	"application/x-www-form-urlencoded\r\n"

/* The server gets it whole, or hears of nothing; the connection goes on. */
static void a_form_is_read(void **state)
{
	struct people p;

	open_people(&p, EXCHANGE_HTTP1);
	p.f.form = "/form";
	(void)feed(&p, EXCHANGE_GUEST, FORM "Content-Length: 7\r\n\r\na=1");
	assert_int_equal(buf_len(&p.f.out[EXCHANGE_SERVER]), 0);
	(void)feed(&p, EXCHANGE_GUEST, "&b=2");
	expect(fixture_sent(&p.f, EXCHANGE_SERVER), "Content-Length: 7\r\n\r\na=1&b=2");
	(void)feed(&p, EXCHANGE_SERVER, OK);
	(void)feed(&p, EXCHANGE_GUEST, FORM "Transfer-Encoding: chunked\r\n\r\n4\r\n_met\r\n");
	(void)feed(&p, EXCHANGE_GUEST, "6\r\nhod=DE\r\n4\r\nLETE\r\n0\r\n\r\n");
	expect(fixture_sent(&p.f, EXCHANGE_GUEST), "mayfly: two methods\n");
	(void)feed(&p, EXCHANGE_GUEST, NEXT);
	(void)feed(&p, EXCHANGE_SERVER, OK);
	assert_string_equal(fixture_log(&p.f), "POST /form 200 allowed 7 2\n"
					       "POST /form 403 denied 0 0\n"
					       "GET /next 200 allowed 0 2\n");
	fixture_close(&p.f);
}

/* Nothing is read of a body that is no form, is not there, or is not of a POST. */
static void others_are_not_held(void **state)
{
	static const char *const heads[] = {
		"POST /form HTTP/1.1\r\nHost: held.test\r\nContent-Type: application/json\r\n"
		"Content-Length: 9\r\n\r\n",
		"PUT /form HTTP/1.1\r\nHost: held.test\r\n"
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\n",
		FORM "Content-Length: 0\r\n\r\n",
	};
	struct people p;

	for (unsigned i = 0; i < ARRAY_SIZE(heads); i++) {
		open_people(&p, EXCHANGE_HTTP1);
		p.f.form = "/form";
		(void)feed(&p, EXCHANGE_GUEST, heads[i]);
		assert_false(exchange_is_held(p.f.x));
		expect(fixture_sent(&p.f, EXCHANGE_SERVER), " /form HTTP/1.1\r\n");
		fixture_close(&p.f);
	}
}

/* What nobody can read replaces the method: at once if it is compressed. */
static void a_form_is_hidden(void **state)
{
	struct people p;

	open_people(&p, EXCHANGE_HTTP1);
	p.f.form = "/form";
	(void)feed(&p, EXCHANGE_GUEST,
		FORM "Content-Encoding: gzip\r\nContent-Length: 900\r\n\r\n\x1f\x8b");
	expect(fixture_sent(&p.f, EXCHANGE_GUEST), "mayfly: two methods\n");
	assert_string_equal(fixture_log(&p.f), "POST /form 403 denied 0 0\n");
	assert_int_equal(buf_len(&p.f.out[EXCHANGE_SERVER]), 0);
	fixture_close(&p.f);
}

/* --- HTTP/2 --- */

#define FORM2                                                                                      \
	":method=POST\n:scheme=https\n:authority=held.test\n:path=/form\n"                         \
	"content-type=multipart/form-data; boundary=b\n"
#define BUY2  ":method=POST\n:scheme=https\n:authority=held.test\n:path=/buy?a=b\n"
#define NEXT2 ":method=GET\n:scheme=https\n:authority=held.test\n:path=/next\n"

struct scene {
	struct people p;
	struct peer guest, server;
};

static void open_scene(struct scene *s)
{
	open_people(&s->p, EXCHANGE_HTTP2);
	assert_true(peer_open(&s->guest, &s->p.f, EXCHANGE_GUEST));
	assert_true(peer_open(&s->server, &s->p.f, EXCHANGE_SERVER));
}

static void close_scene(struct scene *s)
{
	fixture_close(&s->p.f);
	peer_close(&s->guest);
	peer_close(&s->server);
}

static void run(struct scene *s)
{
	bool more = true;

	while (more) {
		more = peer_move(&s->guest);
		more = peer_move(&s->server) || more;
	}
}

static void a_stream_waits_alone(void **state)
{
	struct scene s;

	open_scene(&s);
	for (unsigned i = 0; i < 3; i++)
		(void)peer_request(&s.guest, BUY2, NULL, 1 << 20, NULL);
	run(&s);
	assert_int_equal(s.p.asked, 3);
	(void)peer_request(&s.guest, NEXT2, NULL, 1 << 20, NULL);
	run(&s);
	expect(peer_log(&s.guest), "7 :status=200\n");
	assert_int_equal(s.server.bytes, 1 << 20);
	for (uint64_t id = 1; id <= 3; id++)
		exchange_decide(s.p.f.x, id, id != 2, "no");
	run(&s);
	expect(peer_log(&s.guest), "1 :status=200\n");
	expect(peer_log(&s.guest), "3 :status=403\n");
	expect(peer_log(&s.guest), "5 :status=200\n");
	assert_int_equal(s.server.bytes, 3 << 20);
	close_scene(&s);
}

static void a_stream_gets_another_server(void **state)
{
	struct scene s;

	open_scene(&s);
	(void)peer_request(&s.guest, BUY2 "x=" PLACEHOLDER, "order", 0, "x-sum=1");
	run(&s);
	assert_string_equal(s.p.preview, "order");
	(void)nghttp2_submit_goaway(s.server.n, 0, 0, NGHTTP2_NO_ERROR, NULL, 0);
	run(&s);
	exchange_decide(s.p.f.x, s.p.id, true, "");
	run(&s);
	assert_true(exchange_needs_server(s.p.f.x));
	(void)peer_request(&s.guest, NEXT2, NULL, 0, NULL); /* waits for it, too */
	run(&s);
	peer_close(&s.server);
	assert_true(peer_open(&s.server, &s.p.f, EXCHANGE_SERVER));
	exchange_renew_server(s.p.f.x, NULL);
	run(&s);
	expect(peer_log(&s.server), "x=" HELD_SECRET);
	expect(peer_log(&s.server), "DATA order\n1 x-sum=1\n");
	expect(peer_log(&s.guest), "1 :status=200\n");
	expect(peer_log(&s.guest), "3 :status=200\n");
	assert_int_equal(s.server.heads, 3); /* and trailers */
	close_scene(&s);
}

/* They go to the server, so they are part of the question. */
static void trailers_are_digested(void **state)
{
	static const char *const trailers[] = {NULL, "x-amz-target=A", "x-amz-target=B", "date=A"};
	char seen[ARRAY_SIZE(trailers)][EXCHANGE_DIGEST_BYTES];
	struct scene s;

	for (unsigned i = 0; i < ARRAY_SIZE(trailers); i++) {
		open_scene(&s);
		(void)peer_request(&s.guest, BUY2, "order", 0, trailers[i]);
		run(&s);
		assert_int_equal(s.p.asked, 1);
		copy(seen[i], sizeof(seen[i]), s.p.digest);
		for (unsigned n = 0; n < i; n++)
			assert_string_not_equal(seen[i], seen[n]);
		if (i == 2)
			assert_string_equal(s.p.headers, "x-amz-target (trailer): B\n");
		close_scene(&s);
	}
	open_scene(&s); /* as a header it is another question */
	(void)peer_request(&s.guest, BUY2 "x-amz-target=A", "order", 0, NULL);
	run(&s);
	assert_string_not_equal(s.p.digest, seen[1]);
	close_scene(&s);
}

/* Bytes far behind the preview make another question, in both versions. */
static void all_of_a_body_is_digested(void **state)
{
	static char body[100001];
	char seen[4][EXCHANGE_DIGEST_BYTES];

	memset(body, 'x', sizeof(body) - 1);
	for (unsigned i = 0; i < 2; i++) {
		_cleanup_free_ char *text = NULL;
		struct people p;
		struct scene s;

		body[99000] = (char)('a' + i);
		text = str_printf(HEAD "Content-Length: %zu\r\n\r\n%s", sizeof(body) - 1, body);
		open_people(&p, EXCHANGE_HTTP1);
		(void)feed(&p, EXCHANGE_GUEST, text);
		open_scene(&s);
		(void)peer_request(&s.guest, BUY2, body, 0, NULL);
		run(&s);
		assert_true(p.asked == 1 && s.p.asked == 1 && p.partial && s.p.partial);
		copy(seen[i], sizeof(seen[i]), p.digest);
		copy(seen[2 + i], sizeof(seen[i]), s.p.digest);
		exchange_decide(s.p.f.x, s.p.id, true, "");
		run(&s);
		assert_int_equal(s.server.bytes, sizeof(body) - 1);
		expect(peer_log(&s.guest), "1 :status=200\n");
		fixture_close(&p.f);
		close_scene(&s);
	}
	assert_string_not_equal(seen[0], seen[1]);
	assert_string_equal(seen[0], seen[2]);
	assert_string_equal(seen[1], seen[3]);
}

/* Nobody is asked about what each server reads in its own way. */
static void a_member_that_stands_twice_is_denied(void **state)
{
	static const char body[] = "{\"pay_to\":\"a\",\"payTo\":\"b\"}";
	_cleanup_free_ char *text =
		str_printf(HEAD "Content-Length: %zu\r\n\r\n%s", sizeof(body) - 1, body);
	struct people p;
	struct scene s;

	open_people(&p, EXCHANGE_HTTP1);
	(void)feed(&p, EXCHANGE_GUEST, text);
	assert_int_equal(p.asked, 0);
	expect(fixture_sent(&p.f, EXCHANGE_GUEST), "a member of its body stands twice");
	assert_string_equal(fixture_log(&p.f), "POST /buy 403 denied 26 0\n");
	fixture_close(&p.f);
	open_scene(&s);
	(void)peer_request(&s.guest, BUY2, body, 0, NULL);
	run(&s);
	assert_int_equal(s.p.asked, 0);
	expect(peer_log(&s.guest), "1 :status=403\n");
	close_scene(&s);
}

/* Both versions of HTTP give one digest. */
static void a_stream_has_the_same_digest(void **state)
{
	static const char *const more[] = {"", "x-amz-target=A\nb=2\na=1\na=2\ncookie=x", "a=1"};
	static const char *const same[] = {
		"", "a: 1\r\nA: 2\r\nCookie: x\r\nB: 2\r\nX-Amz-Target: A\r\n", "a: 1\r\n"};
	struct people p;
	struct scene s;

	for (unsigned i = 0; i < ARRAY_SIZE(more); i++) {
		_cleanup_free_ char *head = str_printf(
			":method=POST\n:scheme=https\n:authority=held.test\n:path=/buy?a=b%s%s",
			more[i][0] ? "\n" : "", more[i]);

		open_scene(&s);
		(void)peer_request(&s.guest, head, "order", 0, NULL);
		run(&s);
		ask_with(&p, same[i]);
		assert_string_equal(s.p.digest, p.digest);
		assert_string_equal(s.p.action, p.action);
		close_scene(&s);
	}
}

static void a_stream_that_is_reset_asks_no_more(void **state)
{
	struct scene s;

	open_scene(&s);
	for (unsigned i = 0; i < 200; i++) {
		int32_t id = peer_request(&s.guest, BUY2, NULL, 1 << 20, NULL);

		run(&s);
		(void)nghttp2_submit_rst_stream(s.guest.n, 0, id, NGHTTP2_CANCEL);
		run(&s);
		assert_int_equal(s.p.unasked, i + 1);
	}
	(void)peer_request(&s.guest, NEXT2, NULL, 1 << 20, NULL); /* windows are as they were */
	run(&s);
	assert_int_equal(s.server.bytes, 1 << 20);
	assert_true(exchange_memory(s.p.f.x) < 1 << 20);
	close_scene(&s);
}

static void a_form_of_a_stream(void **state)
{
	struct scene s;

	open_scene(&s);
	s.p.f.form = "/form";
	(void)peer_request(&s.guest, FORM2, "a=1", 0, NULL);
	(void)peer_request(&s.guest, FORM2, "Content-Disposition: x; name=_method", 0, NULL);
	run(&s);
	expect(peer_log(&s.guest), "1 :status=200\n");
	expect(peer_log(&s.guest), "3 :status=403\n");
	expect(peer_log(&s.server), "DATA a=1\n");
	assert_int_equal(s.server.heads, 1);
	close_scene(&s);
}

/* It is too large to be judged; if it may go on all the same, all of it does. */
static void a_large_form_of_a_stream(void **state)
{
	struct scene s;

	for (unsigned observes = 0; observes < 2; observes++) {
		open_scene(&s);
		s.p.f.form = "/form";
		s.p.f.observes = observes;
		(void)peer_request(&s.guest, FORM2, NULL, 9 << 20, NULL);
		run(&s);
		expect(peer_log(&s.guest), observes ? "1 :status=200\n" : "1 :status=403\n");
		assert_int_equal(s.server.bytes, observes ? 9 << 20 : 0);
		(void)peer_request(
			&s.guest, NEXT2, NULL, 1 << 20, NULL); /* windows are as they were */
		run(&s);
		expect(peer_log(&s.guest), "3 :status=200\n");
		close_scene(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_waits),
		cmocka_unit_test(a_request_is_denied),
		cmocka_unit_test(a_large_body_waits),
		cmocka_unit_test(the_digest_tells_requests_apart),
		cmocka_unit_test(headers_make_questions),
		cmocka_unit_test(many_headers_are_cut),
		cmocka_unit_test(a_server_that_goes_is_replaced),
		cmocka_unit_test(judged_again),
		cmocka_unit_test(judged_again_and_answered),
		cmocka_unit_test(judged_again_for_its_body),
		cmocka_unit_test(an_approval_is_judged_again),
		cmocka_unit_test(a_body_keeps_its_order),
		cmocka_unit_test(a_body_that_cannot_be_judged_is_asked),
		cmocka_unit_test(a_call_is_told),
		cmocka_unit_test(a_rule_that_reads_no_call_tells_none),
		cmocka_unit_test(a_form_is_read),
		cmocka_unit_test(others_are_not_held),
		cmocka_unit_test(a_form_is_hidden),
		cmocka_unit_test(a_form_of_a_stream),
		cmocka_unit_test(a_large_form_of_a_stream),
		cmocka_unit_test(a_stream_waits_alone),
		cmocka_unit_test(a_stream_gets_another_server),
		cmocka_unit_test(trailers_are_digested),
		cmocka_unit_test(all_of_a_body_is_digested),
		cmocka_unit_test(a_member_that_stands_twice_is_denied),
		cmocka_unit_test(a_stream_has_the_same_digest),
		cmocka_unit_test(a_stream_that_is_reset_asks_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
