#include "fleet/deadline.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "store/sandboxes.h"

enum {
	RETRY_MS = 5000, /* after a store error */
	TIMER_MAX_MS = 24 * 3600 * 1000,
};

void deadline_retry(struct fleet *f)
{
	(void)uv_timer_start(&f->deadline, f->on_deadline, RETRY_MS, 0); /* cannot fail */
}

/* Sets one timer for the next deadline. Deadlines follow the wall clock, which may be set. So the
 * timer is renewed at least daily, and whenever a deadline changes. */
void deadline_changed(struct fleet *f)
{
	uv_timer_t *t = &f->deadline;
	uint64_t now = clock_realtime_ns(), end, ms;
	struct error e = {0};

	if (f->stopping)
		return;
	if (store_sandbox_next_end(f->store, &end, &e) < 0) {
		log_error("cannot look for the next deadline: %s", e.message);
		deadline_retry(f);
		return;
	}
	if (end == STORE_NEVER_NS) {
		(void)uv_timer_stop(t); /* always 0 */
		return;
	}
	ms = end > now ? (end - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	(void)uv_timer_start(t, f->on_deadline, ms < TIMER_MAX_MS ? ms : TIMER_MAX_MS, 0);
}
