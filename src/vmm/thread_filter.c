#include "vmm/thread_filter.h"

#include "base/cleanup.h"
#include "vmm/filter_lists.h"

#ifdef __GLIBC__
#define LIST(kind) glibc_##kind##_filter
#else
#define LIST(kind) musl_##kind##_filter
#endif
#define FILTER(list, name)                                                                         \
	{                                                                                          \
		name, list, ARRAY_SIZE(list)                                                       \
	}

/* #calls glibc all (fault points, which only tests have): kill */
static const struct filter filters[THREAD_KINDS_] = {
	[THREAD_START] = FILTER(LIST(start), NULL),
	[THREAD_MAIN] = FILTER(LIST(main), NULL),
	[THREAD_VCPU] = FILTER(LIST(vcpu), "vcpu"),
	[THREAD_SNAPSHOT] = FILTER(LIST(snapshot), "snapshot"),
};

const struct filter *thread_filter(enum thread_kind kind)
{
	return &filters[kind];
}
