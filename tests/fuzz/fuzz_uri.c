/* Whom a request is for and what it asks: hosts, paths, queries, the filter that is encoded three
 * times, names of templates. The input's lines are the domain, the host, the path, the query. */
#include "fuzz.h"

#include <errno.h>

#include "proto/http.h"
#include "proto/route.h"
#include "proto/uri.h"

enum { LINES = 4, OUT_MAX = 1 << 20 };

/* Encoding and decoding give back what was there. */
static void there_and_back(const char *s)
{
	struct buf b = BUF_INIT(OUT_MAX);
	size_t n = strlen(s);
	char *out = malloc(n + 1);

	check(out && uri_encode(&b, s, n) == 0);
	check(uri_decode(buf_len(&b) ? (const char *)buf_head(&b) : "", buf_len(&b), false, out,
		      n + 1) == (int)n);
	check(memcmp(out, s, n) == 0);
	buf_done(&b);
	free(out);
}

static void try_path(const char *text)
{
	struct template_ref ref;
	const char *reason = NULL;
	struct uri_path path;

	if (uri_path_parse(text, &path) == 0) {
		check(path.count <= URI_SEGMENTS_MAX);
		for (unsigned i = 0; i < path.count; i++)
			there_and_back(path.segments[i]);
	}
	if (template_ref_parse(text, &ref, &reason) == 0)
		check(ref.name[0] && ref.tag[0]);
	else
		check(reason && reason[0]);
	if (route_is_uuid(text))
		check(strlen(text) == 36);
}

static void append(struct buf *b, const char *s)
{
	check(buf_add(b, s, strlen(s)) == 0);
}

/* What a client would send for these pairs must be these pairs again. */
static void check_filter(const struct uri_filter *f)
{
	struct buf b = BUF_INIT(OUT_MAX);
	struct uri_filter again;

	for (unsigned i = 0; i < f->count; i++) {
		struct buf once = BUF_INIT(OUT_MAX);

		append(&b, i ? "&" : "");
		for (unsigned side = 0; side < 2; side++) {
			const char *s = side ? f->pairs[i].value : f->pairs[i].key;

			buf_clear(&once);
			check(uri_encode(&once, s, strlen(s)) == 0);
			check(!buf_len(&once) ||
				uri_encode(&b, (const char *)buf_head(&once), buf_len(&once)) == 0);
			append(&b, side ? "" : "=");
		}
		buf_done(&once);
	}
	check(buf_add_u8(&b, 0) == 0);
	check(uri_filter_parse((const char *)buf_head(&b), &again) == 0);
	check(again.count == f->count);
	for (unsigned i = 0; i < f->count; i++) {
		check(strcmp(again.pairs[i].key, f->pairs[i].key) == 0);
		check(strcmp(again.pairs[i].value, f->pairs[i].value) == 0);
	}
	buf_done(&b);
}

static void try_query(const char *query)
{
	const char *cursor = query;
	unsigned long long number;
	struct uri_filter filter;
	struct uri_pair pair;
	char out[64], *text;
	int r;

	while (uri_query_next(&cursor, &pair))
		check(pair.key >= query && pair.value + pair.value_len <= query + strlen(query));
	r = uri_query_get(query, "limit", out, sizeof(out));
	check(r < 0 || strlen(out) == (size_t)r);
	if (uri_query_u64(query, "limit", 100, &number) == 0)
		check(number <= 100);
	if (uri_query_dup(query, "metadata", &text) == 0) {
		r = uri_filter_parse(text, &filter);
		check(r == 0 || r == -EINVAL || r == -EMSGSIZE);
		if (r == 0)
			check_filter(&filter);
		free(text);
	}
}

static void try_route(const char *domain, const char *host, const char *path, const char *query)
{
	const struct http_header items[] = {
		{"Host", host, 4, strlen(host)},
		{"E2b-Sandbox-Id", domain, 14, strlen(domain)},
		{"E2b-Sandbox-Port", query, 16, strlen(query)},
	};
	struct route route, again;
	char id[ROUTE_SANDBOX_ID_MAX + 1];

	for (unsigned fields = 1; fields <= 3; fields += 2) {
		const struct http_head head = {.method = "GET",
			.path = path,
			.query = query[0] ? query : NULL,
			.host = host,
			.headers = {items, fields}};

		route_classify(&head, fields == 1 && domain[0] ? domain : NULL, &route);
		check(route.kind != ROUTE_BAD || route.reason);
		if (route.kind != ROUTE_SANDBOX)
			continue;
		check(route_sandbox_id(route.sandbox_id, id) && strcmp(id, route.sandbox_id) == 0);
		/* without a domain, an id of digits only may be an address */
		route_classify(&head, NULL, &again);
		check(strspn(id, "0123456789") == strlen(id) ||
			(again.kind == ROUTE_SANDBOX && again.port == route.port));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size), *rest = text, *lines[LINES];

	for (unsigned i = 0; i < LINES; i++)
		lines[i] = rest ? strsep(&rest, "\n") : text + strlen(text);
	try_route(lines[0], lines[1], lines[2], lines[3]);
	try_path(lines[2]);
	try_query(lines[3]);
	free(text);
	return 0;
}
