#include "envd/envd_entry.h"

#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/str.h"
#include "proto/json_text.h"
#include "proto/timestamp.h"

int envd_json_string(struct buf *out, const char *s)
{
	return json_text_string(out, s, strlen(s), JSON_TEXT_UTF8);
}

const char *envd_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static char *put_kind(char *p, uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		*p++ = 'd';
		break;
	case S_IFLNK:
		*p++ = 'L';
		break;
	case S_IFBLK:
	case S_IFCHR:
		*p++ = 'D';
		break;
	case S_IFIFO:
		*p++ = 'p';
		break;
	case S_IFSOCK:
		*p++ = 'S';
		break;
	default:
		break;
	}
	return p;
}

void envd_permissions(uint32_t mode, char out[ENVD_PERMISSIONS_BYTES])
{
	static const char rwx[] = "rwxrwxrwx";
	char *p = put_kind(out, mode);

	if (mode & S_ISUID)
		*p++ = 'u';
	if (mode & S_ISGID)
		*p++ = 'g';
	if (S_ISCHR(mode))
		*p++ = 'c';
	if (mode & S_ISVTX)
		*p++ = 't';
	if (p == out)
		*p++ = '-';
	for (unsigned i = 0; i < 9; i++)
		*p++ = mode & (0400U >> i) ? rwx[i] : '-';
	*p = '\0';
}

/* A link has the type of its target. Anything but a file or directory has no type. */
static const char *type_of(uint32_t mode)
{
	if (S_ISREG(mode))
		return "FILE_TYPE_FILE";
	return S_ISDIR(mode) ? "FILE_TYPE_DIRECTORY" : NULL;
}

static int write_time(struct buf *out, int64_t ns)
{
	const int64_t second = (int64_t)NS_PER_S;
	const int64_t rest = ns % second;
	const struct timestamp t = {
		.s = ns / second - (rest < 0), .ns = (uint32_t)(rest < 0 ? rest + second : rest)};
	char text[TIMESTAMP_BYTES];

	return buf_printf(out, ",\"modifiedTime\":\"%s\"", timestamp_format(t, text));
}

static int write_member(struct buf *out, const char *name, const char *value)
{
	int r = buf_printf(out, ",\"%s\":", name);

	return r ? r : envd_json_string(out, value);
}

int envd_metadata_write(struct buf *out, const struct agent_strings *xattrs, unsigned *ret_count)
{
	const size_t prefix = strlen(ENVD_METADATA_PREFIX);
	const char *name, *value;
	unsigned count = 0;
	size_t pos = 0;
	int r = buf_add_u8(out, '{');

	while (!r && agent_strings_next(xattrs, &pos, &name) &&
		agent_strings_next(xattrs, &pos, &value)) {
		if (!str_starts_with(name, ENVD_METADATA_PREFIX))
			continue;
		r = count++ ? buf_add_u8(out, ',') : 0;
		if (!r)
			r = envd_json_string(out, name + prefix);
		if (!r)
			r = buf_add_u8(out, ':');
		if (!r)
			r = envd_json_string(out, value);
	}
	*ret_count = count;
	return r ? r : buf_add_u8(out, '}');
}

static int write_metadata(struct buf *out, const struct agent_entry *e)
{
	size_t before = buf_len(out);
	unsigned count;
	int r = buf_add_str(out, ",\"metadata\":");

	if (!r)
		r = envd_metadata_write(out, &e->xattrs, &count);
	if (!r && !count)
		out->end = out->start + before;
	return r;
}

static int write_numbers(struct buf *out, const struct agent_entry *e, uint32_t mode)
{
	char permissions[ENVD_PERMISSIONS_BYTES];

	envd_permissions(e->mode, permissions);
	return buf_printf(out, ",\"size\":\"%llu\",\"mode\":%u,\"permissions\":\"%s\"",
		(unsigned long long)e->size, mode & 0777, permissions);
}

static int write_link(struct buf *out, const struct agent_entry *e)
{
	int r;

	if (!S_ISLNK(e->mode))
		return 0;
	r = buf_add_str(out, ",\"isSymlink\":true");
	return r ? r : write_member(out, "symlinkTarget", e->resolved[0] ? e->resolved : e->path);
}

int envd_entry_write(struct buf *out, const struct agent_entry *e)
{
	bool link = S_ISLNK(e->mode), dangling = link && !e->target_mode;
	uint32_t mode = link && !dangling ? e->target_mode : e->mode;
	const char *type = dangling ? NULL : type_of(mode);
	int r = buf_add_str(out, "{\"name\":");

	if (!r)
		r = envd_json_string(out, envd_base_name(e->path));
	if (!r && type)
		r = buf_printf(out, ",\"type\":\"%s\"", type);
	if (!r)
		r = write_member(out, "path", e->path);
	if (!r)
		r = write_numbers(out, e, mode);
	if (!r)
		r = write_member(out, "owner", e->owner);
	if (!r)
		r = write_member(out, "group", e->group);
	if (!r)
		r = write_time(out, e->mtime_ns);
	if (!r)
		r = write_link(out, e);
	if (!r)
		r = write_metadata(out, e);
	return r ? r : buf_add_u8(out, '}');
}
