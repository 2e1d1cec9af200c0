/* Requests whose bodies rules judge (rules/call.h). Such a request is held until its whole body was
 * received, at most CALL_BODY_MAX bytes. Then it goes on or is refused. The body is parsed as it
 * arrives, and the request is refused as soon as it cannot be judged.
 *
 * A worker has a limit for all these bodies together (http2_memory.h). */
#include <errno.h>
#include <string.h>

#include "intercept/exchange_internal.h"
#include "intercept/http2_memory.h"
#include "rules/path.h"

enum {
	JUDGE_PIECE = 64 << 10,
	JUDGE_PATH_MAX = RULES_FORWARD_PATH_MAX + RULES_PATH_MAX + 1,
	KEPT = CALL_MCP | CALL_FORM, /* whose readers keep the body, too */
};

/* A model in the path is one of the path at the server. */
static struct call_reader *make_reader(
	const struct exchange *x, unsigned body, const struct exchange_target *t)
{
	struct buf path = BUF_INIT(JUDGE_PATH_MAX);
	char clean[RULES_PATH_MAX + 1] = "";
	struct call_reader *r = NULL;
	bool good = path_clean(t->path, strcspn(t->path, "?"), clean) == 0;

	if (buf_printf(&path, "%s%s%c", good ? exchange_prefix(x, clean) : "", good ? clean : "",
		    '\0') == 0)
		r = call_reader_new(body, (const char *)buf_head(&path), t->headers);
	buf_done(&path);
	return r;
}

int exchange_judge_begin(
	struct exchange *x, struct exchange_request_state *q, const struct exchange_target *t)
{
	struct exchange_hold *h = q->hold;

	h->reader = make_reader(x, q->body, t);
	if (!h->reader)
		return -ENOMEM;
	h->state = EXCHANGE_HOLD_JUDGES;
	return 0;
}

size_t exchange_judge_room(void)
{
	return JUDGE_PIECE;
}

bool exchange_judge_count(struct exchange_request_state *q, size_t bytes)
{
	if (!http2_budget_take(q->hold->budget, bytes)) {
		exchange_request_fail(q, 403, "denied",
			"too many requests whose bodies are judged are open: try again later");
		return false;
	}
	q->budgeted += bytes;
	return true;
}

int exchange_judge_take(struct exchange_request_state *q, const void *data, size_t n)
{
	struct exchange_hold *h = q->hold;
	size_t room = h->seen.max - buf_len(&h->seen);
	size_t cost = q->body & KEPT ? 2 * n : n;

	if (!exchange_judge_count(q, cost))
		return 0;
	h->taken += n;
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
	q->two_methods = q->two_methods || h->call->two_methods;
	exchange_model_judged(q, h->call);
	verdict = exchange_request_judge(x, q, &r);
	if (verdict >= 0 && exchange_tools_begin(x, q, h->path, h->call) < 0)
		verdict = -EINVAL;
	if (verdict < 0)
		q->up = 0; /* none of it goes out, however much was read */
	if (verdict < 0)
		exchange_model_deny(q, h->call);
	return verdict;
}
