#include "host_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "base/clock.h"

enum {
	LATE_MAX_S = 60,   /* longest delay of a message: a guest that answers later is given up */
	EARLY_MAX_MS = 10, /* the host's two clocks agree within less */
	TRIES = 50, /* for when this CPU is preempted between reading and setting, as happens again
		     * and again when many siblings start at once */
	ERROR_MAX_US = 500,
};

static int ptp_fd = -1;

void host_clock_open(void)
{
	ptp_fd = open("/dev/ptp0", O_RDONLY | O_CLOEXEC);
}

uint64_t host_clock_ns(void)
{
	/* FD_TO_CLOCKID from the kernel's documentation */
	const clockid_t id = (clockid_t)((~(unsigned)ptp_fd << 3) | 3);
	struct timespec ts;

	if (ptp_fd < 0 || clock_gettime(id, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static int set(uint64_t ns)
{
	const struct timespec ts = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};

	return clock_settime(CLOCK_REALTIME, &ts) < 0 ? errno : 0;
}

int host_clock_set(uint64_t told_ns)
{
	uint64_t host = host_clock_ns();
	int r = 0;

	if (host + EARLY_MAX_MS * NS_PER_MS < told_ns || host > told_ns + LATE_MAX_S * NS_PER_S)
		return set(told_ns);
	for (unsigned i = 0; r == 0 && i < TRIES; i++) {
		int64_t error;

		r = set(host);
		host = host_clock_ns();
		error = (int64_t)(host - clock_realtime_ns());
		if (host == 0 || (error < (int64_t)(ERROR_MAX_US * NS_PER_US) &&
					 error > -(int64_t)(ERROR_MAX_US * NS_PER_US)))
			break;
	}
	return r;
}
