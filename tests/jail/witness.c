/* Runs in a jail and says what it sees, one "name=value" a line on standard error. Descriptor 3 is
 * the host's /proc. Its arguments are echoed; "wait" makes it sleep until it is killed, "abort"
 * makes it call abort, "exit" makes it end with status 7. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROC_FD = 3, FDS_LOOKED_AT = 4096 };

static void say_namespaces(void)
{
	static const char *const names[] = {"user", "mnt", "net", "ipc", "uts", "pid"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[32], text[64];
		ssize_t n;

		(void)snprintf(path, sizeof(path), "self/ns/%s", names[i]);
		n = readlinkat(PROC_FD, path, text, sizeof(text) - 1);
		text[n < 0 ? 0 : n] = '\0';
		fprintf(stderr, "ns_%s=%s\n", names[i], text);
	}
}

/* The numbers are the host's, as that /proc shows them. */
static void say_session(void)
{
	int fd = openat(PROC_FD, "self/stat", O_RDONLY), session = -1, terminal = -1;
	char text[512];
	ssize_t n = read(fd, text, sizeof(text) - 1);
	const char *rest;

	text[n < 0 ? 0 : n] = '\0';
	rest = strrchr(text, ')');
	if (rest)
		(void)sscanf(rest, ") %*c %*d %*d %d %d", &session, &terminal);
	fprintf(stderr, "session=%d\nterminal=%d\n", session, terminal);
	(void)close(fd); /* only read */
}

static void say_rights(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {{0}};
	unsigned bounding = 0;

	(void)syscall(SYS_capget, &head, caps);
	for (unsigned i = 0; i < 64; i++)
		bounding += prctl(PR_CAPBSET_READ, i, 0, 0, 0) > 0;
	fprintf(stderr, "caps=%x.%x.%x.%x.%x.%x\n", caps[0].effective, caps[0].permitted,
		caps[0].inheritable, caps[1].effective, caps[1].permitted, caps[1].inheritable);
	fprintf(stderr, "bounding=%u\n", bounding);
	fprintf(stderr, "no_new_privs=%d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	fprintf(stderr, "uid=%u gid=%u groups=%d\n", (unsigned)getuid(), (unsigned)getgid(),
		getgroups(0, NULL));
}

static void say_descriptors(void)
{
	fprintf(stderr, "fds=");
	for (int fd = 0; fd < FDS_LOOKED_AT; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			fprintf(stderr, "%d,", fd);
	fprintf(stderr, "\n");
}

static void say_limits(void)
{
	static const struct {
		const char *name;
		int resource;
	} limits[] = {{"core", RLIMIT_CORE}, {"fsize", RLIMIT_FSIZE}, {"nofile", RLIMIT_NOFILE},
		{"nproc", RLIMIT_NPROC}, {"memlock", RLIMIT_MEMLOCK}};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit l = {0};

		(void)getrlimit((__rlimit_resource_t)limits[i].resource, &l);
		fprintf(stderr, "%s=%lld\n", limits[i].name, (long long)l.rlim_max);
	}
}

static void say_root(void)
{
	DIR *d = opendir("/");
	unsigned entries = 0;

	for (struct dirent *x; d && (x = readdir(d));)
		entries += strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0;
	fprintf(stderr, "root_entries=%u\n", d ? entries : 999);
	fprintf(stderr, "mkdir=%s\n", mkdir("/x", 0700) < 0 ? strerrorname_np(errno) : "made");
	fprintf(stderr, "etc=%s\n",
		open("/etc/passwd", O_RDONLY) < 0 ? strerrorname_np(errno) : "opened");
	fprintf(stderr, "up=%s\n",
		open("../../../etc/passwd", O_RDONLY) < 0 ? strerrorname_np(errno) : "opened");
}

int main(int argc, char **argv)
{
	sigset_t blocked;
	char what = argc > 1 ? argv[1][0] : ' ';

	setvbuf(stderr, NULL, _IOFBF, 1 << 16);
	fprintf(stderr, "pid=%d\nppid=%d\npgid=%d\n", getpid(), getppid(), getpgid(0));
	say_session();
	for (int i = 0; i < argc; i++)
		fprintf(stderr, "argv%d=%s\n", i, argv[i]);
	for (char **p = environ; *p; p++)
		fprintf(stderr, "env=%s\n", *p);
	say_rights();
	say_namespaces();
	say_descriptors();
	say_limits();
	say_root();
	(void)sigprocmask(SIG_BLOCK, NULL, &blocked);
	fprintf(stderr, "blocked=%d\n", !sigisemptyset(&blocked));
	fprintf(stderr, "end\n");
	fflush(stderr);
	if (what == 'a')
		abort();
	while (what == 'w')
		(void)pause();
	return what == 'e' ? 7 : 0;
}
