#include "daemon/rights.h"

#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "jail/confine.h"
#include "jail/deny.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif

enum { NICE_ZERO = 20 }; /* RLIMIT_NICE counts from nice 19 up */

static const unsigned kept[] = {
	CAP_DAC_OVERRIDE,     /* a home that another user owns, as with sudo */
	CAP_NET_BIND_SERVICE, /* ports below 1024, which are opened when there are threads */
	CAP_SETFCAP,	      /* this and the next two: ids of the jail's user namespace */
	CAP_SETGID,	      /* (user_namespaces(7)), for a launcher that is made again */
	CAP_SETUID,	      /* likewise */
	CAP_SYS_NICE,	      /* lifecycle/fair.h */
};

void rights_hide(void)
{
	int r = confine_hide();

	if (r < 0)
		log_warn("a crash of the daemon may leave its secrets in a core file: %s",
			strerror(-r));
}

void rights_raise(void)
{
	(void)setrlimit(RLIMIT_NICE, &(struct rlimit){NICE_ZERO, NICE_ZERO});
}

/* No system calls that neither the daemon nor what it starts needs. Leak detection of sanitizers
 * needs one of them. */
static int refuse_calls(void)
{
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
	return 0;
#else
	return deny_install(&(struct deny_options){.makes_jails = true, .network = true});
#endif
}

int rights_drop(struct error *e)
{
	uint64_t set = 0;
	int r;

	for (unsigned i = 0; i < ARRAY_SIZE(kept); i++)
		set |= UINT64_C(1) << kept[i];
	r = confine_to(set);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot give up rights");
	r = refuse_calls();
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r,
			       "cannot filter the daemon's system calls: use a kernel with "
			       "CONFIG_SECCOMP_FILTER")
		     : 0;
}
