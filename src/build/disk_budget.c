#include "build/disk_budget.h"
#include "base/file.h"

#include <errno.h>

int disk_budget_take(struct disk_budget *d, uint64_t bytes, struct error *e)
{
	if (bytes > d->bytes_max - d->taken)
		return error_set(e, ERROR_LIMIT, EDQUOT,
			"the build writes more than %llu MiB to the host's disk, files of COPY and "
			"what its steps write together: copy less, and remove in a step what only "
			"that step needs",
			(unsigned long long)(d->bytes_max >> 20));
	d->taken += bytes;
	return 0;
}

int disk_budget_room(const struct disk_budget *d, uint64_t coming, struct error *e)
{
	uint64_t free_bytes;
	int r = file_free_bytes(d->fd, &free_bytes);

	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read how full the disk is");
	if (free_bytes < d->reserve_bytes + coming)
		return error_set(e, ERROR_NO_SPACE, ENOSPC,
			"the host's disk has no space for this build: the rest is kept for "
			"sandboxes that run (mayfly serve --disk-reserve): try again later");
	return 0;
}
