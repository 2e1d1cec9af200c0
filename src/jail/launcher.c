#include "jail/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "jail/request.h"
#include "jail/space.h"

enum { ANSWER_MS = 10000, TRIES = 2 };

struct launcher {
	pthread_mutex_t lock;
	char *path;
	enum jail_place place;
	pid_t pid;  /* 0: there is none */
	int socket; /* -1: there is none */
	enum jail_kind kind;
};

static void discard(struct launcher *l)
{
	cleanup_close_p(&l->socket);
	l->socket = -1;
	if (l->pid <= 0)
		return;
	(void)kill(l->pid, SIGKILL); /* not reaped yet, so the pid is still its own */
	while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
		;
	l->pid = 0;
}

/* --- answers --- */

/* Reads one reply. sender (may be NULL) gets the pid of the process that sent it. Returns 0, -EPIPE
 * at the end, or -errno. */
static int receive(int sock, struct jail_reply *ret, pid_t *sender)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {ret, sizeof(*ret)};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct ucred peer = {0};
	struct cmsghdr *c;
	ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);

	if (n <= 0)
		return n == 0 || errno == ECONNRESET ? -EPIPE : -errno;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
		memcpy(&peer, CMSG_DATA(c), sizeof(peer));
	if (sender)
		*sender = peer.pid;
	return n == sizeof(*ret) ? 0 : -EPROTO;
}

static int await_reply(int sock, struct jail_reply *ret, pid_t *sender)
{
	uint64_t end_ns = clock_monotonic_ns() + ANSWER_MS * NS_PER_MS;
	struct pollfd p = {.fd = sock, .events = POLLIN};
	int r;

	for (;;) {
		r = poll(&p, 1, clock_ms_until(end_ns, ANSWER_MS));
		if (r > 0)
			r = receive(sock, ret, sender);
		else
			r = r == 0 ? -ETIMEDOUT : -errno;
		if (r != -EINTR)
			return r;
	}
}

/* --- the launcher itself --- */

static int spawn(const char *path, enum jail_place place, int sock, pid_t *ret)
{
	char *argv[] = {(char *)"mayfly-launcher", (char *)jail_place_name(place), NULL};
	char *env[] = {NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, sock, 3);
	r = r ? r : posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, 0, 1);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, 0, 2);
	r = r ? r : posix_spawn(ret, path, &actions, &attr, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -r;
}

/* Returns our end, which receives the pids of senders. *ret_theirs goes to the launcher. */
static int make_channel(struct launcher *l, int *ret_theirs)
{
	static const int yes = 1;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	l->socket = pair[0];
	*ret_theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, 3); /* 0 to 2 are overwritten first */
	(void)close(pair[1]);				  /* duplicated */
	if (*ret_theirs < 0 ||
		setsockopt(l->socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) < 0)
		return -errno;
	return 0;
}

static int explain_refusal(const struct jail_reply *ready, struct error *e)
{
	if (ready->step >= SPACE_STEPS_)
		return error_set_errno(
			e, ERROR_HOST, -ready->err, "the launcher cannot give up its rights");
	return error_set(e, ERROR_HOST, -ready->err,
		"there can be no jail, this host refuses %s (%s): mayfly doctor says what to "
		"change; --jail=off starts sandboxes and builds templates without one",
		space_step_name((enum space_step)ready->step), strerror(-ready->err));
}

static int explain_death(int r, struct error *e)
{
	if (r == -ETIMEDOUT)
		return error_set(e, ERROR_HOST, ETIMEDOUT,
			"mayfly-launcher does not answer for %d s: look what stops it (ps, the "
			"kernel's log)",
			ANSWER_MS / 1000);
	return error_set(e, ERROR_HOST, -r,
		"mayfly-launcher ended before it had started anything: look what kills it (the "
		"kernel's log)");
}

/* -EPIPE (the launcher ended) and -ETIMEDOUT (it hangs) do not fill e. */
static int revive(struct launcher *l, struct error *e)
{
	_cleanup_close_ int theirs = -1;
	struct jail_reply ready;
	int r;

	if (l->pid > 0)
		return 0;
	r = make_channel(l, &theirs);
	if (r == 0)
		r = spawn(l->path, l->place, theirs, &l->pid);
	cleanup_close_p(&theirs); /* so that its end shows */
	theirs = -1;
	if (r == 0)
		r = await_reply(l->socket, &ready, NULL);
	if (r == 0 && ready.err < 0)
		r = explain_refusal(&ready, e);
	if (r < 0)
		discard(l);
	if (r == 0)
		l->kind = (enum jail_kind)ready.kind;
	else if (r != -EPIPE && r != -ETIMEDOUT)
		(void)error_set_errno(e, ERROR_HOST, -r, "cannot start %s", l->path);
	return r;
}

int launcher_make(const char *path, enum jail_place place, struct launcher **ret, struct error *e)
{
	struct launcher *l = calloc(1, sizeof(*l));
	int r;

	if (!l || !(l->path = strdup(path))) {
		free(l);
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	}
	(void)pthread_mutex_init(&l->lock, NULL); /* cannot fail without attributes */
	l->place = place;
	l->socket = -1;
	r = revive(l, e);
	if (r < 0) {
		launcher_free(l);
		return explain_death(r, e); /* the first explanation stays */
	}
	*ret = l;
	return 0;
}

void launcher_free(struct launcher *l)
{
	if (!l)
		return;
	discard(l);
	(void)pthread_mutex_destroy(&l->lock); /* nobody holds it */
	free(l->path);
	free(l);
}

enum jail_kind launcher_kind(struct launcher *l)
{
	enum jail_kind kind;

	(void)pthread_mutex_lock(&l->lock); /* cannot fail */
	kind = l->kind;
	(void)pthread_mutex_unlock(&l->lock); /* cannot fail */
	return kind;
}

pid_t launcher_pid(struct launcher *l)
{
	pid_t pid;

	(void)pthread_mutex_lock(&l->lock); /* cannot fail */
	pid = l->pid;
	(void)pthread_mutex_unlock(&l->lock); /* cannot fail */
	return pid;
}

/* --- starting --- */

struct message {
	char data[JAIL_REQUEST_MAX];
	size_t bytes;
	int fds[JAIL_FDS_SENT_MAX];
	unsigned fd_count;
};

static int compose(const struct launcher_start *s, int program_fd, struct message *m)
{
	struct jail_request r = {.fd_count = s->fd_count, .has_cgroup = s->cgroup_fd > 0};
	int n;

	for (n = 0; n < JAIL_STRINGS_MAX && s->argv[n]; n++)
		r.argv[n] = s->argv[n];
	if (s->argv[n])
		return -E2BIG;
	for (n = 0; n < JAIL_STRINGS_MAX && s->env[n]; n++)
		r.env[n] = s->env[n];
	if (s->env[n] || s->fd_count > JAIL_FDS_MAX)
		return -E2BIG;
	n = jail_request_encode(&r, m->data);
	if (n < 0)
		return n;
	m->bytes = (size_t)n;
	memcpy(m->fds, s->fds, s->fd_count * sizeof(int));
	m->fd_count = s->fd_count;
	m->fds[m->fd_count++] = program_fd;
	m->fds[m->fd_count++] = s->log_fd;
	if (r.has_cgroup)
		m->fds[m->fd_count++] = s->cgroup_fd;
	return 0;
}

static int send_message(int sock, struct message *m)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * JAIL_FDS_SENT_MAX)];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {m->data, m->bytes};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(sizeof(int) * m->fd_count)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * m->fd_count);
	memcpy(CMSG_DATA(c), m->fds, sizeof(int) * m->fd_count);
	return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* A child that did not become the program has ended. */
static void reap(pid_t pid)
{
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* The first reply to a request. -EPIPE: the launcher is dead, and no child runs. */
static int await_first(struct launcher *l, struct jail_reply *ret, pid_t *sender)
{
	int r = await_reply(l->socket, ret, sender);

	if (r != -ETIMEDOUT)
		return r;
	(void)kill(l->pid, SIGKILL); /* it hangs; its end shows whether a child lives */
	return await_reply(l->socket, ret, sender);
}

/* Returns 0 with the child's pid, -EPIPE when the launcher died and no child runs, or -errno. */
static int await_child(struct launcher *l, pid_t *ret)
{
	struct jail_reply reply;
	pid_t pid = 0;
	int r = await_first(l, &reply, &pid);
	bool born = r == 0 && reply.what == JAIL_BORN;

	if (born) {
		*ret = pid;
		r = await_reply(l->socket, &reply, NULL);
		if (r < 0) {
			discard(l); /* a late reply must not be taken for the answer to the next
				     * request */
			return 0;   /* the program runs, or its end shows */
		}
	}
	if (r < 0 || reply.what != JAIL_DONE)
		return r < 0 ? r : -EPROTO;
	if (!born && reply.err == 0)
		reply.err = -ECHILD; /* something killed it as it was born */
	if (reply.err < 0)
		reap(reply.pid);
	return reply.err;
}

static int start_once(struct launcher *l, struct message *m, pid_t *ret, struct error *e)
{
	int r = revive(l, e);

	if (r == 0)
		r = send_message(l->socket, m);
	if (r == 0)
		r = await_child(l, ret);
	if (r == -EPIPE || r == -ETIMEDOUT || r == -EPROTO)
		discard(l);
	return r;
}

static int start(struct launcher *l, struct message *m, pid_t *ret, struct error *e)
{
	int r = -EPIPE;

	for (unsigned n = 0; r == -EPIPE && n < TRIES; n++)
		r = start_once(l, m, ret, e);
	return r == -EPIPE || r == -ETIMEDOUT ? explain_death(r, e) : r;
}

int launcher_start(struct launcher *l, const struct launcher_start *s, pid_t *ret, struct error *e)
{
	_cleanup_close_ int fd = open(s->path, O_PATH | O_CLOEXEC);
	struct message m;
	int r = fd < 0 ? -errno : compose(s, fd, &m);

	if (r == 0) {
		(void)pthread_mutex_lock(&l->lock); /* cannot fail */
		r = start(l, &m, ret, e);
		(void)pthread_mutex_unlock(&l->lock); /* cannot fail */
	}
	if (r == -EACCES)
		return error_set(e, ERROR_HOST, EACCES,
			"cannot start %s in its jail: everybody must be allowed to read and "
			"execute "
			"it (chmod a+rx)",
			s->path);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot start %s", s->path) : 0;
}
