#include "fleet/aside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "image/workdir.h"
#include "sandbox/footprint.h"

enum { DAY_S = 86400 };

int aside_put(const struct home *h, enum home_area area, const char *name)
{
	_cleanup_free_ char *to = str_printf("%s-%s-%llu", home_area_name(area), name,
		(unsigned long long)(clock_realtime_ns() / NS_PER_S));

	if (!to)
		return -ENOMEM;
	return renameat(h->area_fd[area], name, h->area_fd[HOME_ASIDE], to) < 0 ? -errno : 0;
}

/* --- sweeping --- */

struct state {
	const char *name;
	uint64_t put_s, bytes;
};

/* Whether aside_put() gave that name, and when. Entries with other names belong to the operator. */
static bool parse_name(const char *name, uint64_t *ret_put_s)
{
	const char *dash = strrchr(name, '-');
	size_t digits = dash ? strspn(dash + 1, "0123456789") : 0;

	if (!str_starts_with(name, "paused-") && !str_starts_with(name, "snapshots-"))
		return false;
	if (!digits || dash[1 + digits])
		return false;
	*ret_put_s = strtoull(dash + 1, NULL, 10);
	return true;
}

static int newest_first(const void *a, const void *b)
{
	const struct state *x = a, *y = b;

	return (x->put_s < y->put_s) - (x->put_s > y->put_s);
}

static uint64_t bytes_max(const struct aside *a)
{
	struct statvfs v;

	if (a->options.bytes || fstatvfs(a->home->fd, &v) < 0)
		return a->options.bytes;
	return (uint64_t)v.f_blocks * v.f_frsize / 100 * ASIDE_PERCENT;
}

static uint64_t oldest_s(const struct aside *a)
{
	uint64_t days = a->options.days ? a->options.days : ASIDE_DAYS;
	uint64_t now = clock_realtime_ns() / NS_PER_S;

	return now > days * DAY_S ? now - days * DAY_S : 0;
}

static void sweep(struct aside *a, struct state *states, size_t count)
{
	uint64_t oldest = oldest_s(a), max = bytes_max(a);

	qsort(states, count, sizeof(*states), newest_first);
	a->count = 0;
	a->bytes = 0;
	for (size_t i = 0; i < count; i++) {
		bool first = a->count == 0;

		if (states[i].put_s >= oldest && (first || a->bytes + states[i].bytes <= max)) {
			a->count++;
			a->bytes += states[i].bytes;
			continue;
		}
		log_warn("removing what was moved aside: aside/%s", states[i].name);
		(void)workdir_remove(a->home->area_fd[HOME_ASIDE],
			states[i].name); /* the next sweep tries again */
	}
}

static void sweep_work(uv_work_t *w)
{
	struct aside *a = w->data;
	char **names = NULL;
	size_t count = 0, ours = 0;
	_cleanup_free_ struct state *states = NULL;

	if (workdir_list(a->home->area_fd[HOME_ASIDE], &names) < 0)
		return;
	while (names[count])
		count++;
	states = calloc(count + 1, sizeof(*states));
	for (size_t i = 0; states && i < count; i++) {
		struct state *s = &states[ours];

		if (!parse_name(names[i], &s->put_s))
			continue;
		s->name = names[i];
		s->bytes = footprint_of(a->home, HOME_ASIDE, names[i]);
		ours++;
	}
	if (states)
		sweep(a, states, ours);
	workdir_list_free(names);
}

static void sweep_done(uv_work_t *w, int status)
{
	struct aside *a = w->data;

	a->busy = false;
}

void aside_sweep(struct aside *a)
{
	if (a->busy)
		return;
	a->busy = true;
	a->work.data = a;
	(void)uv_queue_work(a->loop, &a->work, sweep_work, sweep_done); /* cannot fail */
}
