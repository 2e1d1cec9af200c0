#include "io/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static int try_path(const char *dir, const char *sub, const char *name, char *out, size_t n)
{
	int r = snprintf(out, n, "%s/%s%s", dir, sub, name);

	return r > 0 && (size_t)r < n && access(out, X_OK) == 0;
}

int program_path(const char *name, char *out, size_t out_bytes, struct error *e)
{
	const char *dir = getenv("MAYFLY_LIBEXEC");
	char self[PATH_MAX];
	ssize_t n;
	char *slash;

	if (dir && try_path(dir, "", name, out, out_bytes))
		return 0;
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return error_set_errno(
			e, ERROR_HOST, errno, "cannot read /proc/self/exe: is /proc mounted?");
	self[n] = '\0';
	slash = strrchr(self, '/');
	*slash = '\0';
	if (try_path(self, "", name, out, out_bytes) ||
		try_path(self, "../libexec/mayfly/", name, out, out_bytes))
		return 0;
	return error_set(e, ERROR_HOST, ENOENT,
		"%s is neither beside %s/mayfly nor in ../libexec/mayfly: reinstall Mayfly or set "
		"MAYFLY_LIBEXEC",
		name, self);
}

void program_keep(const char *name)
{
	char path[PATH_MAX];
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (program_path(name, path, sizeof(path), NULL) < 0)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0)
		(void)mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd,
			0); /* only for speed */
}
