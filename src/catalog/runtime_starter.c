#include "catalog/runtime_starter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "fleet/fleet.h"
#include "fleet/runtimes.h"
#include "io/jailed.h"

enum { NICE = 5, WORDS_MAX = 10 + 2 * OPTION_LIST_MAX };

/* In the process. */
struct starter {
	const struct fleet_options *options;
	pid_t self;
	int fd, err_fd; /* err_fd: a build's standard error */
	pid_t child;	/* 0: no build */
	int child_fd;	/* its pidfd, or -1 */
	int go_fd;	/* it waits for a byte from here, or -1 */
};

/* --- the build's process --- */

/* What is only read. */
static char *word(const char *s)
{
	return (char *)(uintptr_t)s;
}

static void set_words(const struct fleet_options *o, const struct runtime *rt, char **words)
{
	const struct option_list *mirrors = o->mirrors;
	unsigned n = 0;

	words[n++] = word("mayfly");
	words[n++] = word("template");
	words[n++] = word("build");
	words[n++] = word("--progress=json");
	words[n++] = word(jailed_is_on() ? "--jail=on" : "--jail=off");
	if (rt->image) {
		words[n++] = word("--from");
		words[n++] = word(rt->image);
	}
	for (unsigned i = 0; rt->image && mirrors && i < mirrors->count; i++) {
		words[n++] = word("--registry-mirror");
		words[n++] = word(mirrors->items[i]);
	}
	words[n++] = word(rt->template);
	words[n] = NULL;
}

/* The terminal's and those that ask a process to end: the daemon decides what they mean. */
static const int for_daemon[] = {SIGINT, SIGTERM, SIGHUP};

static void reset_signals(void)
{
	sigset_t none;

	(void)sigemptyset(&none); /* these cannot fail */
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	for (size_t i = 0; i < ARRAY_SIZE(for_daemon); i++)
		(void)signal(for_daemon[i], SIG_DFL);
}

static _Noreturn void be_build(const struct starter *s, const struct runtime *rt, int go_fd)
{
	const char *program = s->options->builder ? s->options->builder : "/proc/self/exe";
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	char *words[WORDS_MAX];
	char go;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* with the starter; cannot fail */
	if (getppid() != s->self || null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
		dup2(null_fd, STDOUT_FILENO) < 0 || dup2(s->err_fd, STDERR_FILENO) < 0)
		_exit(EXIT_FAILURE);
	(void)setpriority(PRIO_PROCESS, 0, NICE); /* lower always works */
	reset_signals();
	set_words(s->options, rt, words);
	if (read(go_fd, &go, 1) != 1)
		_exit(EXIT_FAILURE);
	(void)execv(program, words);
	(void)dprintf(STDERR_FILENO, "cannot start %s: %s\n", program, strerror(errno));
	_exit(EXIT_FAILURE);
}

/* --- the starter --- */

/* The daemon may be gone: then the next message says so. */
static void tell(const struct starter *s, enum runtime_message_kind kind, int32_t value)
{
	const struct runtime_message m = {kind, value};

	(void)send(s->fd, &m, sizeof(m), MSG_NOSIGNAL);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(TAKE_FD(*fd)); /* a pipe or a pidfd */
}

/* fork(), but without libuv's handler: it would close descriptors that libuv had in the daemon, and
 * here are others. */
static pid_t fork_only(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static int begin(struct starter *s, const struct runtime *rt)
{
	int go[2];

	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	s->child = fork_only();
	if (s->child == 0) {
		(void)close(go[1]); /* its end ends this process */
		be_build(s, rt, go[0]);
	}
	(void)close(go[0]); /* the child's */
	s->go_fd = go[1];
	if (s->child < 0) {
		s->child = 0;
		close_fd(&s->go_fd);
		return -EAGAIN;
	}
	s->child_fd = (int)syscall(SYS_pidfd_open, s->child, 0);
	return 0;
}

/* Waits for the end of the build and tells it. */
static void end(struct starter *s)
{
	int status = 0;

	close_fd(&s->go_fd);
	while (waitpid(s->child, &status, 0) < 0 && errno == EINTR)
		continue;
	s->child = 0;
	close_fd(&s->child_fd);
	tell(s, RUNTIME_ENDED, status);
}

static void kill_build(struct starter *s)
{
	if (!s->child)
		return;
	(void)kill(s->child, SIGKILL); /* it may have ended: it is there until waitpid() */
	end(s);
}

static void start_build(struct starter *s, int32_t number)
{
	struct runtime rt;
	int r = -EINVAL;

	if (s->child)
		return; /* the daemon waits for the end of one */
	if (number >= 0 && runtimes_get(s->options->runtimes, (unsigned)number, &rt))
		r = begin(s, &rt);
	if (r < 0) {
		tell(s, RUNTIME_ENDED, r);
		return;
	}
	tell(s, RUNTIME_BORN, s->child);
	if (s->child_fd < 0)
		kill_build(s); /* its end would not be seen */
}

/* False: the daemon is gone. */
static bool obey(struct starter *s)
{
	struct runtime_message m;
	ssize_t n = recv(s->fd, &m, sizeof(m), 0);

	if (n < 0 && errno == EINTR)
		return true;
	if (n != sizeof(m))
		return false;
	if (m.kind == RUNTIME_BEGIN)
		start_build(s, m.value);
	else if (m.kind == RUNTIME_KILL)
		kill_build(s);
	else if (m.kind == RUNTIME_GO && s->go_fd >= 0) {
		(void)fd_write_full(s->go_fd, "", 1); /* if it has ended, that is told */
		close_fd(&s->go_fd);
	}
	return true;
}

static _Noreturn void be_starter(struct starter *s)
{
	struct pollfd p[2] = {{.fd = s->fd, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
	bool going = true;

	(void)prctl(PR_SET_NAME, "mayfly-starter"); /* for ps */
	for (size_t i = 0; i < ARRAY_SIZE(for_daemon); i++)
		(void)signal(for_daemon[i], SIG_IGN); /* cannot fail */
	while (going) {
		p[0].revents = p[1].revents = 0;
		p[1].fd = s->child_fd;
		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			break;
		if (s->child && p[1].revents)
			end(s);
		if (p[0].revents)
			going = obey(s);
	}
	kill_build(s);
	_exit(0);
}

/* The daemon's files are none of its business: only standard error, the socket and the pipe
 * stay. */
static void close_others(struct starter *s)
{
	enum { FIRST = STDERR_FILENO + 1 };
	int fd = fcntl(s->fd, F_DUPFD, FIRST + 2), err_fd = fcntl(s->err_fd, F_DUPFD, FIRST + 2);

	s->fd = FIRST;
	s->err_fd = FIRST + 1;
	if (fd < 0 || err_fd < 0 || dup3(fd, s->fd, O_CLOEXEC) < 0 ||
		dup3(err_fd, s->err_fd, O_CLOEXEC) < 0 ||
		syscall(SYS_close_range, FIRST + 2, ~0U, 0) < 0)
		_exit(EXIT_FAILURE);
}

/* --- the daemon --- */

static int open_ends(struct runtime_starter *s, int theirs[2])
{
	int fds[2], out[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	s->fd = fds[0];
	theirs[0] = fds[1];
	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	s->out_fd = out[0];
	theirs[1] = out[1];
	return fcntl(s->fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(s->out_fd, F_SETFL, O_NONBLOCK) < 0
		       ? -errno
		       : 0;
}

int runtime_starter_open(
	const struct fleet_options *o, struct runtime_starter **ret, struct error *e)
{
	struct runtime_starter *s = malloc(sizeof(*s));
	int theirs[2] = {-1, -1}, r = s ? 0 : -ENOMEM;

	if (s) {
		*s = (struct runtime_starter){.pid = 0, .fd = -1, .out_fd = -1};
		r = open_ends(s, theirs);
	}
	if (r == 0) {
		s->pid = fork();
		r = s->pid < 0 ? -errno : 0;
	}
	if (r == 0 && s->pid == 0) {
		struct starter in = {.options = o,
			.self = getpid(),
			.fd = theirs[0],
			.err_fd = theirs[1],
			.child_fd = -1,
			.go_fd = -1};

		close_others(&in);
		be_starter(&in);
	}
	close_fd(&theirs[0]);
	close_fd(&theirs[1]);
	if (r < 0) {
		runtime_starter_free(s);
		return error_set_errno(
			e, ERROR_HOST, -r, "cannot start the process that starts builds");
	}
	*ret = s;
	return 0;
}

int runtime_starter_send(
	const struct runtime_starter *s, enum runtime_message_kind kind, int32_t value)
{
	const struct runtime_message m = {kind, value};

	return send(s->fd, &m, sizeof(m), MSG_NOSIGNAL) == sizeof(m) ? 0 : -errno;
}

int runtime_starter_receive(const struct runtime_starter *s, struct runtime_message *ret)
{
	ssize_t n = recv(s->fd, ret, sizeof(*ret), MSG_DONTWAIT);

	if (n == sizeof(*ret))
		return 0;
	return n < 0 ? -errno : -EPIPE;
}

void runtime_starter_free(struct runtime_starter *s)
{
	if (!s)
		return;
	close_fd(&s->fd); /* its sign to end */
	close_fd(&s->out_fd);
	while (s->pid > 0 && waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	free(s);
}
