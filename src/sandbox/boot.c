#include "sandbox/boot.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "sandbox/agent_call.h"
#include "sandbox/console.h"

enum {
	ATTEMPT_MS = 300,
	PAUSE_MS = 20,
};

/* Returns 1 with the reason in e when the microVM has ended. */
static int ended(const struct boot *b, struct error *e)
{
	struct error why = {0};

	if (!vmm_is_over(b->vmm, &why))
		return 0;
	if (why.code != ERROR_SANDBOX || !console_find_panic(b->fd, e))
		(void)error_set(e, why.code, why.err, "%s", why.message); /* only to fill e */
	return 1;
}

/* Asks in short attempts, to notice a guest that dies in between. */
int boot_await(const struct boot *b, uint64_t deadline_ns, const struct progress *p,
	struct agent_conn **ret, struct error *e)
{
	for (;;) {
		struct error attempt = {0};
		uint64_t now = clock_monotonic_ns();
		int r;

		if (ended(b, e))
			return -ECHILD;
		if (now > deadline_ns)
			return error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
				"the guest of template '%s' did not come up in %d s", b->name,
				BOOT_S);
		r = progress_report(p, b->step, PROGRESS_NO_PERCENT, NULL);
		if (r < 0)
			return r;
		r = agent_connect_ready(b->fd, now + ATTEMPT_MS * NS_PER_MS, ret, &attempt);
		if (r == 0)
			return 0;
		if (attempt.code != ERROR_TIMEOUT && !ended(b, NULL) &&
			attempt.code != ERROR_SANDBOX) {
			*e = attempt;
			return r;
		}
		(void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L},
			NULL); /* early is fine */
	}
}
