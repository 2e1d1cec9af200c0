/* In the place of mayfly-unpack: takes the file that it should unpack for the path of a canary, and
 * says on stderr, in one line, what became of each attempt to reach it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_FD = 3, HIGHEST_FD = 64 };

static const char *name(int r)
{
	return r >= 0 ? "done" : strerrorname_np(errno);
}

static unsigned count_entries(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

static unsigned count_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < HIGHEST_FD; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

int main(void)
{
	char path[4096], made[4100];
	ssize_t n = read(FILE_FD, path, sizeof(path) - 1);
	unsigned descriptors = count_descriptors();

	path[n > 0 ? n : 0] = '\0';
	path[strcspn(path, "\n")] = '\0';
	(void)snprintf(made, sizeof(made), "%s.new", path); /* fits */
	(void)fprintf(stderr, "read=%s ", name(open(path, O_RDONLY)));
	(void)fprintf(stderr, "write=%s ", name(open(path, O_WRONLY | O_TRUNC)));
	(void)fprintf(stderr, "make=%s ", name(open(made, O_WRONLY | O_CREAT, 0600)));
	(void)fprintf(stderr, "directory=%s ", name(mkdir("/of-a-thief", 0700)));
	(void)fprintf(stderr, "parent=%s ", name(kill(getppid() ? getppid() : 2, 0)));
	(void)fprintf(stderr, "pid=%d root=%u descriptors=%u variables=%s\n", (int)getpid(),
		count_entries("/"), descriptors, environ[0] ? "some" : "none");
	return 1;
}
