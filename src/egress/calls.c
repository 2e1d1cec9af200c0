#include "egress/calls.h"

#include "base/cleanup.h"
#include "egress/filter_lists.h"

const struct filter *calls_filter(void)
{
	static const struct filter filter = {
		NULL, glibc_egress_filter, ARRAY_SIZE(glibc_egress_filter)};

	return &filter;
}

const struct filter *calls_dialler_filter(void)
{
	static const struct filter filter = {
		NULL, glibc_dialler_filter, ARRAY_SIZE(glibc_dialler_filter)};

	return &filter;
}
