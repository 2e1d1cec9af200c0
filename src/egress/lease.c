#include "egress/lease.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

enum { LENT_MAX = 1 << 20 };

static unsigned ahead(const struct context *c)
{
	unsigned share = c->active / LEASE_SHARE;

	return share > LEASE_AHEAD ? share : LEASE_AHEAD;
}

static void ask(struct context *c, unsigned wanted)
{
	struct buf b = BUF_INIT(128);

	if (buf_printf(&b, "{\"flows\":{\"has\":%u,\"wants\":%u}}\n", c->active, wanted) == 0 &&
		link_send(&c->link, &b) == 0)
		c->lease.asked = true; /* else the next flow asks */
	buf_done(&b);
}

/* All that wait would fit. */
static unsigned wanted(const struct context *c)
{
	return c->active + c->lease.waiting + ahead(c);
}

static bool rests(const struct context *c)
{
	return c->lease.full && c->loop.now_ns < c->lease.rest_until_ns;
}

enum lease_verdict lease_look(struct context *c)
{
	struct context_lease *l = &c->lease;
	bool room = c->active < l->lent;

	if (!l->limited)
		return LEASE_ROOM;
	if (!l->asked && !rests(c) && c->active + ahead(c) / 2 >= l->lent)
		ask(c, wanted(c) + 1);
	if (room)
		return LEASE_ROOM;
	return rests(c) && !l->asked ? LEASE_REFUSED : LEASE_WAIT;
}

void lease_left(struct context *c)
{
	const struct context_lease *l = &c->lease;

	if (l->limited && !l->asked && l->lent > c->active + 2 * ahead(c))
		ask(c, wanted(c));
}

void lease_tell(struct context *c)
{
	if (c->lease.limited)
		ask(c, wanted(c));
}

static enum context_full full_of(const json_t *said)
{
	const char *text = json_string_value(json_object_get(said, "full"));

	if (!text)
		return CONTEXT_NOT_FULL;
	return strcmp(text, "key") == 0 ? CONTEXT_KEY_FULL : CONTEXT_HOST_FULL;
}

int lease_take(struct context *c, const json_t *said)
{
	struct context_lease *l = &c->lease;
	const json_t *lent = json_object_get(said, "lent");
	json_int_t n = json_integer_value(lent);

	if (!json_is_integer(lent) || n < 0 || n > LENT_MAX)
		return -EINVAL;
	l->limited = true;
	l->asked = false;
	l->lent = (unsigned)n;
	l->full = full_of(said);
	l->rest_until_ns = c->loop.now_ns + LEASE_REST_MS * NS_PER_MS;
	return 0;
}

const char *lease_rule(const struct context *c)
{
	return c->lease.full == CONTEXT_KEY_FULL ? "limit keyFlows" : "limit hostFlows";
}

const char *lease_reason(const struct context *c)
{
	switch (c->lease.full) {
	case CONTEXT_KEY_FULL:
		return "the sandboxes of this key have too many flows";
	case CONTEXT_HOST_FULL:
		return "the host has too many flows";
	case CONTEXT_NOT_FULL:
		break;
	}
	return "the host does not say whether it has room for a flow";
}
