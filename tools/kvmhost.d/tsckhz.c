/*
 * Prints the frequency of this machine's time stamp counter in kHz.
 *
 * The emulated host's counter is this machine's, and its kernel must not have to find the frequency
 * out by itself: on a busy machine it can be wrong by half, and then time there runs at another
 * speed and no snapshot of another boot can be resumed.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define TRIES	 20
#define PAUSE_MS 200

struct reading {
	uint64_t ticks;
	double ns;
};

/* The clock and the counter at the same moment: of several tries, the one that took the least. */
static struct reading read_both(void)
{
	struct reading best = {0};
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		struct timespec t;
		uint64_t before = __rdtsc(), after;

		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		after = __rdtsc();
		if (after - before < least) {
			least = after - before;
			best.ticks = before + least / 2;
			best.ns = (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
		}
	}
	return best;
}

int main(void)
{
	struct reading begin = read_both(), end;
	struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};

	nanosleep(&pause, NULL);
	end = read_both();
	printf("%.0f\n", (double)(end.ticks - begin.ticks) * 1e6 / (end.ns - begin.ns));
	return 0;
}
