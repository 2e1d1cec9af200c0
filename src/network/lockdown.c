#include "network/lockdown.h"

#include "base/log.h"
#include "fleet/fleet.h"
#include "network/approvals.h"
#include "network/renewal.h"

int lockdown_start(struct fleet *f, struct error *e)
{
	return store_lockdown_get(f->store, &f->lockdown, e);
}

int lockdown_apply(struct fleet *f, struct error *e)
{
	bool before = f->lockdown.egress;
	int r = lockdown_start(f, e);

	if (r < 0)
		return r;
	if (f->lockdown.since_ns)
		log_warn("this host is locked down:%s%s%s", f->lockdown.egress ? " egress" : "",
			f->lockdown.approvals ? " approvals" : "", f->lockdown.keys ? " keys" : "");
	if (f->lockdown.approvals)
		approvals_deny_all(f, LOCKDOWN_TEXT);
	if (before || f->lockdown.egress)
		renewal_begin_all(f);
	return 0;
}
