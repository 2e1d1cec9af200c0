#include "network/approval_clock.h"

#include "base/log.h"
#include "policy/network_consent.h"
#include "store/approvals.h"

static struct approval_times look(void)
{
	struct approval_times t = {.before_ns = clock_ns(CLOCK_BOOTTIME)};

	t.wall_ns = clock_realtime_ns();
	t.after_ns = clock_ns(CLOCK_BOOTTIME);
	return t;
}

int64_t approval_clock_step(const struct approval_clock *c, const struct approval_times *t)
{
	/* this thread may have stood still between the clocks: it is between these two */
	int64_t least = (int64_t)(t->wall_ns - t->after_ns - c->ahead_ns);
	int64_t most = (int64_t)(t->wall_ns - t->before_ns - c->ahead_ns);

	if (least >= APPROVAL_CLOCK_STEP_NS)
		return least;
	return most <= -APPROVAL_CLOCK_STEP_NS ? most : 0;
}

static int move(struct store *s, int64_t step_ns, uint64_t now_ns)
{
	struct error e = {0};
	int r = store_approval_move(s, step_ns, now_ns + CONSENT_TIMEOUT_MAX_S * NS_PER_S, &e);

	if (r < 0)
		log_error("cannot move the ends of approvals: %s", e.message);
	return r;
}

void approval_clock_start(struct approval_clock *c, struct store *s)
{
	struct approval_times t = look();

	c->ahead_ns = t.wall_ns - t.after_ns;
	(void)move(s, 0, t.wall_ns); /* else they end when they say */
}

uint64_t approval_clock_now(struct approval_clock *c, struct store *s)
{
	struct approval_times t = look();
	int64_t step = approval_clock_step(c, &t);

	if (step && move(s, step, t.wall_ns) == 0) {
		c->ahead_ns += (uint64_t)step;
		log_warn("the clock was set by %lld s: what waits for people waits as long as "
			 "before",
			(long long)(step / (int64_t)NS_PER_S));
	}
	return t.wall_ns;
}
