#include "hosts.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

#define ADDRESS "127.0.1.1"

enum { LINE_BYTES = 96 }; /* a name has 64 at most */

static bool is_own(const char *line, const char *name)
{
	const char *p = line + strlen(ADDRESS);
	size_t n = strlen(name);

	if (strncmp(line, ADDRESS, strlen(ADDRESS)) != 0 || (*p != ' ' && *p != '\t'))
		return false;
	p += strspn(p, " \t");
	if (strncmp(p, name, n) != 0)
		return false;
	p += n + strspn(p + n, " \t\r");
	return *p == '\n' || !*p;
}

int hosts_rename(int fd, const char *from, const char *to)
{
	char text[HOSTS_MAX + LINE_BYTES], line[LINE_BYTES], *at = text, *next = text, *end;
	ssize_t n = pread(fd, text, HOSTS_MAX + 1, 0);
	int length, r;

	if (n < 0 || n > HOSTS_MAX)
		return n < 0 ? -errno : -EFBIG;
	end = text + n;
	*end = '\0';
	if (strlen(text) != (size_t)n)
		return -EINVAL;
	for (; *at; at = next) {
		next = at + strcspn(at, "\n");
		next += *next == '\n';
		if (is_own(at, from))
			break;
	}
	length = snprintf(line, sizeof(line), "%s" ADDRESS " %s\n",
		at > text && at[-1] != '\n' ? "\n" : "", to);
	if ((size_t)length >= sizeof(line))
		return -EINVAL;
	memmove(at + length, next, (size_t)(end - next));
	memcpy(at, line, (size_t)length);
	r = fd_pwrite_full(fd, at, (size_t)(length + (end - next)), at - text);
	if (r < 0 || next - at <= length)
		return r;
	return ftruncate(fd, n - (next - at) + length) < 0 ? -errno : 0;
}
