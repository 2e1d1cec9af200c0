/* Requests whose bodies rules judge (rules/call.h): such a request is held until its body is there,
 * at most CALL_BODY_MAX bytes of it, and goes on or is refused then. It is read while it comes, and
 * refused as soon as it cannot be judged.
 *
 * What all these bodies take is bounded for a worker (http2_memory.h). */
#include <errno.h>
#include <string.h>

#include "intercept/exchange_internal.h"
#include "intercept/http2_memory.h"
#include "rules/path.h"

enum { JUDGE_PIECE = 64 << 10 };

int exchange_judge_begin(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_target *t)
{
	struct exchange_hold *h = q->hold;
	char clean[RULES_PATH_MAX + 1];
	bool good = path_clean(t->path, strcspn(t->path, "?"), clean) == 0;

	h->reader = call_reader_new(q->body, good ? clean : "", t->headers);
	if (!h->reader)
		return -ENOMEM;
	h->state = EXCHANGE_HOLD_JUDGES;
	h->budget = x->budget;
	if (x->kind == &exchange_http1)
		buf_init_secret(&h->seen, CALL_BODY_MAX + JUDGE_PIECE);
	return 0;
}

size_t exchange_judge_room(void)
{
	return JUDGE_PIECE;
}

int exchange_judge_take(struct exchange_request_state *q, const void *data, size_t n)
{
	struct exchange_hold *h = q->hold;
	size_t room = h->seen.max - buf_len(&h->seen);
	size_t cost = q->body & CALL_MCP ? 2 * n : n; /* whose reader keeps them, too */

	if (!http2_budget_take(h->budget, cost)) {
		exchange_request_fail(q, 403, "denied",
			"too many requests whose bodies are judged are open: try again later");
		return 0;
	}
	q->budgeted += cost;
	h->wrong = !call_reader_feed(h->reader, data, n);
	return buf_add(&h->seen, data, n < room ? n : room);
}

void exchange_judge_done(struct exchange *x, struct exchange_request_state *q)
{
	http2_budget_give(x->budget, q->budgeted);
	q->budgeted = 0;
}

int exchange_judge_end(struct exchange *x, struct exchange_request_state *q, bool complete)
{
	struct exchange_hold *h = q->hold;
	struct exchange_request r = {
		.method = h->method, .path = h->path, .has_body = h->body_bytes != 0};
	int verdict;

	if (q->verdict)
		return -EINVAL;
	if (!complete && !h->wrong)
		return EXCHANGE_HELD;
	h->call = r.call = call_reader_end(h->reader);
	h->state = EXCHANGE_HOLD_READS;
	exchange_model_judged(q, h->call);
	verdict = exchange_request_judge(x, q, &r);
	if (verdict < 0)
		q->up = 0; /* none of it goes out, however much was read */
	if (verdict < 0 && q->verdict)
		exchange_model_deny(q, h->call);
	return verdict;
}
