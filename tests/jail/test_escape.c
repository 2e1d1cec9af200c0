/* The escape suite: a program in mayfly-vmm's place makes one attempt after the other to get out of
 * its jail (escape.c), each in a process of its own. Every attempt must be refused, and the
 * canaries on the host must be as before: files, a process, another jail's process, sockets, shared
 * memory, keys.
 *
 *	test-escape BUILD [-v]
 *
 * It runs as root (every process has a user of its own) and as a user without rights. Each time it
 * runs without Landlock, with it, and with mayfly-vmm's filter of system calls as well. Attempts
 * that only the filter refuses are reported without it, and do not count then. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "escape.h"
#include "jail/landlock.h"
#include "jail/launcher.h"

enum { USER = 65534, ATTEMPTS_MAX = 1000, LINE_MAX_ = 256, MOUNTS_MAX = 1 << 20 };

/* What the program adds to its jail. */
enum addition { NOTHING, LANDLOCK, FILTER, ADDITIONS_ };
static const char *const additions[] = {NULL, "landlock", "filter"};

static char launcher_path[512], escape_path[512], witness_path[512];
static bool verbose;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "test-escape: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int must(int r, const char *what)
{
	if (r < 0)
		die(what);
	return r;
}

/* --- the canaries --- */

struct host {
	char dir[64];
	struct escape_canaries c;
	int canaries_fd, delta_fd, base_fd, listener_fd, pair[2];
	int unix_fd, abstract_fd, tcp_fd, shm_id, msg_id;
	char *memory; /* this process is a canary, too */
	struct utsname name;
	char *mounts;
};

static volatile sig_atomic_t signals;

static void on_signal(int signo)
{
	(void)signo; /* any is one too many */
	signals++;
}

static int listen_unix(const char *name, bool abstract)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(name);
	int fd = must(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");

	memcpy(a.sun_path + abstract, name, n);
	must(bind(fd, (struct sockaddr *)&a,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1)),
		name);
	must(listen(fd, 5), "listen");
	return fd;
}

static int listen_tcp(uint16_t *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int fd = must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");

	must(bind(fd, (struct sockaddr *)&a, n), "bind");
	must(listen(fd, 5), "listen");
	must(getsockname(fd, (struct sockaddr *)&a, &n), "getsockname");
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static int make_file(const struct host *h, const char *name, int flags)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", h->dir, name); /* fits */
	fd = must(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), path);
	must(fd_write_full(fd, ESCAPE_SECRET, ESCAPE_SECRET_BYTES), path);
	if (flags != O_RDWR) {
		(void)close(fd); /* opened anew */
		fd = must(open(path, flags | O_CLOEXEC), path);
	}
	return fd;
}

static void make_ipc(struct host *h)
{
	char *shared;

	h->c.shm_key = h->c.msg_key = 0x6d610000 | (getpid() & 0xffff);
	h->shm_id = must(shmget(h->c.shm_key, 4096, IPC_CREAT | 0666), "shmget");
	h->msg_id = must(msgget(h->c.msg_key, IPC_CREAT | 0666), "msgget");
	shared = shmat(h->shm_id, NULL, 0);
	strcpy(shared, ESCAPE_SECRET);
	(void)shmdt(shared); /* attached just now */
	h->c.key = (int)syscall(SYS_add_key, "user", "mayfly-canary", ESCAPE_SECRET,
		ESCAPE_SECRET_BYTES, KEY_SPEC_SESSION_KEYRING);
}

static void set_up(struct host *h)
{
	*h = (struct host){.dir = "/tmp/mayfly-escape-XXXXXX"};
	if (!mkdtemp(h->dir))
		die(h->dir);
	(void)snprintf(h->c.directory, sizeof(h->c.directory), "%s", h->dir);
	(void)snprintf(h->c.secret, sizeof(h->c.secret), "%s/secret", h->dir);
	(void)snprintf(h->c.socket, sizeof(h->c.socket), "%s/socket", h->dir);
	(void)snprintf(h->c.abstract, sizeof(h->c.abstract), "mayfly-escape-%d", getpid());
	(void)close(make_file(h, "secret", O_RDWR)); /* found by its path */
	h->delta_fd = make_file(h, "delta", O_RDWR);
	h->base_fd = make_file(h, "base", O_RDONLY);
	h->unix_fd = listen_unix(h->c.socket, false);
	h->abstract_fd = listen_unix(h->c.abstract, true);
	h->tcp_fd = listen_tcp(&h->c.port);
	h->memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(h->memory, ESCAPE_SECRET);
	h->c.memory = (uintptr_t)h->memory;
	h->c.process = getpid();
	make_ipc(h);
	h->canaries_fd = must(memfd_create("canaries", MFD_CLOEXEC), "memfd_create");
	must(uname(&h->name), "uname");
	must(file_read(AT_FDCWD, "/proc/self/mountinfo", MOUNTS_MAX, &h->mounts, NULL), "mounts");
	for (int i = 1; i < SIGRTMAX; i++)
		if (i != SIGCHLD && i != SIGPIPE)
			(void)signal(i, on_signal); /* SIGKILL and SIGSTOP cannot */
	(void)signal(SIGINT, SIG_DFL);		    /* for people */
}

static void tear_down(struct host *h)
{
	(void)shmctl(h->shm_id, IPC_RMID, NULL); /* all of these are ours */
	(void)msgctl(h->msg_id, IPC_RMID, NULL);
	(void)file_remove_tree(AT_FDCWD, h->dir);
	free(h->mounts);
}

static bool is_secret_whole(const char *path)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;

	return file_read(AT_FDCWD, path, 4096, &text, &n) == 0 && n == ESCAPE_SECRET_BYTES &&
	       memcmp(text, ESCAPE_SECRET, n) == 0;
}

static bool has_visitor(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) != 0;
}

/* What was touched, or NULL. */
static const char *find_damage(struct host *h)
{
	_cleanup_free_ char *mounts = NULL;
	struct utsname name;
	struct stat st;
	struct shmid_ds shm;
	char path[128];

	if (!is_secret_whole(h->c.secret) || stat(h->c.secret, &st) < 0 || st.st_mode != 0100600)
		return "a file";
	(void)snprintf(path, sizeof(path), "%s/base", h->dir); /* fits */
	if (!is_secret_whole(path))
		return "an image";
	if (has_visitor(h->unix_fd) || has_visitor(h->abstract_fd) || has_visitor(h->tcp_fd))
		return "a socket";
	if (strcmp(h->memory, ESCAPE_SECRET) != 0)
		return "memory";
	if (signals)
		return "a process, by a signal";
	if (kill(h->c.neighbour, 0) < 0 || waitpid(h->c.neighbour, NULL, WNOHANG) != 0)
		return "a neighbour";
	if (shmctl(h->shm_id, IPC_STAT, &shm) < 0 || shm.shm_cpid != getpid() ||
		shm.shm_lpid != getpid())
		return "shared memory";
	if (h->c.key > 0 && syscall(SYS_keyctl, KEYCTL_READ, h->c.key, path, sizeof(path), 0) < 0)
		return "a key";
	if (uname(&name) < 0 || memcmp(&name, &h->name, sizeof(name)) != 0)
		return "the host's name";
	if (file_read(AT_FDCWD, "/proc/self/mountinfo", MOUNTS_MAX, &mounts, NULL) < 0 ||
		strcmp(mounts, h->mounts) != 0)
		return "the mounts";
	return NULL;
}

/* --- attempts --- */

static pid_t start(struct launcher *l, const char *path, char *const *argv, const int *fds,
	unsigned count, int log_fd)
{
	char *env[] = {NULL};
	struct error e = {0};
	pid_t pid;

	if (launcher_start(l,
		    &(struct launcher_start){.path = path,
			    .argv = argv,
			    .env = env,
			    .fds = fds,
			    .fd_count = count,
			    .log_fd = log_fd,
			    .cgroup_fd = -1},
		    &pid, &e) < 0) {
		fprintf(stderr, "test-escape: %s\n", e.message);
		exit(1);
	}
	return pid;
}

/* Another sandbox's process. */
static pid_t start_neighbour(struct launcher *l)
{
	char *argv[] = {(char *)"neighbour", (char *)"wait", NULL};
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	return start(l, witness_path, argv, NULL, 0, null);
}

/* Returns the wait status, with what the program said. */
static int attempt(
	struct host *h, struct launcher *l, unsigned i, enum addition with, char line[LINE_MAX_])
{
	int fds[ESCAPE_FDS - 3], ends[2], status, n = 0;
	char number[16], own[32], *argv[] = {(char *)"escape", number, NULL, NULL};
	pid_t pid;
	ssize_t r;

	(void)snprintf(number, sizeof(number), "%u", i);	     /* fits */
	(void)snprintf(own, sizeof(own), "mayfly-own-%d", getpid()); /* fits */
	argv[2] = (char *)additions[with];
	must(pipe2(ends, O_CLOEXEC), "pipe2");
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, h->pair), "socketpair");
	h->listener_fd = listen_unix(own, true);
	fds[ESCAPE_DELTA_FD - 3] = h->delta_fd;
	fds[ESCAPE_BASE_FD - 3] = h->base_fd;
	fds[ESCAPE_VSOCK_FD - 3] = h->listener_fd;
	fds[ESCAPE_OWNER_FD - 3] = h->pair[1];
	fds[ESCAPE_CANARIES_FD - 3] = h->canaries_fd;
	pid = start(l, escape_path, argv, fds, ESCAPE_FDS - 3, ends[1]);
	(void)close(ends[1]); /* the process has it */
	while (n < LINE_MAX_ - 1 && (r = read(ends[0], line + n, (size_t)(LINE_MAX_ - 1 - n))) > 0)
		n += (int)r;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	must(waitpid(pid, &status, 0), "waitpid");
	(void)close(ends[0]); /* done with */
	(void)close(h->pair[0]);
	(void)close(h->pair[1]);
	(void)close(h->listener_fd);
	return status;
}

struct tally {
	unsigned refused, filter, reached;
};

static void judge(const char *line, int status, enum addition with, bool full, struct tally *t)
{
	unsigned flags = (unsigned)strtoul(line, NULL, 10);
	bool refused = WIFSIGNALED(status) || WEXITSTATUS(status) == ESCAPE_REFUSED;
	bool excused = with != FILTER &&
		       ((flags & ESCAPE_NEEDS_FILTER) || ((flags & ESCAPE_NEEDS_FULL) && !full));

	if (verbose)
		printf("    %s%s\n", line,
			WIFSIGNALED(status) ? "killed"
			: refused	    ? ""
			: excused	    ? " (for the filter)"
					    : " REACHED");
	if (refused)
		t->refused++;
	else if (excused)
		t->filter++;
	else {
		printf("    %s: %s\n", line,
			WEXITSTATUS(status) == 1 ? "could not be made" : "REACHED");
		t->reached++;
	}
}

/* All attempts; returns whether none succeeded. */
static bool run_all(enum addition with)
{
	struct host h;
	struct launcher *l;
	struct error e = {0};
	struct tally t = {0};
	const char *damage = NULL, *kind;
	unsigned i;

	set_up(&h);
	if (launcher_make(launcher_path, JAIL_PLACE_EMPTY, &l, &e) < 0) {
		fprintf(stderr, "test-escape: %s\n", e.message);
		exit(1);
	}
	h.c.neighbour = start_neighbour(l);
	must((int)pwrite(h.canaries_fd, &h.c, sizeof(h.c), 0), "pwrite");
	kind = jail_kind_name(launcher_kind(l));
	for (i = 0; i < ATTEMPTS_MAX && !damage; i++) {
		char line[LINE_MAX_];
		int status = attempt(&h, l, i, with, line);

		if (WIFEXITED(status) && WEXITSTATUS(status) == ESCAPE_NO_SUCH)
			break;
		judge(line, status, with, launcher_kind(l) == JAIL_FULL, &t);
		damage = find_damage(&h);
		if (damage)
			printf("    %s: touched %s\n", line, damage);
	}
	(void)kill(h.c.neighbour, SIGKILL); /* not reaped: its own */
	(void)waitpid(h.c.neighbour, NULL, 0);
	launcher_free(l);
	tear_down(&h);
	printf("%s - jail %s%s%s: %u attempts, %u refused, %u left to the filter, %u reached, %s "
	       "touched\n",
		t.reached || damage || i < 100 ? "not ok" : "ok", kind, with ? " with " : "",
		with ? additions[with] : "", i, t.refused, t.filter, t.reached,
		damage ? damage : "no canary");
	return !t.reached && !damage && i >= 100;
}

/* In a process of its own: the user changes for good. */
static bool run_as(uid_t user, enum addition with)
{
	int status;
	pid_t pid;

	(void)fflush(stdout); /* only a report */
	pid = fork();
	if (pid == 0) {
		if (user && (setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 ||
				    setresuid(user, user, user) < 0))
			die("setresuid");
		(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* /proc/self is ours again */
		/* a keyring of its own, which the jail must not see */
		(void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0);
		status = run_all(with) ? 0 : 1;
		(void)fflush(stdout); /* only a report */
		_exit(status);
	}
	must(waitpid(pid, &status, 0), "waitpid");
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
	bool good = true;

	if (argc < 2)
		return 2;
	verbose = argc > 2;
	(void)snprintf(launcher_path, sizeof(launcher_path), "%s/mayfly-launcher", argv[1]);
	(void)snprintf(escape_path, sizeof(escape_path), "%s/tests/jail/jail-escape", argv[1]);
	(void)snprintf(witness_path, sizeof(witness_path), "%s/tests/jail/jail-witness", argv[1]);
	for (enum addition with = NOTHING; with < ADDITIONS_; with++) {
		if (with == LANDLOCK && landlock_abi() == 0)
			continue;
		good &= run_as(geteuid() ? geteuid() : 0, with);
		if (geteuid() == 0)
			good &= run_as(USER, with);
	}
	return good ? 0 : 1;
}
