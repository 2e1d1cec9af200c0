#include "host_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"

#define KEYGEN "/usr/bin/ssh-keygen"

enum { TEXT_MAX = 16 * 1024 };

static const char *const types[] = {"ed25519", "ecdsa", "rsa", "dsa"};

/* NULL when the file is missing, not regular, or too big. */
static char *read_text(int dirfd, const char *path)
{
	_cleanup_close_ int fd =
		openat(dirfd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	char *text;
	size_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		file_read_fd(fd, TEXT_MAX, &text, &n) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static bool is_of(int dirfd, const char *public, const char *host)
{
	_cleanup_free_ char *line = read_text(dirfd, public);
	const char *at = line ? strrchr(line, '@') : NULL;

	return at && strcmp(at + 1, host) == 0;
}

static void __attribute__((noreturn)) keygen(int dirfd, const char *type, const char *name)
{
	const char *const argv[] = {KEYGEN, "-q", "-N", "", "-t", type, "-f", name, NULL};
	const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	(void)sigemptyset(&none); /* cannot fail; the next likewise */
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
		fchdir(dirfd) < 0)
		_exit(127);
	execve(KEYGEN, (char *const *)argv, (char *const *)env);
	_exit(127);
}

/* Does not use spawn(): it would start the process in a control group that is now frozen. 0 or an
 * errno. */
static int make(int dirfd, const char *type, const char *name, uint64_t deadline_ns)
{
	pid_t pid = access(KEYGEN, X_OK) == 0 ? fork() : -1;
	struct pollfd p = {.events = POLLIN};
	int status = -1, r;

	if (pid == 0)
		keygen(dirfd, type, name);
	if (pid < 0)
		return errno;
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	do
		r = poll(&p, p.fd >= 0, clock_ms_until(deadline_ns, HOST_KEYS_LIMIT_MS));
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		(void)kill(pid, SIGKILL); /* not yet reaped, so the pid is still this child */
	if (p.fd >= 0)
		(void)close(p.fd); /* only polled */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r <= 0)
		return ETIMEDOUT;
	return status ? EIO : 0; /* a full disk, or an unknown reason */
}

static int remove_both(int dirfd, const char *name, const char *public)
{
	int r = unlinkat(dirfd, name, 0) < 0 && errno != ENOENT ? -errno : 0;

	return unlinkat(dirfd, public, 0) < 0 && errno != ENOENT ? -errno : r;
}

int host_keys_renew(int dirfd, struct host_keys *ret)
{
	uint64_t deadline_ns = clock_monotonic_ns() + HOST_KEYS_LIMIT_MS * NS_PER_MS;
	char name[32], public[40], host[HOST_NAME_MAX + 1];
	int r = 0;

	*ret = (struct host_keys){0};
	if (gethostname(host, sizeof(host)) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(types) && r == 0; i++) {
		int problem;

		(void)snprintf(name, sizeof(name), "ssh_host_%s_key", types[i]); /* both fit */
		(void)snprintf(public, sizeof(public), "%s.pub", name);
		if (!file_exists(dirfd, name) || is_of(dirfd, public, host))
			continue;
		ret->changed = true;
		r = remove_both(dirfd, name, public);
		problem = r == 0 ? make(dirfd, types[i], name, deadline_ns) : 0;
		if (problem) {
			ret->problem = problem;
			r = remove_both(dirfd, name, public); /* remove an incomplete pair */
		}
	}
	return r;
}

void host_keys_reload(const char *pid_path)
{
	_cleanup_free_ char *text = read_text(AT_FDCWD, pid_path), *comm = NULL;
	char path[32];
	uint64_t pid;

	if (!text || str_parse_u64(text, &pid) < 0 || pid < 2 || pid > INT32_MAX)
		return;
	(void)snprintf(path, sizeof(path), "/proc/%u/comm", (unsigned)pid); /* fits */
	comm = read_text(AT_FDCWD, path);
	if (comm && strcmp(comm, "sshd") == 0)
		(void)kill((pid_t)pid, SIGHUP); /* it may just have ended */
}
