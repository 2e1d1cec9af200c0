#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host_clock.h"

struct guest guest = {.cgroup_fd = -1, .machine_id_fd = -1};

void guest_open(void)
{
	guest.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	guest.random_fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
	if (guest.random_fd < 0)
		guest.random_fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (guest.null_fd < 0)
		guest_problem("no /dev/null: %s", strerror(errno));
	if (guest.init)
		host_clock_open();
}

void guest_problem(const char *fmt, ...)
{
	va_list ap;

	if (guest.problem[0])
		return;
	va_start(ap, fmt);
	(void)vsnprintf(guest.problem, sizeof(guest.problem), fmt, ap); /* may be cut */
	va_end(ap);
	console("%s", guest.problem);
}

void console(const char *fmt, ...)
{
	char line[640] = "mayfly-agent: ";
	size_t n = strlen(line);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap); /* may be cut */
	va_end(ap);
	n = strlen(line);
	line[n++] = '\n';
	(void)!write(STDERR_FILENO, line, n); /* there is nowhere else to write it */
}
