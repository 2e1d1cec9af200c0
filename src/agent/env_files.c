#include "env_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

enum { VALUE_MAX = 512 };

static bool says(int dirfd, const char *file, const char *value)
{
	char now[VALUE_MAX + 1];
	int fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	size_t want = strlen(value);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, now, sizeof(now));
	(void)close(fd); /* only read */
	return n == (ssize_t)want && memcmp(now, value, want) == 0;
}

static int write_file(int dirfd, const char *file, const char *value)
{
	int fd, r;

	if (says(dirfd, file, value))
		return 0;
	if (unlinkat(dirfd, file, 0) < 0 && errno != ENOENT)
		return -errno;
	fd = openat(dirfd, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, value, strlen(value));
	(void)close(fd); /* the file is in memory, so close cannot fail */
	return r;
}

/* The variable of an entry "NAME=VALUE" as a file ".NAME", or NULL. */
static const char *file_of(const char *entry, const char **ret_value)
{
	static const char *const files[] = {".E2B_SANDBOX", ".E2B_SANDBOX_ID", ".E2B_TEMPLATE_ID"};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		size_t n = strlen(files[i] + 1);

		if (strncmp(entry, files[i] + 1, n) != 0 || entry[n] != '=')
			continue;
		*ret_value = entry + n + 1;
		return files[i];
	}
	return NULL;
}

int env_files_write(const char *dir, const struct agent_strings *env)
{
	const char *entry, *value, *file;
	int dirfd, r = 0;

	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return -errno;
	dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dirfd < 0)
		return -errno;
	for (size_t pos = 0; r == 0 && agent_strings_next(env, &pos, &entry);) {
		file = file_of(entry, &value);
		if (file && strlen(value) <= VALUE_MAX)
			r = write_file(dirfd, file, value);
	}
	(void)close(dirfd); /* only read */
	return r;
}
