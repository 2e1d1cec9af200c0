#include "build/disk_budget.h"
#include "base/file.h"

#include <errno.h>

static int too_much(const struct disk_budget *d, struct error *e)
{
	return error_set(e, ERROR_LIMIT, EDQUOT,
		"the build writes more than %llu MiB to the host's disk (base images, files of "
		"COPY and ADD, and output of steps together): copy less, and remove in a step what "
		"only that step needs",
		(unsigned long long)(d->bytes_max >> 20));
}

static int full(struct error *e)
{
	return error_set(e, ERROR_NO_SPACE, ENOSPC,
		"the host's disk has no space for this build: the rest is reserved for running "
		"sandboxes (mayfly serve --disk-reserve): try again later");
}

/* How much the file system has beside the reserve. */
static int find_free(const struct disk_budget *d, uint64_t *ret, struct error *e)
{
	uint64_t bytes;
	int r = file_free_bytes(d->fd, &bytes);

	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read how full the disk is");
	*ret = bytes > d->reserve_bytes ? bytes - d->reserve_bytes : 0;
	return 0;
}

int disk_budget_take(struct disk_budget *d, uint64_t bytes, struct error *e)
{
	if (bytes > d->bytes_max - d->taken)
		return too_much(d, e);
	d->taken += bytes;
	return 0;
}

int disk_budget_left(const struct disk_budget *d, uint64_t bytes, uint64_t *ret, struct error *e)
{
	uint64_t left = d->bytes_max - d->taken, room = 0;
	int r = find_free(d, &room, e);

	if (r < 0)
		return r;
	if (!left || !room)
		return left ? full(e) : too_much(d, e);
	left = left < room ? left : room;
	*ret = bytes < left ? bytes : left;
	return 0;
}

int disk_budget_room(const struct disk_budget *d, uint64_t coming, struct error *e)
{
	uint64_t room = 0;
	int r = find_free(d, &room, e);

	return r == 0 && (!room || room < coming) ? full(e) : r;
}
