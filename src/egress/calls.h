/* The system calls of mayfly-egress: its filter, made of the tags (`#calls egress`) of its
 * sources. */
#ifndef EGRESS_CALLS_H
#define EGRESS_CALLS_H

#include "jail/filter.h"

/* Has a lifetime of its own. */
const struct filter *calls_filter(void);
const struct filter *calls_dialler_filter(void);

#endif
