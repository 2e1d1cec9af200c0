#include "fleet/removal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "fleet/fleet.h"
#include "image/workdir.h"
#include "store/snapshots.h"

struct removal {
	struct fleet *fleet;
	uv_work_t work;
	enum home_area area;
	removal_done done;
	char id[STORE_SNAPSHOT_ID_BYTES]; /* or a sandbox's, which is no longer */
};

static_assert((int)SANDBOX_ID_BYTES <= (int)STORE_SNAPSHOT_ID_BYTES, "fits");

struct removal *removal_new(struct fleet *f, enum home_area area, const char *id)
{
	struct removal *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->fleet = f;
	m->work.data = m;
	m->area = area;
	(void)snprintf(m->id, sizeof(m->id), "%s", id); /* from the store: fits */
	return m;
}

void removal_free(struct removal *m)
{
	free(m);
}

static void work(uv_work_t *w)
{
	struct removal *m = w->data;

	(void)workdir_remove(m->fleet->home.area_fd[m->area], m->id); /* or recovery does it */
}

static void after_work(uv_work_t *w, int status)
{
	struct removal *m = w->data;

	if (m->done)
		m->done(m->fleet, m->id);
	free(m);
}

void removal_start(struct removal *m, removal_done done)
{
	m->done = done;
	(void)uv_queue_work(m->fleet->loop, &m->work, work, after_work); /* cannot fail */
}
