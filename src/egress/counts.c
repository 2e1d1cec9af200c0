#include "egress/counts.h"

#include <string.h>

static bool is_zero(const struct context_counts *n)
{
	static const struct context_counts none;

	return memcmp(n, &none, sizeof(none)) == 0;
}

static void changed(struct context *c)
{
	if (!c->counts_timer.at_ns)
		loop_start(&c->loop, &c->counts_timer, COUNTS_MS);
}

void counts_bytes(
	struct context *c, uint64_t up, uint64_t *told_up, uint64_t down, uint64_t *told_down)
{
	c->counts.up += up - *told_up;
	c->counts.down += down - *told_down;
	*told_up = up;
	*told_down = down;
	changed(c);
}

void counts_verdict(struct context *c, const char *verdict)
{
	c->counts.allowed += strcmp(verdict, "allowed") == 0;
	c->counts.failed += strcmp(verdict, "failed") == 0;
	c->counts.denied += strcmp(verdict, "denied") == 0;
	c->counts.reset += strcmp(verdict, "reset") == 0;
	changed(c);
}

void counts_tell(struct context *c)
{
	struct context_counts *n = &c->counts;
	struct buf b = BUF_INIT(512);

	if (is_zero(n) || !link_has_client(&c->link))
		return;
	if (buf_printf(&b,
		    "{\"counts\":{\"up\":%llu,\"down\":%llu,\"allowed\":%llu,\"failed\":%llu,"
		    "\"denied\":%llu,\"reset\":%llu}}\n",
		    (unsigned long long)n->up, (unsigned long long)n->down,
		    (unsigned long long)n->allowed, (unsigned long long)n->failed,
		    (unsigned long long)n->denied, (unsigned long long)n->reset) == 0 &&
		link_send(&c->link, &b) == 0)
		*n = (struct context_counts){0};
	buf_done(&b);
}

/* Without a place in the queue it is tried again. */
static void on_timer(void *arg)
{
	struct context *c = arg;

	counts_tell(c);
	if (!is_zero(&c->counts) && link_has_client(&c->link))
		changed(c);
}

void counts_init(struct context *c)
{
	c->counts_timer.on = on_timer;
	c->counts_timer.arg = c;
}
