#include "entry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/str.h"
#include "users.h"

/* Appends a packed string; false when it does not fit. */
static bool pack(uint8_t *out, uint32_t *n, const char *s, size_t length)
{
	if (*n + 5 + length > AGENT_XATTR_BYTES_MAX)
		return false;
	put_le32(out + *n, (uint32_t)length);
	memcpy(out + *n + 4, s, length);
	out[*n + 4 + length] = 0;
	*n += 5 + (uint32_t)length;
	return true;
}

static void pack_attribute(
	const char *path, const char *name, bool follow, struct agent_strings *s, uint8_t *out)
{
	char value[4096];
	uint32_t n = s->packed_bytes;
	ssize_t length = follow ? getxattr(path, name, value, sizeof(value))
				: lgetxattr(path, name, value, sizeof(value));

	/* Skip values that are too long, binary, or gone meanwhile. */
	if (length < 0 || memchr(value, 0, (size_t)length))
		return;
	if (s->count + 2 > 2 * AGENT_XATTR_MAX || !pack(out, &n, name, strlen(name)) ||
		!pack(out, &n, value, (size_t)length))
		return;
	s->packed_bytes = n;
	s->count += 2;
}

/* Capabilities are bytes, so their value is hexadecimal. */
static void pack_capability(const char *path, bool follow, struct agent_strings *s, uint8_t *out)
{
	char value[64], hex[2 * sizeof(value) + 1];
	uint32_t n = s->packed_bytes;
	ssize_t length = follow ? getxattr(path, ENTRY_CAPABILITY, value, sizeof(value))
				: lgetxattr(path, ENTRY_CAPABILITY, value, sizeof(value));

	if (length <= 0 || s->count + 2 > 2 * AGENT_XATTR_MAX)
		return;
	str_hex(value, (size_t)length, hex);
	if (!pack(out, &n, ENTRY_CAPABILITY, strlen(ENTRY_CAPABILITY)) ||
		!pack(out, &n, hex, strlen(hex)))
		return;
	s->packed_bytes = n;
	s->count += 2;
}

static void fill_xattrs(
	const char *path, bool follow, struct entry_text *t, struct agent_strings *s)
{
	char names[AGENT_XATTR_BYTES_MAX];
	ssize_t n = follow ? listxattr(path, names, sizeof(names))
			   : llistxattr(path, names, sizeof(names));

	*s = (struct agent_strings){.packed = t->xattrs};
	for (const char *p = names; n > 0 && p < names + n; p += strlen(p) + 1)
		if (strncmp(p, "user.", 5) == 0)
			pack_attribute(path, p, follow, s, t->xattrs);
}

static void fill_link(const char *path, unsigned flags, struct entry_text *t, struct agent_entry *e)
{
	ssize_t n = readlink(path, t->target, sizeof(t->target) - 1);
	char resolved[PATH_MAX];
	struct stat st;

	t->target[n > 0 ? n : 0] = '\0';
	e->target = t->target;
	if (!(flags & AGENT_STAT_RESOLVE) || stat(path, &st) < 0 || !realpath(path, resolved) ||
		strlen(resolved) > AGENT_PATH_MAX)
		return;
	e->target_mode = st.st_mode;
	strcpy(t->resolved, resolved);
	e->resolved = t->resolved;
}

int entry_fill(const char *path, unsigned flags, struct entry_text *t, struct agent_entry *e)
{
	bool follow = flags & AGENT_STAT_FOLLOW;
	struct stat st;

	if ((follow ? stat(path, &st) : lstat(path, &st)) < 0)
		return -errno;
	user_name(st.st_uid, t->owner);
	group_name(st.st_gid, t->group);
	*e = (struct agent_entry){
		.mode = st.st_mode,
		.uid = st.st_uid,
		.gid = st.st_gid,
		.size = (uint64_t)st.st_size,
		.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
		.path = path,
		.owner = t->owner,
		.group = t->group,
	};
	if (S_ISLNK(st.st_mode))
		fill_link(path, flags, t, e);
	if (flags & AGENT_STAT_XATTRS)
		fill_xattrs(path, follow, t, &e->xattrs);
	if ((flags & AGENT_STAT_XATTRS) && (flags & AGENT_STAT_CAPABILITY))
		pack_capability(path, follow, &e->xattrs, t->xattrs);
	return 0;
}
