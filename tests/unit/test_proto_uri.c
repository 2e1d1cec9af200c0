/* src/proto/uri, route and signature. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/route.h"
#include "proto/signature.h"
#include "proto/uri.h"

/* --- decoding --- */

static void decoding(void **state)
{
	char out[16], text[] = "a%2Fb+%2b";

	assert_int_equal(uri_decode("a%2Fb+c", 7, false, out, sizeof(out)), 5);
	assert_string_equal(out, "a/b+c");
	assert_int_equal(uri_decode("a%2Fb+c", 7, true, out, sizeof(out)), 5);
	assert_string_equal(out, "a/b c");
	assert_int_equal(uri_decode(text, 9, true, text, sizeof(text)), 5); /* in place */
	assert_string_equal(text, "a/b +");
	assert_int_equal(uri_decode("%41%zz", 3, true, out, sizeof(out)), 1);
	assert_int_equal(uri_decode("", 0, true, out, 1), 0);
	assert_int_equal(uri_decode("", 0, true, out, 0), -EMSGSIZE);
	assert_int_equal(uri_decode("abc", 3, true, out, 3), -EMSGSIZE);
	assert_int_equal(uri_decode("abc", 3, true, out, 4), 3);
}

static void malformed_escapes_are_refused(void **state)
{
	static const char *const bad[] = {"%", "%4", "a%", "%zz", "%4g", "%g4", "%00", "%%", "% 1"};
	char out[16];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(
			uri_decode(bad[i], strlen(bad[i]), true, out, sizeof(out)), -EINVAL);
	assert_int_equal(uri_decode("a\0b", 3, true, out, sizeof(out)), -EINVAL);
}

static void paths_are_split_before_decoding(void **state)
{
	struct uri_path p;

	assert_int_equal(uri_path_parse("/templates/team%2Fx%3Adefault", &p), 0);
	assert_int_equal(p.count, 2);
	assert_string_equal(p.segments[0], "templates");
	assert_string_equal(p.segments[1], "team/x:default");
	assert_int_equal(uri_path_parse("/a/b/", &p), 0);
	assert_int_equal(p.count, 2);
	assert_int_equal(uri_path_parse("/", &p), 0);
	assert_int_equal(p.count, 0);
	assert_int_equal(uri_path_parse("/a//b", &p), 0);
	assert_int_equal(p.count, 3);
	assert_string_equal(p.segments[1], "");
	assert_int_equal(uri_path_parse("/%2e%2E/+", &p), 0);
	assert_string_equal(p.segments[0], "..");
	assert_string_equal(p.segments[1], "+");
	assert_int_equal(uri_path_parse("*", &p), -EINVAL);
	assert_int_equal(uri_path_parse("/a%00", &p), -EINVAL);
	assert_int_equal(uri_path_parse("/1/2/3/4/5/6/7/8/9/10/11/12/13", &p), -EMSGSIZE);
}

static void paths_match_patterns(void **state)
{
	const char *params[URI_PARAMS_MAX] = {NULL};
	struct uri_path p;

	assert_int_equal(uri_path_parse("/templates/a%2Fb/tags/", &p), 0);
	assert_true(uri_path_matches(&p, "/templates/{}/{}", params));
	assert_string_equal(params[0], "a/b");
	assert_string_equal(params[1], "tags");
	assert_true(uri_path_matches(&p, "/templates/{}/tags", params));
	assert_false(uri_path_matches(&p, "/templates/{}", params));
	assert_false(uri_path_matches(&p, "/templates/{}/tags/{}", params));
	assert_false(uri_path_matches(&p, "/templates/{}/tag", params));
	assert_false(uri_path_matches(&p, "/template/{}/tags", params));
	assert_int_equal(uri_path_parse("/", &p), 0);
	assert_true(uri_path_matches(&p, "/", params));
	assert_false(uri_path_matches(&p, "/{}", params));
	assert_int_equal(uri_path_parse("/1/2/3/4", &p), 0);
	assert_true(uri_path_matches(&p, "/{}/{}/{}/{}", params));
	assert_string_equal(params[URI_PARAMS_MAX - 1], "4");
}

static void a_long_path_does_not_fit(void **state)
{
	char path[2 * URI_PATH_BYTES];
	struct uri_path p;

	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(uri_path_parse(path, &p), -EMSGSIZE);
	path[URI_PATH_BYTES] = '\0';
	assert_int_equal(uri_path_parse(path, &p), 0);
	path[URI_PATH_BYTES] = 'a';
	path[URI_PATH_BYTES + 1] = '\0';
	assert_int_equal(uri_path_parse(path, &p), -EMSGSIZE);
}

static void queries(void **state)
{
	const char *q = "&&state=running,paused&a=1&a=2&e=&flag&%70ath=%2Fx+y%2B&=v&b=a=b";
	unsigned long long v = 0;
	char out[32], *copy;

	assert_int_equal(uri_query_get(q, "state", out, sizeof(out)), 14);
	assert_string_equal(out, "running,paused");
	assert_int_equal(uri_query_get(q, "a", out, sizeof(out)), 1);
	assert_string_equal(out, "1");
	assert_int_equal(uri_query_get(q, "e", out, sizeof(out)), 0);
	assert_int_equal(uri_query_get(q, "flag", out, sizeof(out)), 0);
	assert_int_equal(uri_query_get(q, "path", out, sizeof(out)), 5);
	assert_string_equal(out, "/x y+");
	assert_int_equal(uri_query_get(q, "b", out, sizeof(out)), 3);
	assert_string_equal(out, "a=b");
	assert_int_equal(uri_query_get(q, "pat", out, sizeof(out)), -ENOENT);
	assert_int_equal(uri_query_get(q, "paths", out, sizeof(out)), -ENOENT);
	assert_int_equal(uri_query_get(NULL, "a", out, sizeof(out)), -ENOENT);
	assert_int_equal(uri_query_get("a=%zz", "a", out, sizeof(out)), -EINVAL);
	assert_int_equal(uri_query_get("a=12345", "a", out, 5), -EMSGSIZE);
	assert_int_equal(uri_query_dup(q, "path", &copy), 0);
	assert_string_equal(copy, "/x y+");
	free(copy);
	assert_int_equal(uri_query_dup("a=%0", "a", &copy), -EINVAL);
	assert_int_equal(uri_query_dup("a=%0", "b", &copy), -ENOENT);
	assert_int_equal(uri_query_u64("limit=100", "limit", 100, &v), 0);
	assert_int_equal(v, 100);
	assert_int_equal(uri_query_u64("limit=101", "limit", 100, &v), -ERANGE);
	assert_int_equal(uri_query_u64("limit=-1", "limit", 100, &v), -EINVAL);
	assert_int_equal(uri_query_u64("limit=", "limit", 100, &v), -EINVAL);
	assert_int_equal(uri_query_u64("limit=99999999999999999999", "limit", -1ULL, &v), -ERANGE);
	assert_int_equal(uri_query_u64("limit=9999999999999999999999999", "limit", 1, &v), -EINVAL);
	assert_int_equal(uri_query_u64("", "limit", 100, &v), -ENOENT);
}

static void the_metadata_filter_is_decoded_three_times(void **state)
{
	struct uri_filter f;
	char value[256];

	/* As seen on the wire for {"a b":"c&d"}. */
	assert_true(uri_query_get("metadata=a%252520b%3Dc%252526d&state=running", "metadata", value,
			    sizeof(value)) > 0);
	assert_int_equal(uri_filter_parse(value, &f), 0);
	assert_int_equal(f.count, 1);
	assert_string_equal(f.pairs[0].key, "a b");
	assert_string_equal(f.pairs[0].value, "c&d");
	assert_int_equal(uri_filter_parse("x=1&y=2&z", &f), 0);
	assert_int_equal(f.count, 3);
	assert_string_equal(f.pairs[1].key, "y");
	assert_string_equal(f.pairs[1].value, "2");
	assert_string_equal(f.pairs[2].value, "");
	assert_int_equal(uri_filter_parse("", &f), 0);
	assert_int_equal(f.count, 0);
	assert_int_equal(uri_filter_parse("a=%25zz", &f), -EINVAL);
	assert_int_equal(uri_filter_parse("a=%zz", &f), -EINVAL);
}

static void a_huge_filter_is_refused(void **state)
{
	struct uri_filter f;
	struct buf b = BUF_INIT(1 << 16);

	for (unsigned i = 0; i <= URI_FILTER_MAX; i++)
		assert_int_equal(buf_printf(&b, "k%u=v&", i), 0);
	assert_int_equal(buf_add_u8(&b, 0), 0);
	assert_int_equal(uri_filter_parse((const char *)buf_head(&b), &f), -EMSGSIZE);
	memset(b.data, 'a', buf_len(&b));
	while (buf_len(&b) < URI_FILTER_BYTES / 2)
		assert_int_equal(buf_add_u8(&b, 'a'), 0);
	assert_int_equal(buf_add_u8(&b, 0), 0);
	assert_int_equal(uri_filter_parse((const char *)buf_head(&b), &f), -EMSGSIZE);
	buf_done(&b);
}

static void encoding(void **state)
{
	struct buf b = BUF_INIT(64);

	assert_int_equal(uri_encode(&b, "a b/\xc3\xa4~", 7), 0);
	assert_int_equal(buf_len(&b), 15);
	assert_memory_equal(buf_head(&b), "a%20b%2F%C3%A4~", 15);
	buf_done(&b);
}

/* --- routing --- */

static struct route route_of(
	const char *host, const char *id, const char *port, const char *target, const char *domain)
{
	struct http_parser *p = http_parser_new(HTTP_ROLE_SERVER, NULL);
	char data[1024];
	struct route r;
	size_t used;

	(void)snprintf(data, sizeof(data), "GET %s HTTP/1.1\r\nHost: %s\r\n%s%s%s%s%s%s\r\n",
		target, host, id ? "E2b-Sandbox-Id: " : "", id ? id : "", id ? "\r\n" : "",
		port ? "E2b-Sandbox-Port: " : "", port ? port : "", port ? "\r\n" : "");
	assert_int_equal(http_parser_next(p, data, strlen(data), &used), HTTP_HEAD);
	route_classify(http_parser_head(p), domain, &r);
	http_parser_free(p);
	return r;
}

static void expect_sandbox(struct route r, const char *id, unsigned port)
{
	assert_int_equal(r.kind, ROUTE_SANDBOX);
	assert_string_equal(r.sandbox_id, id);
	assert_int_equal(r.port, port);
}

static void routing_by_headers(void **state)
{
	expect_sandbox(
		route_of("127.0.0.1:3000", "itestsandbox0000000001", "49983", "/health", NULL),
		"itestsandbox0000000001", ROUTE_ENVD_PORT);
	expect_sandbox(route_of("x", "i1-6532622b", "49999", "/", NULL), "i1", 49999);
	assert_int_equal(route_of("x", "i1", NULL, "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("x", NULL, "49983", "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("x", "I1", "49983", "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("x", "", "49983", "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("x", "i1", "0", "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("x", "i1", "65536", "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("x", "i1", "1x", "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("x", "i1", "000001", "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("x", "i1\r\nE2b-Sandbox-Id: i2", "1", "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(
		route_of("x", "i0123456789012345678901234567890123456789012345678901234567890123",
			"1", "/", NULL)
			.kind,
		ROUTE_BAD);
}

static void routing_by_host(void **state)
{
	struct route r = route_of("3000-i1abc.example.com:8080", NULL, NULL, "/", NULL);

	expect_sandbox(r, "i1abc", 3000);
	assert_true(r.by_host);
	expect_sandbox(
		route_of("49983-I1ABC-client.e2b.app", NULL, NULL, "/", NULL), "i1abc", 49983);
	expect_sandbox(route_of("49983-i1.x", "i1", "49983", "/", NULL), "i1", 49983);
	/* The host decides when both are there. */
	expect_sandbox(route_of("3000-i1.x", "i2", "49983", "/", NULL), "i1", 3000);
	assert_int_equal(route_of("0-i1.x", NULL, NULL, "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("99999-i1.x", NULL, NULL, "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("80-i_1.x", NULL, NULL, "/", NULL).kind, ROUTE_BAD);
	assert_int_equal(route_of("80-.x", NULL, NULL, "/", "x").kind, ROUTE_BAD);
	assert_int_equal(route_of("3000-i1", NULL, NULL, "/", NULL).kind, ROUTE_API);
	assert_int_equal(route_of("127.0.0.1:3000", NULL, NULL, "/", NULL).kind, ROUTE_API);
	assert_int_equal(route_of("10-0-0-1.nip.io", NULL, NULL, "/", NULL).kind, ROUTE_API);
	assert_int_equal(route_of("api.e2b.app", NULL, NULL, "/", NULL).kind, ROUTE_API);
	assert_int_equal(route_of("[::1]:80", NULL, NULL, "/", NULL).kind, ROUTE_API);
}

static void routing_with_a_domain(void **state)
{
	expect_sandbox(route_of("1-7.Box.test:80", NULL, NULL, "/", "box.test"), "7", 1);
	assert_int_equal(
		route_of("1-i1.evilbox.test", NULL, NULL, "/", "box.test").kind, ROUTE_API);
	assert_int_equal(
		route_of("1-i1.box.test.evil", NULL, NULL, "/", "box.test").kind, ROUTE_API);
	assert_int_equal(route_of("1-i1.a.box.test", NULL, NULL, "/", "box.test").kind, ROUTE_API);
}

static void routing_of_signed_urls(void **state)
{
	assert_int_equal(
		route_of("h", NULL, NULL, "/files?path=a&signature=v1_x", NULL).kind, ROUTE_SIGNED);
	assert_int_equal(route_of("h", NULL, NULL, "/files?signature", NULL).kind, ROUTE_SIGNED);
	assert_int_equal(route_of("h", NULL, NULL, "/files?path=a", NULL).kind, ROUTE_API);
	assert_int_equal(
		route_of("h", NULL, NULL, "/v2/sandboxes?signature=x", NULL).kind, ROUTE_API);
	expect_sandbox(route_of("h", "i1", "49983", "/files?signature=x", NULL), "i1", 49983);
}

/* --- names --- */

static void template_references(void **state)
{
	struct template_ref t;
	const char *reason = NULL;

	assert_int_equal(template_ref_parse("  Base\n", &t, &reason), 0);
	assert_string_equal(t.namespace, "");
	assert_string_equal(t.name, "base");
	assert_string_equal(t.tag, "default");
	assert_false(t.has_tag);
	assert_int_equal(template_ref_parse("Team/my_name-1:V1.0", &t, &reason), 0);
	assert_string_equal(t.namespace, "team");
	assert_string_equal(t.name, "my_name-1");
	assert_string_equal(t.tag, "v1.0");
	assert_true(t.has_tag);
	assert_int_equal(template_ref_parse_new("a:v1", &t, &reason), 0);
	assert_string_equal(t.tag, "v1");
}

/* A build is called by its id, but nothing gets such a tag. */
static void builds_in_references(void **state)
{
	static const char build[] = "a:0B5AB7BA-1111-4222-8333-123456789abc";
	struct template_ref t;
	const char *reason = NULL;

	assert_int_equal(template_ref_parse(build, &t, &reason), 0);
	assert_string_equal(t.tag, "0b5ab7ba-1111-4222-8333-123456789abc");
	assert_int_equal(template_ref_parse_new(build, &t, &reason), -EINVAL);
	assert_non_null(reason);
	assert_int_equal(template_ref_parse_new("a:", &t, &reason), -EINVAL);
}

static void bad_template_references(void **state)
{
	static const char *const bad[] = {"", " ", "a b", "a/", "/a", "a/b/c", "a:", ":a", "a:b:c",
		"a.b", "a:b/c", "\xc3\xa4", "../a"};
	char longer[200];
	struct template_ref t;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *reason = NULL;

		assert_int_equal(template_ref_parse(bad[i], &t, &reason), -EINVAL);
		assert_non_null(reason);
	}
	memset(longer, 'a', sizeof(longer));
	longer[TEMPLATE_NAME_MAX + 1] = '\0';
	assert_int_equal(template_ref_parse(longer, &t, &(const char *){NULL}), -EINVAL);
	longer[TEMPLATE_NAME_MAX] = '\0';
	assert_int_equal(template_ref_parse(longer, &t, &(const char *){NULL}), 0);
}

static void other_names(void **state)
{
	char id[ROUTE_SANDBOX_ID_MAX + 1];

	assert_true(route_sandbox_id("iabc-6532622b", id));
	assert_string_equal(id, "iabc");
	assert_false(route_sandbox_id("-x", id));
	assert_false(route_sandbox_id("i/x", id));
	assert_true(route_is_uuid("0B5ab7ba-1111-4222-8333-123456789abc"));
	assert_false(route_is_uuid("0b5ab7ba-1111-4222-8333-123456789ab"));
	assert_false(route_is_uuid("0b5ab7ba-1111-4222-8333-123456789abcd"));
	assert_false(route_is_uuid(""));
}

/* --- signatures: the vectors of the protocol, section 3.8 --- */

static const struct {
	struct signature_input in;
	const char *signature;
} vectors[] = {
	{{"/home/user/a.txt", "write", "root", "tok123", NULL},
		"v1_/3uviRwELZERCzSGv2jooEr4puEEfiAyIaDYPaRRaho"},
	{{"/home/user/hello.txt", "read", NULL, "tok123", NULL},
		"v1_PWHv/gp5gBrVfp8vLjkfHOFPLvbfaErQBzISrVvogQs"},
	{{"/home/user/hello.txt", "read", "user", "tok123", "1900000000"},
		"v1_YAoeJWkTuLLYVlj3QQg3w9LvXLlyayvDgOZrK/mfjkk"},
};

static void signature_vectors(void **state)
{
	char out[SIGNATURE_BYTES];

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		assert_int_equal(signature_make(&vectors[i].in, out), 0);
		assert_string_equal(out, vectors[i].signature);
		assert_int_equal(signature_check(&vectors[i].in, out, 1900000000), SIGNATURE_GOOD);
	}
}

static void search_of_signatures(void **state)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		struct signature_input in = vectors[i].in;
		char text[SIGNATURE_BYTES + 1];
		struct signature_search *s = signature_search_new(&in, vectors[i].signature);

		assert_non_null(s);
		assert_false(signature_search_matches(s, "tok124"));
		assert_true(signature_search_matches(s, "tok123"));
		assert_false(signature_search_matches(s, "tok12"));
		assert_true(signature_search_matches(s, "tok123"));
		signature_search_free(s);
		strcpy(text, vectors[i].signature);
		text[9] ^= 1;
		s = signature_search_new(&in, text);
		assert_false(s && signature_search_matches(s, "tok123"));
		signature_search_free(s);
		strcpy(text, vectors[i].signature);
		*strpbrk(text, "/+") = '_'; /* the other alphabet */
		assert_null(signature_search_new(&in, text));
		assert_null(signature_search_new(&in, "v1_"));
		in.expiration = "-1";
		assert_null(signature_search_new(&in, vectors[i].signature));
	}
}

static void wrong_signatures(void **state)
{
	struct signature_input in = vectors[2].in;
	char text[SIGNATURE_BYTES + 1];

	assert_int_equal(signature_check(&in, vectors[2].signature, 1900000001), SIGNATURE_EXPIRED);
	for (size_t i = 0; i < SIGNATURE_BYTES - 1; i++) {
		strcpy(text, vectors[2].signature);
		text[i] ^= 1;
		assert_int_equal(signature_check(&in, text, 0), SIGNATURE_WRONG);
	}
	strcpy(text, vectors[2].signature);
	strcat(text, "=");
	assert_int_equal(signature_check(&in, text, 0), SIGNATURE_WRONG);
	assert_int_equal(signature_check(&in, "", 0), SIGNATURE_WRONG);
	assert_int_equal(signature_check(&in, NULL, 0), SIGNATURE_WRONG);
	in.expiration = "1900000001";
	assert_int_equal(signature_check(&in, vectors[2].signature, 0), SIGNATURE_WRONG);
	in.expiration = "-1";
	assert_int_equal(signature_check(&in, vectors[2].signature, 0), SIGNATURE_MALFORMED);
	in.expiration = "";
	assert_int_equal(signature_check(&in, vectors[2].signature, 0), SIGNATURE_MALFORMED);
	in.expiration = "9999999999999999999999";
	assert_int_equal(signature_check(&in, vectors[2].signature, 0), SIGNATURE_MALFORMED);
	in.expiration = NULL;
	assert_int_equal(signature_check(&in, vectors[2].signature, 0), SIGNATURE_WRONG);
}

static void secrets(void **state)
{
	assert_true(secret_equal("abc", "abc"));
	assert_true(secret_equal("", ""));
	assert_false(secret_equal("abc", "abd"));
	assert_false(secret_equal("abc", "ab"));
	assert_false(secret_equal("abc", NULL));
	assert_false(secret_equal(NULL, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decoding),
		cmocka_unit_test(malformed_escapes_are_refused),
		cmocka_unit_test(paths_are_split_before_decoding),
		cmocka_unit_test(paths_match_patterns),
		cmocka_unit_test(a_long_path_does_not_fit),
		cmocka_unit_test(queries),
		cmocka_unit_test(the_metadata_filter_is_decoded_three_times),
		cmocka_unit_test(a_huge_filter_is_refused),
		cmocka_unit_test(encoding),
		cmocka_unit_test(routing_by_headers),
		cmocka_unit_test(routing_by_host),
		cmocka_unit_test(routing_with_a_domain),
		cmocka_unit_test(routing_of_signed_urls),
		cmocka_unit_test(template_references),
		cmocka_unit_test(builds_in_references),
		cmocka_unit_test(bad_template_references),
		cmocka_unit_test(other_names),
		cmocka_unit_test(signature_vectors),
		cmocka_unit_test(search_of_signatures),
		cmocka_unit_test(wrong_signatures),
		cmocka_unit_test(secrets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
