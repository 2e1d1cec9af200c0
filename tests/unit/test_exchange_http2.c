/* HTTP/2 of intercepted connections, between a program and a server that nghttp2 plays. */
#include "test.h"

#include "base/cleanup.h"
#include "h2_peer.h"
#include "intercept/http2_memory.h"

struct scene {
	struct fixture f;
	struct peer guest, server;
};

static void open_scene(struct scene *s, const char *host)
{
	assert_true(fixture_open(&s->f, EXCHANGE_HTTP2, host, 443));
	assert_true(peer_open(&s->guest, &s->f, EXCHANGE_GUEST));
	assert_true(peer_open(&s->server, &s->f, EXCHANGE_SERVER));
}

static void close_scene(struct scene *s)
{
	fixture_close(&s->f);
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

static void expect(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
}

#define PLAIN ":method=GET\n:scheme=https\n:authority=plain.test\n:path=/\n"
#define API   ":method=POST\n:scheme=https\n:authority=api.test\n:path=/a?b=c\n"
#define HELD  ":method=GET\n:scheme=https\n:authority=held.test\n:path=/\n"

/* --- headers that rules set --- */

enum { SET_BYTES = RULES_HEADERS_BYTES / RULES_HEADERS_MAX - 16 };

/* Rules of all layers, with as many headers as they may have. */
static void make_setters(struct fixture *f, struct rules_rule rules[EXCHANGE_SETTERS_MAX])
{
	for (unsigned i = 0; i < EXCHANGE_SETTERS_MAX; i++) {
		rules[i].headers = calloc(RULES_HEADERS_MAX, sizeof(rules[i].headers[0]));
		for (unsigned k = 0; k < RULES_HEADERS_MAX; k++) {
			struct rules_header *h = &rules[i].headers[rules[i].header_count++];

			assert_true(asprintf(&h->name, "set-%u-%u", i, k) > 0);
			assert_true(asprintf(&h->value, "%0*u", SET_BYTES, k) > 0);
		}
		f->setters[f->setter_count++] = &rules[i];
	}
}

static void free_setters(struct rules_rule rules[EXCHANGE_SETTERS_MAX])
{
	for (unsigned i = 0; i < EXCHANGE_SETTERS_MAX; i++) {
		for (unsigned k = 0; k < rules[i].header_count; k++) {
			free(rules[i].headers[k].name);
			free(rules[i].headers[k].value);
		}
		free(rules[i].headers);
	}
}

/* None is lost, however many the program sends, and the connection's account knows what is kept. */
static void all_headers_of_rules_go_out(void **state)
{
	struct rules_rule rules[EXCHANGE_SETTERS_MAX] = {{.header_count = 0}};
	struct buf head = BUF_INIT(64 << 10);
	char name[32];
	struct scene s;
	size_t before;

	open_scene(&s, "plain.test");
	make_setters(&s.f, rules);
	before = exchange_memory(s.f.x);
	(void)buf_add_str(&head, PLAIN);
	for (unsigned i = 0; i < EXCHANGE_FIELDS_MAX - 5; i++)
		(void)buf_printf(&head, "own-%u=1\n", i);
	(void)buf_printf(&head, "SET_0-1=mine%c", 0);
	(void)peer_request(&s.guest, (const char *)buf_head(&head), NULL, 0, NULL);
	(void)peer_move(&s.guest);
	assert_true(exchange_memory(s.f.x) - before >
		    EXCHANGE_SETTERS_MAX * RULES_HEADERS_MAX * SET_BYTES);
	run(&s);
	for (unsigned i = 0; i < EXCHANGE_SETTERS_MAX * RULES_HEADERS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "1 set-%u-%u=0", i / RULES_HEADERS_MAX,
			i % RULES_HEADERS_MAX);
		expect(peer_log(&s.server), name);
	}
	expect(peer_log(&s.server), "1 own-250=1");
	assert_null(strstr(peer_log(&s.server), "=mine"));
	buf_done(&head);
	close_scene(&s);
	free_setters(rules);
}

/* A server of CGI reads these names as one. */
static void names_with_underscores_are_replaced(void **state)
{
	struct rules_header header = {(char *)"x-team", (char *)"42"};
	const struct rules_rule rule = {.headers = &header, .header_count = 1};
	struct scene s;

	open_scene(&s, "plain.test");
	s.f.setters[s.f.setter_count++] = &rule;
	(void)peer_request(
		&s.guest, PLAIN "x_team=7\nx-team=8\nx_fixed=no\nx_teams=9", NULL, 0, NULL);
	run(&s);
	expect(peer_log(&s.server), "1 x_teams=9\n1 x-fixed=yes (hidden)\n1 x-team=42 (hidden)\n");
	assert_null(strstr(peer_log(&s.server), "x_team="));
	assert_null(strstr(peer_log(&s.server), "x_fixed"));
	close_scene(&s);
}

/* Of what lists tools, little is kept, and that is counted. */
static void paths_of_tools_are_kept_without_a_query(void **state)
{
	static const char list[] = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":["
				   "{\"name\":\"drop\"}]}}\n\n";
	struct buf head = BUF_INIT(64 << 10);

	for (unsigned query = 0; query < 2; query++) {
		struct scene s;

		open_scene(&s, "plain.test");
		s.f.tools = true;
		s.server.answer.fields = ":status=200\ncontent-type=text/event-stream\n";
		s.server.answer.body = list;
		buf_clear(&head);
		(void)buf_printf(&head,
			":method=GET\n:scheme=https\n:authority=plain.test\n:path=/%s%0*u%c",
			query ? "?" : "", RULES_PATH_MAX + 5000, 0, 0);
		(void)peer_request(&s.guest, (const char *)buf_head(&head), NULL, 0, NULL);
		run(&s);
		assert_int_equal(s.f.shown, 1);
		assert_int_equal(s.f.longest, query ? 1 : RULES_PATH_MAX + 1);
		assert_null(strstr(peer_log(&s.guest), "drop"));
		close_scene(&s);
	}
	buf_done(&head);
}

/* --- what passes --- */

static void a_request_is_written_anew(void **state)
{
	struct scene s;

	open_scene(&s, "api.test");
	(void)peer_request(&s.guest,
		API "authorization=mine\nhost=api.test:443\nte=trailers\nx-key=" PLACEHOLDER
		    "\ncontent-length=4\naccept-encoding=gzip",
		"body", 0, NULL);
	run(&s);
	assert_string_equal(peer_log(&s.server),
		"1 :method=POST\n1 :scheme=https\n1 :authority=api.test\n1 :path=/a?b=c\n"
		"1 x-key=" HELD_SECRET " (hidden)\n1 authorization=Bearer " RULE_SECRET
		" (hidden)\n"
		"1 x-fixed=yes (hidden)\n1 accept-encoding=identity\n1 content-length=4\n"
		"1 te=trailers\n1 DATA body\n1 END\n");
	assert_string_equal(peer_log(&s.guest), "1 :status=200\n1 DATA ok\n1 END\n");
	assert_string_equal(fixture_log(&s.f), "POST /a 200 allowed 4 2 held rule\n");
	close_scene(&s);
}

static void secrets_do_not_come_back(void **state)
{
	struct scene s;

	open_scene(&s, "api.test");
	s.server.answer = (struct peer_answer){
		.fields = ":status=200\nx=" HELD_SECRET "\ncontent-length=38\nalt-svc=h3\n",
		.body = HELD_SECRET "-" RULE_SECRET "-",
		.trailers = "grpc-status=0\ngrpc-message=" RULE_SECRET};
	(void)peer_request(&s.guest, API, NULL, 0, NULL);
	run(&s);
	assert_string_equal(peer_log(&s.guest),
		"1 :status=200\n1 x=" HELD_SCRUBBED "\n1 content-length=38\n1 DATA " HELD_SCRUBBED
		"-" RULE_SCRUBBED "-\n1 grpc-status=0\n1 grpc-message=" RULE_SCRUBBED "\n1 END\n");
	close_scene(&s);
}

static void what_may_be_of_a_secret_waits(void **state)
{
	struct scene s;

	open_scene(&s, "held.test");
	assert_true(exchange_is_quiet(s.f.x));
	s.server.answer.body = "data: sk-real";
	s.server.answer.stays = true;
	(void)peer_request(&s.guest, HELD, NULL, 0, NULL);
	run(&s);
	assert_false(exchange_is_quiet(s.f.x));
	expect(peer_log(&s.guest), "1 DATA data: \n");
	exchange_end(s.f.x);
	run(&s);
	expect(peer_log(&s.guest), "GOAWAY 0\n");
	assert_int_equal(
		exchange_state(s.f.x), EXCHANGE_GOING); /* as long as there is the stream */
	close_scene(&s);
}

static void trailers_and_interim_answers_pass(void **state)
{
	struct scene s;

	open_scene(&s, "plain.test");
	s.server.answer.interim = ":status=103\nlink=x\n";
	(void)peer_request(&s.guest, PLAIN "expect=100-continue", "abc", 0, "x-sum=1\nx-fixed=no");
	run(&s);
	assert_string_equal(peer_log(&s.guest),
		"1 :status=100\n1 :status=103\n1 link=x\n1 :status=200\n1 DATA ok\n1 END\n");
	expect(peer_log(&s.server), "1 DATA abc\n1 x-sum=1\n1 END\n");
	close_scene(&s);
}

static void interim_answers_have_a_limit(void **state)
{
	struct scene s;

	for (unsigned count = 32; count <= 33; count++) {
		open_scene(&s, "plain.test");
		s.server.answer.interim = ":status=103\nlink=x\n";
		s.server.answer.interims = count;
		(void)peer_request(&s.guest, PLAIN, NULL, 0, NULL);
		run(&s);
		expect(peer_log(&s.guest), count == 32 ? ":status=200\n" : ":status=502\n");
		close_scene(&s);
	}
}

static void heads_without_bodies_pass(void **state)
{
	struct scene s;

	open_scene(&s, "held.test");
	s.server.answer = (struct peer_answer){
		.fields = ":status=200\ncontent-encoding=gzip\ncontent-length=99\n"};
	(void)peer_request(&s.guest, ":method=HEAD\n:scheme=https\n:authority=held.test\n:path=/\n",
		NULL, 0, NULL);
	run(&s);
	assert_string_equal(peer_log(&s.guest),
		"1 :status=200\n1 content-encoding=gzip\n1 content-length=99\n1 END\n");
	close_scene(&s);
}

static void large_bodies_pass_both_ways(void **state)
{
	struct scene s;

	open_scene(&s, "held.test");
	s.server.answer.endless = 5 << 20;
	for (unsigned i = 0; i < 3; i++)
		(void)peer_request(&s.guest, HELD, NULL, 3 << 20, NULL);
	run(&s);
	assert_int_equal(s.server.bytes, 9 << 20);
	assert_int_equal(s.guest.bytes, 15 << 20);
	assert_int_equal(s.f.records, 3);
	close_scene(&s);
}

/* --- what is refused --- */

static const struct refused_row {
	const char *host, *fields;
	unsigned status; /* 0: the stream is reset */
} refused[] = {
	{"plain.test", ":method=GET\n:scheme=https\n:authority=evil.test\n:path=/\n", 421},
	{"plain.test", ":method=GET\n:scheme=https\n:authority=plain.test:80\n:path=/\n", 421},
	{"plain.test", ":method=GET\n:scheme=https\n:authority=plain.test.\n:path=/\n", 421},
	{"plain.test", PLAIN "host=evil.test", 421},
	{"plain.test", ":method=GET\n:scheme=https\n:path=/\nhost=evil.test", 421},
	{"plain.test", ":method=GET\n:scheme=https\n:authority=x@plain.test\n:path=/\n", 421},
	{"plain.test", PLAIN "host=plain.test\nhost=plain.test", 0},
	{"plain.test", ":method=delete\n:scheme=https\n:authority=plain.test\n:path=/\n", 400},
	{"plain.test", ":method=GEt\n:scheme=https\n:authority=plain.test\n:path=/\n", 400},
	{"plain.test", ":method=GET\n:scheme=http\n:authority=plain.test\n:path=/\n", 400},
	{"plain.test", ":method=GET\n:scheme=https\n:authority=plain.test\n:path=/#a\n", 400},
	{"plain.test", ":method=GET\n:scheme=https\n:authority=plain.test\n:path=x\n", 0},
	{"plain.test", ":method=GET\n:scheme=https\n:authority=plain.test\n:path=/a b\n", 0},
	{"plain.test", ":method=GET\n:scheme=https\n:authority=plain.test\n:path=*\n", 0},
	{"plain.test", ":method=CONNECT\n:authority=plain.test:443\n", 405},
	{"plain.test",
		":method=CONNECT\n:protocol=websocket\n:scheme=https\n:authority=plain.test\n"
		":path=/\n",
		0},
	{"plain.test", ":method=GET\n:scheme=https\n:path=/\n", 0},
	{"plain.test", ":method=GET\n:method=GET\n:scheme=https\n:authority=plain.test\n:path=/\n",
		0},
	{"plain.test", "a=b\n" PLAIN, 0},
	{"plain.test", PLAIN ":path=/\n", 0},
	{"plain.test", PLAIN "connection=close", 0},
	{"plain.test", PLAIN "transfer-encoding=chunked", 0},
	{"plain.test", PLAIN "upgrade=websocket", 0},
	{"plain.test", PLAIN "te=gzip", 0},
	{"plain.test", PLAIN "content-length=5\ncontent-length=5", 0},
	{"plain.test", PLAIN "content-length=x", 0},
	{"plain.test", PLAIN "content-length=5", 0},
	{"plain.test", PLAIN "a=\x01", 400},
	{"plain.test", PLAIN "a=b\rc", 400},
	{"plain.test", PLAIN "a b=c", 400},
	{"plain.test", ":method=GET\n:scheme=https\n:authority=plain.test\n:path=/denied?x\n", 403},
	{"unknown.test", ":method=GET\n:scheme=https\n:authority=unknown.test\n:path=/\n", 502},
};

static void bad_requests_are_refused(void **state)
{
	char status[24];
	struct scene s;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		const struct refused_row *row = &refused[i];

		open_scene(&s, row->host);
		s.f.denied = "/denied";
		(void)peer_request(&s.guest, row->fields, NULL, 0, NULL);
		run(&s);
		if (s.server.heads)
			fail_msg("%s: went to the server", row->fields);
		(void)snprintf(status, sizeof(status), "1 :status=%u\n", row->status);
		expect(peer_log(&s.guest), row->status ? status : "1 RESET 1\n");
		expect(fixture_log(&s.f), row->status ? " denied 0 0\n" : " 400 denied 0 0\n");
		assert_int_equal(exchange_state(s.f.x), EXCHANGE_GOING);
		close_scene(&s);
	}
}

/* A body is not waited for, and the connection goes on. */
static void a_refused_body_is_dropped(void **state)
{
	struct scene s;

	open_scene(&s, "plain.test");
	s.f.denied = "/denied";
	(void)peer_request(&s.guest,
		":method=POST\n:scheme=https\n:authority=plain.test\n:path=/denied\n", NULL,
		1 << 20, NULL);
	run(&s);
	(void)peer_request(&s.guest, PLAIN, NULL, 0, NULL);
	run(&s);
	expect(peer_log(&s.guest), "1 :status=403\n");
	expect(peer_log(&s.guest), "3 :status=200\n");
	assert_int_equal(s.server.bytes, 0);
	close_scene(&s);
}

static void heads_have_limits(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	struct scene s;

	for (unsigned fields = 200; fields <= 270; fields += 70) {
		buf_clear(&b);
		(void)buf_add_str(&b, PLAIN);
		for (unsigned i = 0; i < fields; i++)
			(void)buf_printf(&b, "x-%u=y\n", i);
		(void)buf_add(&b, "", 1);
		open_scene(&s, "plain.test");
		(void)peer_request(&s.guest, (const char *)buf_head(&b), NULL, 0, NULL);
		run(&s);
		expect(peer_log(&s.guest), fields == 200 ? "1 :status=200\n" : "1 :status=431\n");
		close_scene(&s);
	}
	buf_done(&b);
}

/* --- answers that are none --- */

static void bad_answers_are_502(void **state)
{
	static const char *const bad[] = {":status=200\ncontent-encoding=gzip\n",
		":status=200\na=b\rc\n", ":status=200\na b=c\n"};
	struct scene s;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		open_scene(&s, "held.test");
		s.server.answer.fields = bad[i];
		s.server.answer.endless = 1 << 20; /* so that there is something to reset */
		(void)peer_request(&s.guest, HELD, NULL, 0, NULL);
		run(&s);
		expect(peer_log(&s.guest), "1 :status=502\n");
		assert_string_equal(fixture_log(&s.f), "GET / 502 failed 0 0\n");
		expect(peer_log(&s.server), "1 RESET 8\n");
		close_scene(&s);
	}
}

static void resets_pass_both_ways(void **state)
{
	struct scene s;

	open_scene(&s, "plain.test");
	s.server.answer.silent = true;
	(void)peer_request(&s.guest, PLAIN, NULL, 0, NULL);
	(void)peer_request(&s.guest, PLAIN, NULL, 0, NULL);
	run(&s);
	(void)nghttp2_submit_rst_stream(s.server.n, 0, 1, NGHTTP2_ENHANCE_YOUR_CALM);
	(void)nghttp2_submit_rst_stream(s.guest.n, 0, 3, NGHTTP2_CANCEL);
	run(&s);
	expect(peer_log(&s.guest), "1 RESET 11\n");
	expect(peer_log(&s.server), "3 RESET 8\n");
	expect(fixture_log(&s.f), "GET / 0 failed 0 0\n");
	expect(fixture_log(&s.f), "GET / 0 reset 0 0\n");
	close_scene(&s);
}

/* As a server does that has enough of an upload. */
static void an_early_answer_stops_the_request(void **state)
{
	struct scene s;

	open_scene(&s, "plain.test");
	s.server.answer.early = s.server.hold = true;
	(void)peer_request(&s.guest, PLAIN, NULL, 64 << 20, NULL);
	run(&s);
	(void)nghttp2_submit_rst_stream(s.server.n, 0, 1, NGHTTP2_NO_ERROR);
	run(&s);
	expect(peer_log(&s.guest), "1 :status=200\n1 DATA ok\n1 END\n");
	assert_int_equal(s.f.records, 1);
	expect(fixture_log(&s.f), "GET / 200 allowed ");
	assert_true(nghttp2_session_get_stream_user_data(s.guest.n, 1) == NULL);
	close_scene(&s);
}

static void a_server_that_goes_away_is_passed_on(void **state)
{
	struct scene s;

	open_scene(&s, "plain.test");
	s.server.answer.silent = true;
	for (unsigned i = 0; i < 3; i++)
		(void)peer_request(&s.guest, PLAIN, NULL, 0, NULL);
	run(&s);
	(void)nghttp2_submit_goaway(s.server.n, 0, 1, NGHTTP2_NO_ERROR, NULL, 0);
	run(&s);
	expect(peer_log(&s.guest), "3 RESET 7\n"); /* refused: it may be tried again */
	expect(peer_log(&s.guest), "5 RESET 7\n");
	expect(peer_log(&s.guest), "GOAWAY 0\n");
	peer_respond(&s.server, 1); /* silent: the first waits */
	s.server.answer.silent = false;
	peer_respond(&s.server, 1);
	run(&s);
	expect(peer_log(&s.guest), "1 DATA ok\n1 END\n");
	assert_int_equal(exchange_state(s.f.x), EXCHANGE_DONE);
	close_scene(&s);
}

static void a_server_that_is_gone_is_502(void **state)
{
	struct scene s;

	open_scene(&s, "plain.test");
	exchange_fail_server(s.f.x, "no certificate");
	(void)peer_request(&s.guest, PLAIN, NULL, 0, NULL);
	run(&s);
	expect(peer_log(&s.guest), "1 :status=502\n");
	expect(peer_log(&s.guest), "mayfly: no certificate\n");
	close_scene(&s);

	open_scene(&s, "plain.test");
	s.server.answer.silent = true;
	(void)peer_request(&s.guest, PLAIN, NULL, 0, NULL);
	run(&s);
	exchange_receive_end(s.f.x, EXCHANGE_SERVER);
	run(&s);
	expect(peer_log(&s.guest), "1 :status=502\n");
	expect(peer_log(&s.guest), "GOAWAY 0\n");
	assert_int_equal(exchange_state(s.f.x), EXCHANGE_DONE);
	close_scene(&s);
}

static void a_guest_that_is_gone_ends_it(void **state)
{
	struct scene s;

	open_scene(&s, "plain.test");
	s.server.answer.silent = true;
	(void)peer_request(&s.guest, PLAIN, NULL, 0, NULL);
	run(&s);
	exchange_receive_end(s.f.x, EXCHANGE_GUEST);
	assert_int_equal(exchange_state(s.f.x), EXCHANGE_FAILED);
	exchange_free(s.f.x);
	s.f.x = NULL;
	assert_string_equal(fixture_log(&s.f), "GET / 0 reset 0 0\n");
	close_scene(&s);
}

/* --- limits --- */

static void what_is_not_taken_holds_the_sender(void **state)
{
	struct scene s;

	open_scene(&s, "held.test");
	s.guest.hold = s.server.hold = true;
	s.server.answer.early = true;
	s.server.answer.endless = 32 << 20;
	for (unsigned i = 0; i < 20; i++)
		(void)peer_request(&s.guest, HELD, NULL, 32 << 20, NULL);
	run(&s);
	assert_int_equal(exchange_state(s.f.x), EXCHANGE_GOING);
	assert_true(s.guest.bytes <= 65535 && s.server.bytes <= 65535); /* the peers' windows */
	assert_true(exchange_memory(s.f.x) < 5 * EXCHANGE_HELD_MAX);
	close_scene(&s);
}

static void streams_have_a_limit(void **state)
{
	struct scene s;

	open_scene(&s, "plain.test");
	s.server.answer.silent = true;
	for (unsigned i = 0; i < 150; i++)
		(void)peer_request(&s.guest, PLAIN, NULL, 0, NULL);
	run(&s); /* the client has not seen the settings when it begins */
	assert_true(s.server.heads >= EXCHANGE_STREAMS_MAX - 1 &&
		    s.server.heads <= EXCHANGE_STREAMS_MAX);
	close_scene(&s);
}

static void rapid_resets_end_the_connection(void **state)
{
	struct scene s;
	int32_t id;

	open_scene(&s, "plain.test");
	for (unsigned i = 0; i < 3000 && exchange_state(s.f.x) == EXCHANGE_GOING; i++) {
		id = peer_request(&s.guest, PLAIN, NULL, 0, NULL);
		(void)peer_move(&s.guest);
		(void)nghttp2_submit_rst_stream(s.guest.n, 0, id, NGHTTP2_CANCEL);
		(void)peer_move(&s.guest);
		assert_true(exchange_memory(s.f.x) < 4 << 20);
	}
	assert_int_not_equal(exchange_state(s.f.x), EXCHANGE_GOING);
	close_scene(&s);
}

/* It breaks the rules of each stream, so that we reset it. */
static void resets_that_a_program_provokes_end_the_connection(void **state)
{
	struct scene s;
	unsigned streams = 0;

	open_scene(&s, "plain.test");
	s.server.answer.silent = true;
	run(&s);
	for (; streams < 3000 && exchange_state(s.f.x) == EXCHANGE_GOING; streams++) {
		int32_t id = peer_request(&s.guest, PLAIN, NULL, 0, NULL);
		/* WINDOW_UPDATE, beyond the largest window */
		uint8_t frame[] = {
			0, 0, 4, 8, 0, 0, 0, (uint8_t)(id >> 8), (uint8_t)id, 0x7f, 255, 255, 255};

		(void)peer_move(&s.guest);
		(void)buf_add(&s.guest.wait, frame, sizeof(frame));
		run(&s);
	}
	assert_true(streams > 400 && streams < 1000);
	assert_true(s.guest.resets > 400);
	assert_string_equal(exchange_reason(s.f.x), "the program makes streams fail all the time");
	close_scene(&s);
}

/* An answer may have secrets. A connection with many of them ends, and the record of it says so. */
static void many_secrets_in_answers_end_the_connection(void **state)
{
	struct buf body = BUF_INIT(64 << 10);
	struct scene s;

	open_scene(&s, "held.test");
	s.server.answer.body = HELD_SECRET "\n";
	for (unsigned i = 0; i < EXCHANGE_SAID_MAX; i++) {
		assert_int_equal(exchange_state(s.f.x), EXCHANGE_GOING);
		(void)peer_request(&s.guest, HELD, NULL, 0, NULL);
		run(&s);
	}
	expect(peer_log(&s.guest), "127 END\n");
	expect(peer_log(&s.guest), "GOAWAY 0\n");
	assert_int_equal(exchange_state(s.f.x), EXCHANGE_DONE);
	assert_non_null(strstr(exchange_reason(s.f.x), "64 secrets"));
	close_scene(&s);

	open_scene(&s, "held.test");
	for (unsigned i = 0; i < 300; i++)
		(void)buf_add_str(&body, HELD_SECRET "\n");
	(void)buf_add(&body, "", 1);
	s.server.answer.body = (const char *)buf_head(&body);
	(void)peer_request(&s.guest, HELD, NULL, 0, NULL);
	run(&s);
	assert_int_equal(exchange_state(s.f.x), EXCHANGE_FAILED);
	assert_non_null(strstr(exchange_reason(s.f.x), "256 secrets"));
	close_scene(&s);
	buf_done(&body);
}

/* Raw frames behind the preface and settings of the client. Returns what was taken. */
static size_t flood(struct scene *s, const uint8_t *frame, size_t bytes, unsigned times)
{
	size_t taken = 0, n;

	run(s);
	for (unsigned i = 0; i < times; i++) {
		n = exchange_receive(s->f.x, EXCHANGE_GUEST, frame, bytes);
		taken += n;
		if (n < bytes || exchange_state(s->f.x) != EXCHANGE_GOING)
			break;
	}
	return taken;
}

static void floods_are_bounded(void **state)
{
	static const uint8_t ping[17] = {0, 0, 8, 6}, settings[9] = {0, 0, 0, 4},
			     begin[12] = {0, 0, 3, 1, 0, 0, 0, 0, 1, 0x82, 0x87, 0x84},
			     more[10] = {0, 0, 1, 9, 0, 0, 0, 0, 1, 0x84};
	struct scene s;

	open_scene(&s, "plain.test"); /* nobody reads the acknowledgements */
	assert_true(flood(&s, ping, sizeof(ping), 1000000) < 1000000);
	assert_true(exchange_memory(s.f.x) < 1 << 20);
	close_scene(&s);

	open_scene(&s, "plain.test");
	assert_true(flood(&s, settings, sizeof(settings), 1000000) < 1000000);
	close_scene(&s);

	open_scene(&s, "plain.test");
	(void)flood(&s, begin, sizeof(begin), 1);
	assert_true(flood(&s, more, sizeof(more), 1000) < 1000);
	assert_int_not_equal(exchange_state(s.f.x), EXCHANGE_GOING);
	close_scene(&s);
}

/* 56 KB of fields, of which HPACK needs 4 KB once and 14 bytes each time after. */
static char *large_fields(const char *first)
{
	struct buf b = BUF_INIT(1 << 20);

	assert_int_equal(buf_add_str(&b, first), 0);
	for (unsigned i = 0; i < 14; i++)
		assert_int_equal(buf_printf(&b, "a=%04000d\n", 0), 0);
	assert_int_equal(buf_add(&b, "", 1), 0);
	return (char *)b.data;
}

static void an_unread_flood_of_heads_waits(void **state)
{
	_cleanup_free_ char *fields = large_fields(":status=103\n");
	struct scene s;

	open_scene(&s, "held.test");
	s.server.answer.interim = fields;
	s.server.answer.interims = 30;
	s.guest.deaf = true;
	for (unsigned i = 0; i < 10; i++)
		(void)peer_request(&s.guest, HELD, NULL, 0, NULL);
	run(&s);
	assert_int_equal(exchange_state(s.f.x), EXCHANGE_GOING);
	assert_false(exchange_wants(s.f.x, EXCHANGE_SERVER)); /* of 17 MB */
	assert_true(exchange_memory(s.f.x) < 2 << 20);
	s.guest.deaf = false;
	s.guest.log.max = 0;
	run(&s);
	assert_int_equal(s.guest.heads, 31 * 10);
	close_scene(&s);
}

static void unread_trailers_end_the_connection(void **state)
{
	_cleanup_free_ char *fields = large_fields("");
	struct scene s;

	open_scene(&s, "held.test");
	s.guest.hold = true; /* so that trailers wait behind a body */
	s.server.answer.trailers = fields;
	s.server.answer.endless = 1000;
	for (unsigned i = 0; i < 100; i++)
		(void)peer_request(&s.guest, HELD, NULL, 0, NULL);
	run(&s);
	assert_int_equal(exchange_state(s.f.x), EXCHANGE_FAILED);
	expect(exchange_reason(s.f.x), "takes too much memory");
	assert_true(exchange_memory(s.f.x) < HTTP2_MEMORY_MAX + (1 << 20));
	close_scene(&s);
}

static void connections_share_a_budget(void **state)
{
	struct http2_budget budget = {0};
	struct http2_account a[9] = {{0}};
	struct http2_memory m;
	void *p;

	for (unsigned i = 0; i < 9; i++)
		a[i].budget = &budget;
	for (unsigned i = 0; i < 8; i++)
		assert_true(http2_account_take(&a[i], HTTP2_MEMORY_MAX));
	assert_false(http2_account_take(&a[0], 1));
	expect(a[0].refused, "over 4 MiB");
	http2_memory_init(&m, &a[8]);
	assert_null(m.mem.malloc(1, &m));
	expect(a[8].refused, "of all intercepted connections");
	http2_account_give(&a[0], HTTP2_MEMORY_MAX);
	p = m.mem.calloc(100, 10, &m);
	assert_non_null(p);
	p = m.mem.realloc(p, 100000, &m);
	assert_true(p && m.bytes >= 100000 && a[8].bytes == m.bytes);
	assert_null(m.mem.realloc(p, HTTP2_MEMORY_MAX, &m)); /* p is still there */
	m.mem.free(p, &m);
	assert_int_equal(budget.bytes, 7 * HTTP2_MEMORY_MAX);
}

static void what_is_no_http2_fails(void **state)
{
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP2, "plain.test", 443));
	(void)fixture_feed(&f, EXCHANGE_GUEST, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, SIZE_MAX);
	assert_int_equal(exchange_state(f.x), EXCHANGE_FAILED);
	assert_true(exchange_reason(f.x)[0]);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_headers_of_rules_go_out),
		cmocka_unit_test(names_with_underscores_are_replaced),
		cmocka_unit_test(paths_of_tools_are_kept_without_a_query),
		cmocka_unit_test(a_request_is_written_anew),
		cmocka_unit_test(secrets_do_not_come_back),
		cmocka_unit_test(what_may_be_of_a_secret_waits),
		cmocka_unit_test(trailers_and_interim_answers_pass),
		cmocka_unit_test(interim_answers_have_a_limit),
		cmocka_unit_test(heads_without_bodies_pass),
		cmocka_unit_test(large_bodies_pass_both_ways),
		cmocka_unit_test(bad_requests_are_refused),
		cmocka_unit_test(a_refused_body_is_dropped),
		cmocka_unit_test(heads_have_limits),
		cmocka_unit_test(bad_answers_are_502),
		cmocka_unit_test(resets_pass_both_ways),
		cmocka_unit_test(an_early_answer_stops_the_request),
		cmocka_unit_test(a_server_that_goes_away_is_passed_on),
		cmocka_unit_test(a_server_that_is_gone_is_502),
		cmocka_unit_test(a_guest_that_is_gone_ends_it),
		cmocka_unit_test(what_is_not_taken_holds_the_sender),
		cmocka_unit_test(streams_have_a_limit),
		cmocka_unit_test(rapid_resets_end_the_connection),
		cmocka_unit_test(resets_that_a_program_provokes_end_the_connection),
		cmocka_unit_test(many_secrets_in_answers_end_the_connection),
		cmocka_unit_test(floods_are_bounded),
		cmocka_unit_test(an_unread_flood_of_heads_waits),
		cmocka_unit_test(unread_trailers_end_the_connection),
		cmocka_unit_test(connections_share_a_budget),
		cmocka_unit_test(what_is_no_http2_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
