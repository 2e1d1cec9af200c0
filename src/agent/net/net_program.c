#include "agent/net/net_program.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum {
	TABLE_MAX = 256 << 10, /* of /proc/net/tcp: some 1,700 sockets */
	FIELDS_TO_INODE = 7,   /* of a line, behind the other end */
	PROCESSES_MAX = 256,
	LINKS_MAX = 1024,     /* descriptors that a search looks at */
	LINKS_EACH_MAX = 256, /* and of a process: one with many hides no other */
	LINK_BYTES = 32,
	COMM_MAX = 64,
};

static void write_end(const struct sockaddr_in *a, char out[16])
{
	(void)snprintf(out, 16, "%08X:%04X ", a->sin_addr.s_addr, ntohs(a->sin_port)); /* fits */
}

/* The link of that socket's descriptors, of a line like
 * "0: 00064D0A:9C40 22D8B85D:01BB 02 00000000:00000000 01:00000064 00000000 0 0 4711 ...". Ends of
 * tcp6 begin with the prefix of mapped addresses. */
static bool find_link(char *table, const char *from, const char *to, char link[LINK_BYTES])
{
	char *line, *p;

	while ((line = strsep(&table, "\n"))) {
		p = strstr(line, from);
		p = p ? strstr(p, to) : NULL;
		for (int i = 0; p && i < FIELDS_TO_INODE; i++) {
			p += strcspn(p, " ");
			p += strspn(p, " ");
		}
		if (!p)
			continue;
		p[strcspn(p, " ")] = '\0';
		(void)snprintf(link, LINK_BYTES, "socket:[%s]", p); /* a number: fits */
		return true;
	}
	return false;
}

static bool find_socket(const char *path, const struct sockaddr_in *from,
	const struct sockaddr_in *to, char link[LINK_BYTES])
{
	_cleanup_free_ char *table = NULL;
	char a[16], b[16];
	size_t n;

	write_end(from, a);
	write_end(to, b);
	return file_read(AT_FDCWD, path, TABLE_MAX, &table, &n) == 0 &&
	       find_link(table, a, b, link);
}

static bool has_link(unsigned pid, const char *link, unsigned *left)
{
	char path[32], found[LINK_BYTES];
	unsigned mine = LINKS_EACH_MAX;
	bool has = false;
	struct dirent *e;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%u/fd", pid); /* fits */
	d = opendir(path);
	while (d && !has && *left && mine && (e = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, found, sizeof(found) - 1);

		(*left)--;
		mine--;
		found[n > 0 ? n : 0] = '\0';
		has = strcmp(found, link) == 0;
	}
	if (d)
		(void)closedir(d); /* read-only */
	return has;
}

/* The last of them in a ring; returns how many there are. */
static unsigned list_processes(unsigned pids[PROCESSES_MAX])
{
	DIR *d = opendir("/proc");
	unsigned count = 0;
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			pids[count++ % PROCESSES_MAX] = (unsigned)strtoul(e->d_name, NULL, 10);
	if (d)
		(void)closedir(d); /* read-only */
	return count;
}

static unsigned find_process(const char *link)
{
	unsigned pids[PROCESSES_MAX], count = list_processes(pids), left = LINKS_MAX;

	for (unsigned i = 1; i <= count && i <= PROCESSES_MAX; i++) {
		unsigned pid = pids[(count - i) % PROCESSES_MAX];

		if (has_link(pid, link, &left))
			return pid;
	}
	return 0;
}

void net_program_find(
	const struct sockaddr_in *from, const struct sockaddr_in *to, struct egress_open *ret)
{
	_cleanup_free_ char *name = NULL;
	char link[LINK_BYTES], path[32];
	unsigned pid = 0;
	size_t n;

	if (find_socket("/proc/net/tcp", from, to, link) ||
		find_socket("/proc/net/tcp6", from, to, link))
		pid = find_process(link);
	(void)snprintf(path, sizeof(path), "/proc/%u/comm", pid); /* fits */
	if (!pid || file_read(AT_FDCWD, path, COMM_MAX, &name, &n) < 0)
		return;
	name[strcspn(name, "\n")] = '\0';
	ret->pid = pid;
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name); /* 15 bytes by default */
}
