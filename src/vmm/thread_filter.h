/* The system call filters of mayfly-vmm's threads, one for each kind of thread and phase. */
#ifndef VMM_THREAD_FILTER_H
#define VMM_THREAD_FILTER_H

#include "jail/filter.h"

enum thread_kind {
	THREAD_START,	 /* the first thread until the VM exists; allows all that later threads
			  * need */
	THREAD_MAIN,	 /* the same thread from then on */
	THREAD_VCPU,	 /* a vCPU and its exits */
	THREAD_SNAPSHOT, /* makes one snapshot */
	THREAD_KINDS_
};

/* The filter for that kind of thread; static. */
const struct filter *thread_filter(enum thread_kind kind);

#endif
