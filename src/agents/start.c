#include "agents/start.h"

#include <errno.h>
#include <stdlib.h>

#include "agents/agents_internal.h"
#include "agents/deploy.h"
#include "agents/keep.h"
#include "base/clock.h"
#include "fleet/fleet.h"
#include "store/agent_versions.h"

int agents_start(struct fleet *f, struct error *e)
{
	int r;

	f->agents = calloc(1, sizeof(*f->agents));
	if (!f->agents)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	agents_watch_builds(f);
	r = store_agent_fail_open(f->store, clock_realtime_ns(),
		"the daemon was restarted during the build: deploy it again", e);
	if (r == 0)
		agents_remove_revoked(f);
	return r;
}

void agents_free(struct fleet *f)
{
	struct agents *a = f->agents;

	while (a && a->holds) {
		struct version_use *next = a->holds->next;

		free(a->holds);
		a->holds = next;
	}
	while (a && a->builds) {
		struct agent_build *next = a->builds->next;

		free(a->builds); /* the next start removes its upload */
		a->builds = next;
	}
	free(a);
	f->agents = NULL;
}
