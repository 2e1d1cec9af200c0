#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host.h"

/* A line of smaps is either a mapping's head or "Name: N kB". */
static bool is_head(const char *line)
{
	unsigned long long from, to;

	return sscanf(line, "%llx-%llx ", &from, &to) == 2;
}

static bool ends_with(const char *line, const char *end)
{
	size_t n = strcspn(line, "\n"), m = strlen(end);

	return n >= m && strncmp(line + n - m, end, m) == 0;
}

static void add_field(const char *line, bool guest, struct process_memory *m)
{
	unsigned long long kb;
	char name[32];

	if (sscanf(line, "%31[^:]: %llu kB", name, &kb) != 2)
		return;
	if (guest && strcmp(name, "Anonymous") == 0)
		m->guest_written += kb << 10;
	else if (guest && strcmp(name, "Rss") == 0)
		m->guest_shared += kb << 10; /* the written ones are taken off in the end */
	else if (!guest && strncmp(name, "Private_", 8) == 0 && name[8] != 'H')
		m->vmm_private += kb << 10;
	else if (!guest && (strcmp(name, "Shared_Clean") == 0 || strcmp(name, "Shared_Dirty") == 0))
		m->vmm_shared += kb << 10;
}

void read_memory(pid_t pid, struct process_memory *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[32], line[512];
	bool guest = false;

	(void)snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid); /* fits */
	f = fopen(path, "re");
	if (!f)
		die(path, "cannot be read");
	*ret = (struct process_memory){0};
	while (fgets(line, sizeof(line), f))
		if (is_head(line))
			guest = ends_with(line, "/memory");
		else
			add_field(line, guest, ret);
	ret->guest_shared -= ret->guest_written;
}

pid_t vmm_pid_of(const struct place *p, const struct sandbox *s)
{
	struct sandbox_record r;
	struct error e = {0};
	int fd = sandbox_open_dir(&p->dirs, sandbox_id(s), &e);
	pid_t pid;

	if (fd < 0 || sandbox_record_read(fd, sandbox_id(s), &r, &e) < 0)
		die("record", e.message);
	pid = r.vmm_pid;
	sandbox_record_done(&r);
	(void)close(fd); /* a directory */
	return pid;
}
