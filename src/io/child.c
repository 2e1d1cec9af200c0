#include "io/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

/* File system tools live in sbin, which is not in the PATH of ordinary users. */
static char *search_path(void)
{
	const char *path = getenv("PATH");

	return str_printf("%s:/usr/sbin:/sbin", path && *path ? path : "/usr/bin:/bin");
}

static char *find_program(const char *name)
{
	_cleanup_free_ char *path = search_path();
	char *save = NULL;

	if (!path)
		return NULL;
	if (strchr(name, '/'))
		return access(name, X_OK) == 0 ? strdup(name) : NULL;
	for (char *dir = strtok_r(path, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
		_cleanup_free_ char *full =
			*dir == '/' ? str_printf("%s/%s", dir, name) : NULL; /* else: not here */

		if (full && access(full, X_OK) == 0)
			return TAKE_PTR(full);
	}
	return NULL;
}

bool child_program_exists(const char *name)
{
	_cleanup_free_ char *p = find_program(name);

	return p != NULL;
}

static bool env_overrides(const char *const *extra, const char *entry)
{
	size_t n = strcspn(entry, "=") + 1;

	for (; extra && *extra; extra++)
		if (strncmp(*extra, entry, n) == 0)
			return true;
	return false;
}

/* Returns an array of borrowed strings: this process's environment, overridden by `extra`. */
static const char **merged_env(const char *const *extra, char *path_entry)
{
	const char *own[] = {path_entry, NULL};
	size_t n = 0, k = 0;
	const char **out;

	for (char **p = environ; *p; p++)
		n++;
	for (const char *const *p = extra; p && *p; p++)
		n++;
	out = calloc(n + 2, sizeof(*out));
	if (!out)
		return NULL;
	for (char **p = environ; *p; p++)
		if (!env_overrides(extra, *p) && !env_overrides(own, *p))
			out[k++] = *p;
	out[k++] = path_entry;
	for (const char *const *p = extra; p && *p; p++)
		out[k++] = *p;
	return out;
}

struct spawn {
	const char *program;
	const char *const *argv, *const *env;
	const char *cwd;
	int in, out, err;
	pid_t parent;
};

/* Runs in the child. Async-signal-safe calls only: the parent may have threads. */
static _Noreturn void become(const struct spawn *s)
{
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != s->parent)
		_exit(127); /* the parent ended before prctl */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(s->in, 0) < 0 || dup2(s->out, 1) < 0 || dup2(s->err, 2) < 0)
		_exit(127);
	if (s->cwd && chdir(s->cwd) < 0)
		_exit(127);
	(void)execve(s->program, (char *const *)s->argv, (char *const *)s->env);
	_exit(127);
}

static int spawn(struct child *c, struct spawn *s, const struct child_options *o)
{
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	_cleanup_close_ int out = -1, err = -1;
	int p[2];

	if (null < 0 || pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	c->err_fd = p[0];
	err = p[1];
	if (o->read_stdout) {
		if (pipe2(p, O_CLOEXEC) < 0)
			return -errno;
		c->out_fd = p[0];
		out = p[1];
	}
	s->in = o->stdin_fd > 0 ? o->stdin_fd : null;
	s->out = out >= 0 ? out : null;
	s->err = err;
	s->parent = getpid();
	c->pid = fork();
	if (c->pid == 0)
		become(s);
	if (c->pid < 0) {
		c->pid = 0;
		return -errno;
	}
	c->pid_fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	return c->pid_fd < 0 ? -errno : 0;
}

static void begin(struct child *c, const struct child_options *o)
{
	c->name = o->argv[0];
	c->on_line = o->on_line;
	c->opaque = o->opaque;
	c->deadline_ns = o->timeout_ns ? clock_monotonic_ns() + o->timeout_ns : 0;
}

static int start_program(
	struct child *c, struct spawn *s, const struct child_options *o, struct error *e)
{
	int r = spawn(c, s, o);

	if (r == 0)
		return 0;
	child_done(c);
	return error_set_errno(e, ERROR_INTERNAL, -r, "cannot start %s", o->argv[0]);
}

/* Starts mayfly-workshop with the program's command line, instead of the program. */
static int start_in_workshop(struct child *c, struct spawn *s, const struct child_options *o,
	const char *path_entry, struct error *e)
{
	_cleanup_(workshop_words_done) struct workshop_words w;
	const char *env[WORKSHOP_VARIABLES_MAX + 1] = {path_entry};
	unsigned n = 1;
	int r;

	for (const char *const *p = o->env; p && *p && n < WORKSHOP_VARIABLES_MAX; p++)
		env[n++] = *p;
	r = workshop_wrap(o->workshop, s->program, o->argv, env, &w, e);
	if (r < 0)
		return r;
	s->program = w.argv[0];
	s->argv = w.argv;
	s->env = w.env;
	return start_program(c, s, o, e);
}

int child_start(struct child *c, const struct child_options *o, struct error *e)
{
	_cleanup_free_ char *program = find_program(o->argv[0]);
	_cleanup_free_ char *path = search_path();
	_cleanup_free_ char *path_entry = path ? str_printf("PATH=%s", path) : NULL;
	_cleanup_free_ const char **env = path_entry ? merged_env(o->env, path_entry) : NULL;
	struct spawn s = {.program = program, .argv = o->argv, .env = env, .cwd = o->cwd};

	*c = (struct child)CHILD_INIT;
	if (!env)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (!program)
		return error_set(e, ERROR_HOST, ENOENT, "the program %s is not installed%s%s",
			o->argv[0], o->remedy ? ": " : "", o->remedy ? o->remedy : "");
	begin(c, o);
	if (o->workshop && workshop_is_used())
		return start_in_workshop(c, &s, o, path_entry, e);
	return start_program(c, &s, o, e);
}

int child_adopt(struct child *c, const struct child_adoption *a, struct error *e)
{
	*c = (struct child)CHILD_INIT;
	c->name = a->name;
	c->pid = a->pid;
	c->out_fd = a->out_fd;
	c->err_fd = a->err_fd;
	c->deadline_ns = a->timeout_ns ? clock_monotonic_ns() + a->timeout_ns : 0;
	c->pid_fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pid_fd < 0) {
		int r = error_set_errno(e, ERROR_INTERNAL, errno, "cannot watch %s", c->name);

		child_done(c);
		return r;
	}
	return 0;
}

int child_take_output(struct child *c)
{
	int fd = c->out_fd;

	c->out_fd = -1;
	return fd;
}

static int end_line(struct child *c)
{
	if (c->line_len == 0)
		return 0;
	c->line[c->line_len] = '\0';
	c->line_len = 0;
	memcpy(c->tail[c->lines++ % CHILD_TAIL_LINES], c->line, sizeof(c->line));
	return c->on_line ? c->on_line(c->opaque, c->line) : 0;
}

static int take_stderr(struct child *c)
{
	char data[1024];
	ssize_t n = read(c->err_fd, data, sizeof(data));
	int r = 0;

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	if (n == 0) {
		(void)close(c->err_fd); /* read side of a pipe */
		c->err_fd = -1;
		return end_line(c);
	}
	for (ssize_t i = 0; i < n && r >= 0; i++) {
		if (data[i] == '\n' || data[i] == '\r')
			r = end_line(c);
		else if (c->line_len + 1 < sizeof(c->line))
			c->line[c->line_len++] = (unsigned char)data[i] < 32 ? ' ' : data[i];
	}
	return r < 0 ? r : 0;
}

/* Milliseconds for poll, 0 when the deadline has passed. */
static int time_left_ms(const struct child *c)
{
	uint64_t now = clock_monotonic_ns(), ms;

	if (!c->deadline_ns)
		return -1;
	if (now >= c->deadline_ns)
		return 0;
	ms = (c->deadline_ns - now) / NS_PER_MS + 1;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* Reads what is on stderr now; fails when on_line asks to end the child. */
static int hear(struct child *c, struct error *e)
{
	int r = take_stderr(c);

	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "%s was ended", c->name) : 0;
}

/* Waits until fd (stdout or the process) is ready, and reads stderr meanwhile. 0 when fd is
 * ready. */
static int wait_for(struct child *c, int fd, bool until_exit, struct error *e)
{
	for (;;) {
		struct pollfd p[3] = {{.fd = fd, .events = POLLIN},
			{.fd = c->err_fd, .events = POLLIN},
			{.fd = c->beside ? c->beside->err_fd : -1, .events = POLLIN}};
		int r = poll(p, ARRAY_SIZE(p), time_left_ms(c));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return error_set_errno(e, ERROR_INTERNAL, errno, "poll");
		if (r == 0)
			return error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
				"%s took too long and was ended", c->name);
		if (p[2].revents && hear(c->beside, e) < 0)
			return -ECANCELED;
		if (p[1].revents) {
			r = hear(c, e);
			if (r < 0)
				return r;
			/* read all of stderr before the exit status */
			if (until_exit && c->err_fd >= 0)
				continue;
		}
		if (p[0].revents)
			return 0;
	}
}

ssize_t child_read(struct child *c, void *data, size_t n, struct error *e)
{
	ssize_t got;
	int r;

	if (c->out_fd < 0)
		return 0;
	do {
		r = wait_for(c, c->out_fd, false, e);
		if (r < 0)
			return r;
		got = read(c->out_fd, data, n);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "reading from %s", c->name);
	return got;
}

/* Joins the kept lines in order; "" when there are none. */
static void join_tail(const struct child *c, char *out, size_t size)
{
	unsigned n = c->lines < CHILD_TAIL_LINES ? c->lines : CHILD_TAIL_LINES;
	size_t at = 0;

	out[0] = '\0';
	for (unsigned i = c->lines - n; i != c->lines && at < size; i++) {
		int w = snprintf(out + at, size - at, "%s%.150s", at ? " | " : "",
			c->tail[i % CHILD_TAIL_LINES]);

		at += w > 0 ? (size_t)w : 0;
	}
}

static int status_error(const struct child *c, const siginfo_t *si, struct error *e)
{
	char tail[400];

	if (si->si_code == CLD_EXITED && si->si_status == 0)
		return 0;
	join_tail(c, tail, sizeof(tail));
	if (strstr(tail, "No space left on device") || strstr(tail, "not have enough free space"))
		return error_set(e, ERROR_NO_SPACE, ENOSPC, "%s: no space left on the disk (%s)",
			c->name, tail);
	if (si->si_code == CLD_EXITED)
		return error_set(e, ERROR_HOST, EIO, "%s failed with exit status %d%s%s", c->name,
			si->si_status, *tail ? ": " : "", tail);
	return error_set(e, ERROR_HOST, EIO, "%s was ended by signal %d%s%s", c->name,
		si->si_status, *tail ? ": " : "", tail);
}

int child_finish(struct child *c, struct error *e)
{
	siginfo_t si = {0};
	int r;

	if (c->pid == 0)
		return 0;
	if (c->out_fd >= 0) {
		(void)close(c->out_fd); /* read side: a child that still writes gets SIGPIPE */
		c->out_fd = -1;
	}
	r = wait_for(c, c->pid_fd, true, e);
	while (r == 0 && c->err_fd >= 0) { /* a grandchild may keep it open, so do not wait */
		struct pollfd p = {.fd = c->err_fd, .events = POLLIN};

		if (poll(&p, 1, 0) <= 0 || take_stderr(c) < 0)
			break;
	}
	if (r == 0 && waitid(P_PIDFD, (id_t)c->pid_fd, &si, WEXITED) < 0)
		r = error_set_errno(e, ERROR_INTERNAL, errno, "waiting for %s", c->name);
	else if (r == 0)
		c->pid = 0;
	if (r == 0)
		r = status_error(c, &si, e);
	child_done(c);
	return r;
}

void child_done(struct child *c)
{
	int *fds[] = {&c->pid_fd, &c->out_fd, &c->err_fd};

	if (c->pid > 0) {
		(void)kill(c->pid, SIGKILL); /* not reaped yet, so the pid is still ours */
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			;
		c->pid = 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (*fds[i] >= 0)
			(void)close(*fds[i]); /* pipes and a pidfd */
		*fds[i] = -1;
	}
}

static int collect(struct child *c, struct buf *out, struct error *e)
{
	for (;;) {
		uint8_t *p = buf_reserve(out, 16384);
		ssize_t n;

		if (!p)
			return error_set(e, ERROR_LIMIT, EMSGSIZE, "%s says too much", c->name);
		n = child_read(c, p, 16384, e);
		if (n <= 0)
			return (int)n;
		buf_commit(out, (size_t)n);
	}
}

int child_run(const struct child_options *o, struct buf *out, struct error *e)
{
	_cleanup_(child_done) struct child c = CHILD_INIT;
	struct child_options mine = *o;
	int r;

	mine.read_stdout = out != NULL;
	r = child_start(&c, &mine, e);
	if (r == 0 && out)
		r = collect(&c, out, e);
	if (r == 0)
		r = child_finish(&c, e);
	return r;
}
