#include "fleet/kept.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/str.h"
#include "fleet/fleet.h"
#include "fleet/limits.h"
#include "store/kept.h"

static int read_disk(struct fleet *f, uint64_t *ret_size, uint64_t *ret_free, struct error *e)
{
	struct statvfs v;

	if (fstatvfs(f->home.fd, &v) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "%s", f->home.path);
	*ret_size = (uint64_t)v.f_blocks * v.f_frsize;
	*ret_free = (uint64_t)v.f_bavail * v.f_frsize;
	return 0;
}

static void set_default(uint64_t *v, uint64_t size, unsigned percent)
{
	if (!*v)
		*v = size / 100 * percent;
}

int kept_init(struct fleet *f, struct error *e)
{
	struct kept_options *o = &f->options.kept;
	uint64_t size = 0, unused = 0;
	int r = read_disk(f, &size, &unused, e);

	if (r < 0)
		return r;
	if (!o->key_count)
		o->key_count = KEPT_KEY_COUNT;
	if (!o->all_count)
		o->all_count = KEPT_ALL_COUNT;
	if (!o->reserve_bytes && size / 100 * KEPT_RESERVE_PERCENT > KEPT_RESERVE_MAX)
		o->reserve_bytes = KEPT_RESERVE_MAX;
	set_default(&o->reserve_bytes, size, KEPT_RESERVE_PERCENT);
	set_default(&o->key_bytes, size, KEPT_KEY_PERCENT);
	set_default(&o->all_bytes, size, KEPT_ALL_PERCENT);
	return 0;
}

/* Jobs under way add `bytes` to what the store counts. */
static int check_key(
	struct fleet *f, const char *key_id, unsigned count, uint64_t bytes, struct error *e)
{
	unsigned under_way = lane_promised(&f->lane, key_id).states;
	struct store_kept have;
	struct store_limits l;
	char may[16];
	int r = limits_of_key(f, key_id, &l, e);

	if (r == 0)
		r = store_kept_count(f->store, key_id, &have, e);
	if (r < 0)
		return r;
	if (count && have.count + have.promised + under_way + count > l.max_kept)
		return error_set(e, ERROR_TOO_MANY, EDQUOT,
			"this key keeps its maximum of %u paused sandboxes and snapshots, those "
			"with "
			"autoPause included: kill or delete some, or ask for a higher limit",
			l.max_kept);
	if (have.bytes + bytes >= l.max_kept_bytes)
		return error_set(e, ERROR_TOO_MANY, EDQUOT,
			"the paused sandboxes and snapshots of this key take its maximum of %s: "
			"kill "
			"or delete some, or ask for a higher limit",
			str_format_bytes(l.max_kept_bytes, may));
	return 0;
}

static int check_all(struct fleet *f, unsigned count, uint64_t bytes, struct error *e)
{
	unsigned under_way = lane_promised(&f->lane, NULL).states;
	const struct kept_options *o = &f->options.kept;
	struct store_kept have;
	int r = store_kept_count(f->store, NULL, &have, e);

	if (r < 0)
		return r;
	have.bytes += bytes;
	if ((count && have.count + under_way + count > o->all_count) || have.bytes >= o->all_bytes)
		return error_set(e, ERROR_NO_SPACE, ENOSPC,
			"this host has no space for more paused sandboxes and snapshots: try again "
			"when some were deleted, or let the operator raise mayfly serve --%s",
			have.bytes >= o->all_bytes ? "all-kept-size" : "all-kept");
	return 0;
}

int kept_check(struct fleet *f, const char *key_id, unsigned count, struct error *e)
{
	int r = strcmp(key_id, STORE_KEY_LOCAL) == 0 ? 0 : check_key(f, key_id, count, 0, e);

	return r < 0 ? r : check_all(f, count, 0, e);
}

static int check_disk(struct fleet *f, uint64_t bytes, struct error *e)
{
	uint64_t size = 0, have = 0;
	int r = read_disk(f, &size, &have, e);

	if (r == 0 && have < f->options.kept.reserve_bytes + bytes)
		r = error_set(e, ERROR_NO_SPACE, ENOSPC,
			"the host's disk has no space for one more state: the rest is kept for "
			"sandboxes that run (mayfly serve --disk-reserve)");
	return r;
}

int kept_check_disk(struct fleet *f, struct error *e)
{
	return check_disk(f, 0, e);
}

static int check_bytes(struct fleet *f, const char *key_id, const struct lane_promise *of_key,
	const struct lane_promise *of_all, bool limited, struct error *e)
{
	int r = check_disk(f, of_all->writes, e);

	if (r == 0 && limited && strcmp(key_id, STORE_KEY_LOCAL) != 0)
		r = check_key(f, key_id, 0, of_key->bytes, e);
	return r == 0 && limited ? check_all(f, 0, of_all->bytes, e) : r;
}

int kept_admit(struct fleet *f, const char *key_id, bool limited, struct error *e)
{
	const struct lane_promise none = {0}, of_key = lane_promised(&f->lane, key_id),
				  of_all = lane_promised(&f->lane, NULL);
	int r = check_bytes(f, key_id, &none, &none, limited, e);

	if (r == 0 && of_all.bytes && check_bytes(f, key_id, &of_key, &of_all, limited, NULL) < 0)
		return -EAGAIN;
	return r;
}
