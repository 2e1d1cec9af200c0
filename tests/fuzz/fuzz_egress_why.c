/* Requests for http://mayfly.internal/why, and what was denied as one worker hands it to the next.
 * The first byte chooses, and says where a request is cut in two. */
#include "fuzz.h"

#include "egress/why.h"
#include "proto/json_tree.h"

static const struct denial some = {.at_ms = 1800000000000,
	.address = 0x01020304,
	.port = 443,
	.proto = "tcp",
	.name = "x.example",
	.rule = "allowOut[0]",
	.reason = "x.example:443 is denied: \"rule\" allowOut[0]"};

static void ask(const uint8_t *data, size_t n, size_t cut, struct buf *out)
{
	struct why *w = why_new(NULL);
	struct denials d = {0};
	bool done;

	check(w);
	denials_note(&d, &some);
	cut = cut < n ? cut : n;
	done = why_take(w, &d, data, cut, out);
	check(done || buf_len(out) == 0);
	if (why_take(w, &d, data + cut, n - cut, out))
		check(buf_len(out) > 15 && memcmp(buf_head(out), "HTTP/1.1 ", 9) == 0);
	else
		check(!done && buf_len(out) == 0);
	why_free(w);
}

/* The answer has the same status, whatever the pieces are. Of a request with two faults, the one
 * that is found first may depend on them. */
static bool same_verdict(const struct buf *a, const struct buf *b)
{
	const char *x = (const char *)buf_head(a), *y = (const char *)buf_head(b);

	return buf_len(a) && buf_len(b) && (memcmp(x, y, 12) == 0 || (x[9] >= '4' && y[9] >= '4'));
}

static void try_request(const uint8_t *data, size_t n, size_t cut)
{
	struct buf whole = BUF_INIT(WHY_ANSWER_MAX), pieces = BUF_INIT(WHY_ANSWER_MAX);

	ask(data, n, 0, &whole);
	ask(data, n, cut, &pieces);
	check(buf_len(&whole) == 0 || same_verdict(&whole, &pieces));
	buf_done(&whole);
	buf_done(&pieces);
}

/* What is taken is written as it was, and stays in its bounds. */
static void try_restore(const uint8_t *data, size_t n)
{
	struct buf once = BUF_INIT(DENIALS_TEXT_MAX), again = BUF_INIT(DENIALS_TEXT_MAX);
	struct denials d = {0}, e = {0};
	const char *reason;
	json_t *root = json_tree_parse((const char *)data, n, JSON_TREE_UNIQUE, &reason), *list;

	if (denials_restore(&d, json_object_get(root, "denials")) == 0) {
		check(d.count <= DENIALS_MAX);
		check(denials_json(&d, &once) == 0);
		list = json_loadb((const char *)buf_head(&once), buf_len(&once), 0, NULL);
		check(list && denials_restore(&e, list) == 0);
		check(denials_json(&e, &again) == 0 && same(&once, &again));
		json_decref(list);
		for (unsigned i = 0; i < DENIALS_MAX + 5; i++) {
			struct denial one = some;

			one.port = (uint16_t)i;
			denials_note(&d, &one);
		}
		check(d.count == DENIALS_MAX);
	} else {
		check(d.count == 0);
	}
	json_decref(root);
	buf_done(&once);
	buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0] == '{')
		try_restore(data, size);
	else
		try_request(data + 1, size - 1, data[0]);
	return 0;
}
