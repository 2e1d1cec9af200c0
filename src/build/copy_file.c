#include "build/copy_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { LINK_S = 60 };

/* The type of what is there: S_IFDIR, ...; 0: nothing. */
int copy_type_in_guest(
	const struct copy *c, const char *path, bool follow, uint32_t *ret, struct error *e)
{
	const struct agent_stat q = {
		.flags = follow ? AGENT_STAT_FOLLOW : 0, .user = "root", .path = path};
	struct agent_event ev;
	struct error why = {0};
	int r = machine_call(c->machine, AGENT_STAT, &q, AGENT_ENTRY, &ev, &why);

	*ret = r == 0 ? ev.entry.mode & S_IFMT : 0;
	if (r == 0 || why.code == ERROR_NOT_FOUND)
		return 0;
	if (e)
		*e = why;
	return r;
}

/* Makes room for something that is no folder. */
int copy_clear_place(const struct copy *c, const char *path, struct error *e)
{
	const struct agent_remove q = {.user = "root", .path = path};
	struct agent_event ev;
	uint32_t type;
	int r = copy_type_in_guest(c, path, false, &type, e);

	if (r < 0 || type == 0)
		return r;
	if (S_ISDIR(type))
		return error_set(e, ERROR_EXISTS, EISDIR, "%.200s is a folder in the image", path);
	return machine_call(c->machine, AGENT_REMOVE, &q, AGENT_OK, &ev, e);
}

int copy_set_attributes(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	char owner[32];
	struct agent_set_attr q = {.flags = AGENT_SET_OWNER | AGENT_SET_MTIME,
		.mode = c->has_mode ? c->mode : f->mode & 07777,
		.mtime_ns = f->mtime_ns,
		.owner = c->owner ? c->owner : owner,
		.user = "root",
		.path = path};
	struct agent_event ev;

	(void)snprintf(owner, sizeof(owner), "%" PRIu32 ":%" PRIu32, f->uid, f->gid); /* fits */
	q.flags |= S_ISLNK(f->mode) ? AGENT_SET_NO_FOLLOW : AGENT_SET_MODE;
	return machine_call(c->machine, AGENT_SET_ATTR, &q, AGENT_ENTRY, &ev, e);
}

/* A file system without attributes, as /run may be, gets none. */
int copy_put_xattrs(
	const struct copy *c, const char *path, const struct files_xattrs *x, struct error *e)
{
	const struct agent_set_xattrs q = {.flags = AGENT_XATTRS_CAPABILITY,
		.prefix = "",
		.user = "root",
		.path = path,
		.pairs = {.array = x->items, .count = x->count}};
	struct agent_event ev;
	struct error why = {0};

	if (x->count == 0 ||
		machine_call(c->machine, AGENT_SET_XATTRS, &q, AGENT_OK, &ev, &why) == 0 ||
		why.err == EOPNOTSUPP)
		return 0;
	return error_set(e, why.code, why.err, "attributes of %.200s: %s", path, why.message);
}

int copy_set_xattrs(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	struct files_xattrs x;
	int r = c->from->xattrs ? c->from->xattrs(c->from, f->path, &x, e) : 0;

	return r < 0 || !c->from->xattrs ? r : copy_put_xattrs(c, path, &x, e);
}

int copy_put_file(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	_cleanup_free_ uint8_t *chunk = malloc(MACHINE_CHUNK_BYTES);
	uint64_t offset = 0;
	size_t n = 0;
	int r = chunk ? copy_clear_place(c, path, e)
		      : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	do {
		if (r == 0)
			r = c->from->read(
				c->from, f->path, offset, chunk, MACHINE_CHUNK_BYTES, &n, e);
		if (r == 0)
			r = machine_write(c->machine, path, 0600, offset > 0, chunk, n, e);
		offset += n;
	} while (r == 0 && n == MACHINE_CHUNK_BYTES);
	if (r == 0)
		r = copy_set_attributes(c, path, f, e);
	return r < 0 ? r : copy_set_xattrs(c, path, f, e);
}

int copy_put_folder(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	const struct agent_mkdir q = {
		.flags = AGENT_MKDIR_PARENTS, .mode = 0755, .user = "root", .path = path};
	struct agent_event ev;
	struct error why = {0};
	int r = machine_call(c->machine, AGENT_MKDIR, &q, AGENT_ENTRY, &ev, &why);

	if (r < 0 && why.code != ERROR_EXISTS) {
		if (e)
			*e = why;
		return r;
	}
	return f ? copy_set_attributes(c, path, f, e) : 0;
}

static int ignore_output(void *opaque, const void *data, size_t n)
{
	return 0;
}

/* The agent has no request for links: the image's own ln makes them. */
static int make_link(const struct copy *c, const char *option, const char *target, const char *path,
	struct error *e)
{
	const char *argv[] = {"ln", option, "--", target, path};
	const struct agent_exec x = {.user = "root",
		.cwd = "/",
		.tag = "",
		.argv = {.array = argv, .count = ARRAY_SIZE(argv)}};
	int status = 0, r = copy_clear_place(c, path, e);

	if (r == 0)
		r = machine_run(c->machine, &x, LINK_S, ignore_output, NULL, &status, e);
	if (r < 0)
		error_prefix(e, "the link %.200s needs the program ln in the image", path);
	else if (status)
		return error_set(e, ERROR_SANDBOX, EIO,
			"cannot make the link %.200s: ln ended with status %d", path, status);
	return r;
}

int copy_put_link(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e)
{
	int r = make_link(c, "-s", f->target, path, e);

	return r < 0 ? r : copy_set_attributes(c, path, f, e);
}

int copy_put_hard_link(const struct copy *c, const char *path, const char *target, struct error *e)
{
	return make_link(c, "-f", target, path, e);
}
