#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum {
	TEXT_MAX = 8 << 20,
	STAT_MAX = 4096,
	FIELD_MOUNT_POINT = 4, /* from 0: "36 35 98:0 /root /mount/point options ... - ext4 ..." */
	FIELD_PARENT = 1,      /* after the name: "S 1 ..." */
	FIELD_FLAGS = 6,
	FIELD_START = 19,
	KERNEL_THREAD = 0x00200000, /* PF_KTHREAD */
};

/* --- mounts --- */

void mounts_done(struct mounts *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->list[i].path);
	free(m->list);
	*m = (struct mounts){0};
}

static bool is_octal(const char *s)
{
	return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' &&
	       s[2] <= '7';
}

/* Decodes blanks and the like, which are written as \040. */
static void unescape(char *s)
{
	char *out = s;

	while (*s)
		if (*s == '\\' && is_octal(s + 1)) {
			*out++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else {
			*out++ = *s++;
		}
	*out = '\0';
}

static bool keeps_files(const char *type)
{
	static const char *const types[] = {"ext4", "ext3", "ext2", "overlay", "tmpfs", "ramfs",
		"erofs", "squashfs", "xfs", "btrfs", "f2fs", "iso9660", "vfat", "exfat"};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

static int add(struct mounts *m, const char *path, bool holds_files)
{
	struct mount_point *list;

	if (m->count == MOUNTS_MAX)
		return -E2BIG;
	list = realloc(m->list, (m->count + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	m->list = list;
	list[m->count] = (struct mount_point){strdup(path), holds_files};
	if (!list[m->count].path)
		return -ENOMEM;
	m->count++;
	return 0;
}

static int parse_line(char *line, struct mounts *m)
{
	char *type = strstr(line, " - "), *path = line;

	for (int i = 0; path && i < FIELD_MOUNT_POINT; i++) {
		path = strchr(path, ' ');
		path = path ? path + 1 : NULL;
	}
	if (!type || !path || path > type || *path != '/')
		return 0;
	type += 3;
	type[strcspn(type, " ")] = '\0';
	path[strcspn(path, " ")] = '\0';
	unescape(path);
	return add(m, path, keeps_files(type));
}

int mounts_parse(char *text, struct mounts *ret)
{
	char *rest = text, *line;
	int r = 0;

	*ret = (struct mounts){0};
	while (r == 0 && (line = strsep(&rest, "\n")))
		r = parse_line(line, ret);
	if (r < 0)
		mounts_done(ret);
	return r;
}

int mounts_read(struct mounts *ret)
{
	_cleanup_free_ char *text = NULL;
	size_t n;
	int r = file_read(AT_FDCWD, "/proc/self/mountinfo", TEXT_MAX, &text, &n);

	return r < 0 ? r : mounts_parse(text, ret);
}

/* Whether b is a, or below a. a has no trailing slash unless it is the root. */
static bool is_at_or_below(const char *a, const char *b)
{
	size_t n = strcmp(a, "/") == 0 ? 0 : strlen(a);

	return strncmp(a, b, n) == 0 && (b[n] == '/' || b[n] == '\0');
}

/* The longest match decides. Of equal ones the last does, as it hides the others. */
bool mounts_hold_files(const struct mounts *m, const char *path)
{
	const struct mount_point *best = NULL;

	for (size_t i = 0; i < m->count; i++)
		if (is_at_or_below(m->list[i].path, path) &&
			(!best || strlen(m->list[i].path) >= strlen(best->path)))
			best = &m->list[i];
	return best && best->holds_files;
}

bool mounts_lead_to_files(const struct mounts *m, const char *path)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->list[i].holds_files && is_at_or_below(path, m->list[i].path))
			return true;
	return false;
}

/* --- processes --- */

int task_stat_parse(char *text, struct task_stat *ret)
{
	/* the name may contain anything, even parentheses */
	char *name = strchr(text, '('), *end = strrchr(text, ')'), *rest, *field;
	uint64_t flags = 0;
	int at;

	if (!name || !end || end < name || end[1] != ' ')
		return -EBADMSG;
	*end = '\0';
	*ret = (struct task_stat){.name = name + 1};
	rest = end + 2;
	ret->counts = *rest && !strchr("ZXx", *rest);
	for (at = 0; at <= FIELD_START && (field = strsep(&rest, " ")); at++) {
		if (at == FIELD_PARENT)
			ret->parent = (uint32_t)strtoul(field, NULL, 10);
		else if (at == FIELD_FLAGS)
			flags = strtoull(field, NULL, 10);
		else if (at == FIELD_START)
			ret->start = strtoull(field, NULL, 10);
	}
	if (flags & KERNEL_THREAD)
		ret->counts = false;
	return at > FIELD_START ? 0 : -EBADMSG;
}

int task_read(const char *dir, char **text, struct task_stat *ret)
{
	char path[64];
	size_t n;
	int r;

	(void)snprintf(path, sizeof(path), "%s/stat", dir); /* "/proc/123/stat" */
	r = file_read(AT_FDCWD, path, STAT_MAX, text, &n);
	return r < 0 ? r : task_stat_parse(*text, ret);
}

size_t task_arguments(const char *dir, char *out, size_t max)
{
	char path[64];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/cmdline", dir); /* likewise */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, out, max);
	(void)close(fd); /* only read */
	return n > 0 ? (size_t)n : 0;
}
