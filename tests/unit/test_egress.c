/* The worker's judgements without sockets: rules, places, names, DNS messages.
 * tests/system/test_egress has the worker itself. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/place.h"
#include "base/rate.h"
#include "egress/dns.h"
#include "egress/names.h"
#include "dialler/own.h"
#include "egress/policy.h"
#include "rules/between_name.h"

static uint32_t address(const char *text)
{
	uint32_t v = 0;

	assert_int_equal(net_parse_address(text, &v), 0);
	return v;
}

/* --- addresses --- */

static void addresses_have_one_spelling(void **state)
{
	static const char *const bad[] = {"", "1", "1.2", "1.2.3", "1.2.3.4.5", "01.2.3.4",
		"1.2.3.256", "0x1.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1..2.3", "1.2.3.", "-1.2.3.4",
		"1.2.3.0004", "::1", "2130706433", "1.2.3.4/8", "1.2.3.0/33", "1.2.3.0/",
		"1.2.3.0/024", "0.0.0.1/0"};
	struct net n;
	uint32_t v;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(net_parse_address(bad[i], &v), -EINVAL);
		assert_int_equal(net_parse(bad[i], &n), -EINVAL);
	}
	assert_int_equal(net_parse("0.0.0.0/0", &n), 0);
	assert_true(net_has(&n, 0) && net_has(&n, UINT32_MAX));
	assert_int_equal(net_parse("192.0.2.0/24", &n), 0);
	assert_true(net_has(&n, address("192.0.2.255")));
	assert_false(net_has(&n, address("192.0.3.0")));
}

static void places_are_known(void **state)
{
	static const struct {
		const char *first, *last;
		enum place place;
	} rows[] = {
		{"0.0.0.0", "0.255.255.255", PLACE_CLOSED},
		{"127.0.0.0", "127.255.255.255", PLACE_CLOSED},
		{"198.18.0.0", "198.19.255.255", PLACE_CLOSED},
		{"224.0.0.0", "255.255.255.255", PLACE_CLOSED},
		{"10.0.0.0", "10.255.255.255", PLACE_PRIVATE},
		{"172.16.0.0", "172.31.255.255", PLACE_PRIVATE},
		{"192.168.0.0", "192.168.255.255", PLACE_PRIVATE},
		{"100.64.0.0", "100.127.255.255", PLACE_PRIVATE},
		{"169.254.0.0", "169.254.255.255", PLACE_PRIVATE},
		{"169.254.169.254", "169.254.169.254", PLACE_CLOSED},
		{"100.100.100.200", "100.100.100.200", PLACE_CLOSED},
		{"168.63.129.16", "168.63.129.16", PLACE_CLOSED},
		{"192.0.0.192", "192.0.0.192", PLACE_CLOSED},
		{"192.0.0.0", "192.0.0.191", PLACE_PRIVATE},
		{"192.88.99.0", "192.88.99.255", PLACE_CLOSED},
		{"198.51.100.0", "198.51.100.255", PLACE_DOCUMENTATION},
		{"1.0.0.0", "9.255.255.255", PLACE_PUBLIC},
		{"11.0.0.0", "100.63.255.255", PLACE_PUBLIC},
		{"100.128.0.0", "126.255.255.255", PLACE_PUBLIC},
		{"128.0.0.0", "168.63.129.15", PLACE_PUBLIC},
		{"172.15.255.255", "172.15.255.255", PLACE_PUBLIC},
		{"172.32.0.0", "191.255.255.255", PLACE_PUBLIC},
		{"198.17.255.255", "198.17.255.255", PLACE_PUBLIC},
		{"198.20.0.0", "198.51.99.255", PLACE_PUBLIC},
		{"203.0.114.0", "223.255.255.255", PLACE_PUBLIC},
	};
	const char *what;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(place_of(address(rows[i].first), &what), rows[i].place);
		assert_true((what == NULL) == (rows[i].place == PLACE_PUBLIC));
		assert_int_equal(place_of(address(rows[i].last), NULL), rows[i].place);
	}
}

static void ranges_are_special_as_a_whole(void **state)
{
	static const struct {
		const char *range;
		bool special;
	} rows[] = {
		{"10.0.0.0/8", true},
		{"10.1.2.0/24", true},
		{"10.0.0.0/7", false},
		{"224.0.0.0/3", true},
		{"169.254.169.254/32", true},
		{"168.63.129.16/32", true},
		{"168.63.129.0/24", false},
		{"192.0.2.0/24", false},
		{"0.0.0.0/0", false},
		{"93.184.216.34/32", false},
	};
	struct net n;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(net_parse(rows[i].range, &n), 0);
		assert_true(place_is_special(&n) == rows[i].special);
	}
}

static void own_addresses_are_known(void **state)
{
	int fd = own_open();

	assert_true(fd >= 0);
	for (unsigned i = 0; i < 3; i++) { /* answers do not mix */
		assert_int_equal(own_is(fd, address("127.0.0.1")), 1);
		assert_int_equal(own_is(fd, address("127.9.9.9")), 1);
		assert_int_equal(own_is(fd, address("255.255.255.255")), 1);
		assert_int_equal(own_is(fd, address("93.184.216.34")), 0);
	}
	(void)close(fd); /* the test's */
}

/* Sends a question past own_is(), so that its answer is left over. */
static void leave_answer(int fd, uint32_t number)
{
	struct {
		struct nlmsghdr head;
		struct rtmsg route;
		struct rtattr to;
		uint32_t address;
	} r = {.head = {.nlmsg_len = sizeof(r),
		       .nlmsg_type = RTM_GETROUTE,
		       .nlmsg_flags = NLM_F_REQUEST,
		       .nlmsg_seq = number},
		.route = {.rtm_family = AF_INET, .rtm_dst_len = 32},
		.to = {.rta_len = RTA_LENGTH(4), .rta_type = RTA_DST},
		.address = htonl(address("93.184.216.34"))};

	assert_int_equal(send(fd, &r, sizeof(r), 0), sizeof(r));
}

static void stale_answers_about_own_are_skipped(void **state)
{
	int fd = own_open();

	(void)state; /* none */
	assert_true(fd >= 0);
	leave_answer(fd, 0);
	leave_answer(fd, UINT32_MAX);
	assert_int_equal(own_is(fd, address("127.0.0.1")), 1);
	assert_int_equal(own_is(fd, address("93.184.216.34")), 0);
	leave_answer(fd, 0);
	assert_int_equal(own_is(fd, address("127.9.9.9")), 1);
	for (unsigned i = 0; i < 100; i++)
		leave_answer(fd, 0);
	assert_true(own_is(fd, address("127.0.0.1")) < 0); /* unknown, so it is not dialled */
	(void)close(fd);				   /* the test's */
}

/* --- policies --- */

static struct policy *policy_of(const char *layers)
{
	char text[4096];
	struct error e = {0};
	struct policy *p = NULL;
	json_t *v;

	(void)snprintf(
		text, sizeof(text), "{\"version\":1,\"generation\":1,\"layers\":%s}", layers);
	v = json_loads(text, 0, NULL);
	assert_non_null(v);
	if (policy_make(v, &p, &e) < 0)
		fail_msg("%s", e.message);
	json_decref(v);
	return p;
}

#define NAMES                                                                                      \
	"[{\"default\":\"allow\",\"rules\":["                                                      \
	"{\"id\":\"api\",\"action\":\"allow\",\"host\":\"api.example.com\",\"ports\":[443]},"      \
	"{\"id\":\"below\",\"action\":\"allow\",\"host\":\"*.example.org\"},"                      \
	"{\"id\":\"net\",\"action\":\"allow\",\"net\":\"192.0.2.0/24\",\"ports\":[22,80]},"        \
	"{\"id\":\"hole\",\"action\":\"deny\",\"net\":\"192.0.2.0/25\"},"                          \
	"{\"id\":\"half\",\"action\":\"allow\",\"net\":\"192.0.2.0/24\"},"                         \
	"{\"id\":\"rest\",\"action\":\"deny\",\"net\":\"0.0.0.0/0\"}]}]"

static void rules_decide_in_their_order(void **state)
{
	static const struct {
		const char *name, *address;
		uint16_t port;
		bool allow;
		const char *rule;
	} rows[] = {
		{"api.example.com", "1.2.3.4", 443, true, "api"},
		{"api.example.com", "1.2.3.4", 80, false, "rest"},
		{"api.example.com", "192.0.2.200", 80, true, "net"},
		{"xapi.example.com", "1.2.3.4", 443, false, "rest"},
		{"api.example.com.evil", "1.2.3.4", 443, false, "rest"},
		{"example.com", "1.2.3.4", 443, false, "rest"},
		{"a.example.org", "1.2.3.4", 1, true, "below"},
		{"a.b.example.org", "10.0.0.1", 65535, true, "below"},
		{"example.org", "1.2.3.4", 443, false, "rest"},
		{"evilexample.org", "1.2.3.4", 443, false, "rest"},
		{NULL, "192.0.2.1", 22, true, "net"},
		{NULL, "192.0.2.1", 80, true, "net"},
		{NULL, "192.0.2.1", 443, false, "hole"},
		{NULL, "192.0.2.127", 443, false, "hole"},
		{NULL, "192.0.2.128", 443, true, "half"},
		{NULL, "192.0.3.0", 443, false, "rest"},
		{NULL, "1.2.3.4", 443, false, "rest"},
	};
	struct policy *p = policy_of(NAMES);

	assert_true(p->names);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy_verdict v =
			policy_judge(p, rows[i].name, address(rows[i].address), rows[i].port);

		assert_string_equal(v.rule, rows[i].rule);
		assert_int_equal(v.allow, rows[i].allow);
	}
	policy_free(p);
}

static void names_are_judged_before_they_are_asked_for(void **state)
{
	static const char some[] = "{\"id\":\"some\",\"action\":\"%s\",\"net\":\"%s\"%s}";
	static const struct {
		const char *action, *net, *ports, *otherwise;
		bool allow;
	} rows[] = {
		{"deny", "0.0.0.0/0", "", "allow", false},
		{"allow", "0.0.0.0/0", "", "deny", true},
		{"deny", "0.0.0.0/0", ",\"ports\":[25]", "allow", true},
		{"allow", "0.0.0.0/0", ",\"ports\":[443]", "deny", false},
		{"deny", "10.0.0.0/8", "", "allow", true},
		{"allow", "192.0.2.1", "", "deny", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char rule[256], layers[512];
		struct policy *p;

		(void)snprintf(
			rule, sizeof(rule), some, rows[i].action, rows[i].net, rows[i].ports);
		(void)snprintf(layers, sizeof(layers), "[{\"default\":\"%s\",\"rules\":[%s]}]",
			rows[i].otherwise, rule);
		p = policy_of(layers);
		assert_false(p->names);
		assert_int_equal(policy_judge_name(p, "a.b").allow, rows[i].allow);
		policy_free(p);
	}
}

static void asking_is_between_denying_and_allowing(void **state)
{
#define ASK	    "{\"id\":\"ask\",\"action\":\"ask\",\"host\":\"a.b\",\"ports\":[443]}"
#define ONE(action) "{\"rules\":[" ASK "],\"default\":\"" action "\"}"
	static const struct {
		const char *layers, *name;
		uint16_t port;
		bool allow, ask;
		const char *rule;
	} rows[] = {
		{"[" ONE("deny") "]", "a.b", 443, false, true, "ask"},
		{"[" ONE("deny") "]", "a.b", 80, false, false, "default"},
		{"[" ONE("allow") "]", "a.b", 80, true, false, "default"},
		{"[" ONE("deny") "]", NULL, 443, false, false, "default"},
		{"[" ONE("deny") ",{\"default\":\"deny\"}]", "a.b", 443, false, false, "default"},
		{"[{\"default\":\"deny\"}," ONE("deny") "]", "a.b", 443, false, false, "default"},
		{"[" ONE("deny") ",{\"default\":\"allow\"}]", "a.b", 443, false, true, "ask"},
		{"[{\"default\":\"allow\"}," ONE("deny") "]", "a.b", 443, false, true, "ask"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy *p = policy_of(rows[i].layers);
		struct policy_verdict v =
			policy_judge(p, rows[i].name, address("192.0.2.1"), rows[i].port);

		assert_true(p->names);
		assert_int_equal(v.allow, rows[i].allow);
		assert_int_equal(v.ask, rows[i].ask);
		assert_string_equal(v.rule, rows[i].rule);
		policy_free(p);
	}
}

static void layers_only_narrow(void **state)
{
	struct policy *p =
		policy_of("[{\"default\":\"allow\"},{\"default\":\"deny\",\"rules\":[{\"id\":"
			  "\"x\",\"action\":\"allow\",\"net\":\"192.0.2.0/24\"}]},{"
			  "\"default\":\"allow\",\"rules\":[{\"id\":\"y\",\"action\":"
			  "\"deny\",\"net\":\"192.0.2.1\"}]}]");

	assert_string_equal(policy_judge(p, NULL, address("192.0.2.1"), 1).rule, "y");
	assert_false(policy_judge(p, NULL, address("192.0.2.1"), 1).allow);
	assert_true(policy_judge(p, NULL, address("192.0.2.2"), 1).allow);
	assert_false(policy_judge(p, NULL, address("192.0.3.2"), 1).allow);
	assert_false(policy_judge_name(p, "a").allow);
	policy_free(p);
}

static void other_sandboxes_need_rules_of_their_own(void **state)
{
#define RULES(rules) "[{\"default\":\"allow\",\"rules\":[" rules "]}]"
#define HOST(host)   "{\"id\":\"x\",\"action\":\"allow\",\"host\":\"" host "\"}"
	static const struct {
		const char *layers;
		bool allow, names;
	} rows[] = {
		{RULES(""), false, false},
		{RULES(HOST("*")), false, true},
		{RULES(HOST("*.internal")), false, true},
		{RULES(HOST("*.mayfly.internal")), true, false},
		{RULES(HOST("80-a.mayfly.internal")), true, false},
		{RULES(HOST("81-a.mayfly.internal")), false, false},
		{RULES(HOST("xmayfly.internal")), false, true},
		{RULES("{\"id\":\"x\",\"action\":\"allow\",\"net\":\"0.0.0.0/0\"}"), false, false},
		{RULES("{\"id\":\"x\",\"action\":\"deny\",\"net\":\"0.0.0.0/0\"}," HOST(
			 "*.mayfly.internal")),
			true, false},
		{RULES("{\"id\":\"x\",\"action\":\"allow\",\"host\":\"*.mayfly.internal\","
		       "\"ports\":[81]}"),
			false, false},
		{"[{\"default\":\"allow\"},{\"default\":\"deny\",\"rules\":[" HOST(
			 "*.mayfly.internal") "]}]",
			false, false},
		{"[{\"default\":\"deny\",\"rules\":[" HOST(
			 "80-a.mayfly.internal") "]},"
						 "{\"default\":\"allow\",\"rules\":[" HOST(
							 "*.mayfly.internal") "]}]",
			true, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct policy *p = policy_of(rows[i].layers);

		if (policy_judge_between(p, "80-a.mayfly.internal", 80).allow != rows[i].allow)
			fail_msg("%s", rows[i].layers);
		assert_int_equal(p->names, rows[i].names);
		policy_free(p);
	}
}

static void names_of_other_sandboxes(void **state)
{
	static const char *const bad[] = {"mayfly.internal", ".mayfly.internal",
		"a.mayfly.internal", "80.mayfly.internal", "80-.mayfly.internal",
		"-a.mayfly.internal", "080-a.mayfly.internal", "0-a.mayfly.internal",
		"65536-a.mayfly.internal", "100000-a.mayfly.internal", "8x-a.mayfly.internal",
		"80-a.b.mayfly.internal", "x.80-a.mayfly.internal", "80-a.mayfly.internal.x",
		"80--a.mayfly.internal"};
	char to[BETWEEN_LABEL_BYTES];
	uint16_t port;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(between_name_parse(bad[i], &port, to), -EINVAL);
	assert_int_equal(between_name_parse("65535-a-b_c.mayfly.internal", &port, to), 0);
	assert_int_equal(port, 65535);
	assert_string_equal(to, "a-b_c");
	assert_false(between_name_is("mayfly.internal"));
	assert_true(between_name_is("x.y.mayfly.internal"));
}

static void hosts_are_names(void **state)
{
	static const char *const bad[] = {"", ".", "a.", ".a", "a..b", "A", "a b", "a*", "\xc3\xa4",
		"0123456789012345678901234567890123456789012345678901234567890123"};
	static const char *const good[] = {"a", "a.b", "_dmarc.a-b.c9"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(policy_is_host(bad[i]));
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(policy_is_host(good[i]));
}

/* --- names --- */

static void count(void *arg, const char *name, uint32_t a)
{
	assert_true(place_is_synthetic(a) && name[0]);
	(*(unsigned *)arg)++;
}

static void names_keep_their_addresses(void **state)
{
	struct names *n = names_make(), *other = names_make();
	uint32_t a, b;
	bool is_new;

	assert_non_null(n);
	a = names_address(n, "a.b", &is_new);
	assert_true(is_new && place_is_synthetic(a));
	b = names_address(n, "c.d", &is_new);
	assert_int_not_equal(a, b);
	assert_int_equal(names_address(n, "a.b", &is_new), a);
	assert_false(is_new);
	assert_string_equal(names_name(n, a), "a.b");
	assert_null(names_name(n, b + 1));
	assert_int_equal(names_restore(other, "c.d", b), 0);
	assert_int_equal(names_address(other, "c.d", &is_new), b);
	assert_int_not_equal(names_address(other, "a.b", &is_new), b);
	assert_int_equal(names_restore(other, "e.f", address("1.2.3.4")), -EINVAL);
	names_free(other);
	names_free(n);
}

static void the_oldest_name_goes(void **state)
{
	struct names *n = names_make();
	uint32_t first, kept;
	unsigned left = 0;
	char name[32];
	bool is_new;

	first = names_address(n, "first", &is_new);
	kept = names_address(n, "kept", &is_new);
	for (unsigned i = 0; i < 5 * NAMES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		assert_int_not_equal(names_address(n, name, &is_new), first);
		assert_int_equal(names_address(n, "kept", &is_new), kept); /* it is used */
	}
	assert_null(names_name(n, first));
	names_each(n, count, &left);
	assert_int_equal(left, NAMES_MAX);
	names_free(n);
}

/* --- DNS --- */

static void an_answer_belongs_to_its_question(void **state)
{
	struct buf query = BUF_INIT(512), b = BUF_INIT(512);
	struct dns_question q;
	struct dns_answer a = {.addresses = {0x01020304, 0x01020305}, .count = 2, .ttl_s = 9}, got;
	bool cut;

	assert_int_equal(dns_put_query(&query, 77, 0x5, "www.example.com"), 0);
	assert_int_equal(dns_get_question(buf_head(&query), buf_len(&query), &q), DNS_NOERROR);
	assert_string_equal(q.name, "www.example.com");
	assert_memory_equal(q.raw, "\3WwW\7example\3com", 16);
	assert_int_equal(dns_put_answer(&b, &q, &a, 512), 0);
	assert_int_equal(dns_get_answer(buf_head(&b), buf_len(&b), buf_head(&query),
				 buf_len(&query), &got, &cut),
		0);
	assert_int_equal(got.count, 2);
	assert_int_equal(got.addresses[1], 0x01020305);
	assert_int_equal(got.ttl_s, 9);
	for (size_t i = 0; i < 12U + q.raw_bytes; i++) { /* id, and each letter's case */
		if (i >= 2 && i < 12)
			continue;
		b.data[b.start + i] ^= 0x20;
		assert_int_equal(dns_get_answer(buf_head(&b), buf_len(&b), buf_head(&query),
					 buf_len(&query), &got, &cut),
			-EBADMSG);
		b.data[b.start + i] ^= 0x20;
	}
	for (size_t n = 0; n < buf_len(&b) - 11; n++)
		assert_int_equal(dns_get_answer(buf_head(&b), n, buf_head(&query), buf_len(&query),
					 &got, &cut),
			-EBADMSG);
	buf_clear(&b);
	assert_int_equal(dns_put_answer(&b, &q, &a, 60), 0); /* too small: cut */
	assert_int_equal(dns_get_answer(buf_head(&b), buf_len(&b), buf_head(&query),
				 buf_len(&query), &got, &cut),
		0);
	assert_true(cut && got.count == 0);
	buf_done(&b);
	buf_done(&query);
}

static void reverse_names(void **state)
{
	uint32_t v;

	assert_int_equal(dns_parse_reverse("4.3.2.1.in-addr.arpa", &v), 0);
	assert_int_equal(v, 0x01020304);
	assert_int_equal(dns_parse_reverse("3.2.1.in-addr.arpa", &v), -EINVAL);
	assert_int_equal(dns_parse_reverse(".in-addr.arpa", &v), -EINVAL);
	assert_int_equal(dns_parse_reverse("1.4.3.2.1.in-addr.arpa", &v), -EINVAL);
	assert_int_equal(dns_parse_reverse("a", &v), -EINVAL);
}

/* --- rates --- */

static void a_rate_is_held(void **state)
{
	struct rate r = {0};
	uint64_t now = 5 * NS_PER_S;
	unsigned n = 0;

	while (rate_take(&r, 10, now))
		n++;
	assert_int_equal(n, 10);
	assert_true(rate_take(&r, 10, now + NS_PER_S / 10));
	assert_false(rate_take(&r, 10, now + NS_PER_S / 10));
	assert_false(rate_take(&r, 0, now + 100 * NS_PER_S));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_have_one_spelling),
		cmocka_unit_test(places_are_known),
		cmocka_unit_test(ranges_are_special_as_a_whole),
		cmocka_unit_test(own_addresses_are_known),
		cmocka_unit_test(stale_answers_about_own_are_skipped),
		cmocka_unit_test(rules_decide_in_their_order),
		cmocka_unit_test(names_are_judged_before_they_are_asked_for),
		cmocka_unit_test(asking_is_between_denying_and_allowing),
		cmocka_unit_test(layers_only_narrow),
		cmocka_unit_test(other_sandboxes_need_rules_of_their_own),
		cmocka_unit_test(names_of_other_sandboxes),
		cmocka_unit_test(hosts_are_names),
		cmocka_unit_test(names_keep_their_addresses),
		cmocka_unit_test(the_oldest_name_goes),
		cmocka_unit_test(an_answer_belongs_to_its_question),
		cmocka_unit_test(reverse_names),
		cmocka_unit_test(a_rate_is_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
