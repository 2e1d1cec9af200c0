#include "egress/names_report.h"

#include "base/net.h"

static void add(void *arg, const char *name, uint32_t address)
{
	struct buf *b = arg;
	char text[NET_TEXT_BYTES];

	(void)buf_printf(b, "%s\"%s\":\"%s\"", buf_len(b) ? "," : "{\"names\":{", name,
		net_format(address, text)); /* NAMES_TEXT_MAX: it fits */
}

static void send_table(void *arg)
{
	struct context *c = arg;
	struct buf b = BUF_INIT(NAMES_TEXT_MAX + 64);

	if (!link_has_client(&c->link))
		return; /* a new one is told all */
	names_each(c->names, add, &b);
	if (buf_len(&b) && buf_add_str(&b, "}}\n") == 0)
		(void)link_send(&c->link, &b); /* likewise */
	buf_done(&b);
	c->names_told_ns = c->loop.now_ns;
}

void names_report(struct context *c)
{
	if (c->names_timer.at_ns)
		return;
	c->names_timer.on = send_table;
	c->names_timer.arg = c;
	if (c->loop.now_ns - c->names_told_ns < NAMES_REPORT_MS * NS_PER_MS)
		loop_start(&c->loop, &c->names_timer, NAMES_REPORT_MS);
	else
		send_table(c);
}
