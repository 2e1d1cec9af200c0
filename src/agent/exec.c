/* EXEC: from a request to a running process. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "guest.h"
#include "path.h"
#include "process.h"
#include "requests.h"
#include "spawn.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum {
	BASE_ENV_MAX = 8,
	EXEC_FLAGS = AGENT_EXEC_PTY | AGENT_EXEC_STDIN | AGENT_EXEC_KILL_ON_CLOSE |
		     AGENT_EXEC_DETACHED | AGENT_EXEC_KEEP | AGENT_EXEC_BRIEF,
};

/* Static tables, as one EXEC is built at a time: they cannot run out of memory. */
static const char *argv[AGENT_ARGV_MAX + 1];
static const char *env[BASE_ENV_MAX + 2 * AGENT_ENV_MAX + 1];
static unsigned env_count;
static struct user user;
static char base_env[4][AGENT_PATH_MAX + 16];

static bool same_key(const char *a, const char *b)
{
	for (; *a == *b; a++, b++)
		if (*a == '=')
			return true;
	return false;
}

static void set_env(const char *entry)
{
	unsigned i = 0;

	while (i < env_count && !same_key(env[i], entry))
		i++;
	env[i] = entry;
	env_count += i == env_count;
}

static void set_user_env(unsigned slot, const char *key, const char *value)
{
	(void)snprintf(base_env[slot], sizeof(base_env[slot]), "%s=%s", key, value); /* fits */
	env[env_count++] = base_env[slot];
}

static void build_env(const struct agent_exec *x)
{
	const char *s;

	env_count = 0;
	env[env_count++] = "PATH=" DEFAULT_PATH;
	set_user_env(0, "HOME", user.home);
	set_user_env(1, "USER", user.name);
	set_user_env(2, "LOGNAME", user.name);
	set_user_env(3, "SHELL", user.shell);
	if (x->flags & AGENT_EXEC_PTY)
		env[env_count++] = "TERM=xterm-256color";
	for (size_t pos = 0; agent_strings_next(&guest.env, &pos, &s);)
		set_env(s);
	for (size_t pos = 0; agent_strings_next(&x->env, &pos, &s);)
		set_env(s);
	env[env_count] = NULL;
}

static const char *search_path(void)
{
	for (unsigned i = 0; i < env_count; i++)
		if (strncmp(env[i], "PATH=", 5) == 0)
			return env[i] + 5;
	return DEFAULT_PATH;
}

static void build_argv(const struct agent_exec *x)
{
	unsigned n = 0;

	for (size_t pos = 0; agent_strings_next(&x->argv, &pos, &argv[n]); n++)
		;
	argv[n] = NULL;
}

/* --- descriptors --- */

struct ends { /* the child's */
	int in, out, err;
};

static void close_ends(struct ends *e)
{
	if (e->in >= 0 && e->in != guest.null_fd)
		(void)close(e->in); /* closing pipes and terminals loses nothing */
	if (e->out >= 0 && e->out != e->in)
		(void)close(e->out);
	if (e->err >= 0 && e->err != e->in)
		(void)close(e->err);
}

/* Makes a pipe. Only the agent's end is non-blocking; the two ends are separate file
 * descriptions. */
static int open_pipe(int *agent_end, int *child_end, bool child_reads)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	*agent_end = fd[child_reads];
	*child_end = fd[!child_reads];
	return fcntl(*agent_end, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int open_pipes(struct process *p, bool with_stdin, struct ends *e)
{
	int r;

	e->in = guest.null_fd;
	p->input_closed = !with_stdin;
	r = with_stdin ? open_pipe(&p->in.fd, &e->in, true) : 0;
	if (r == 0)
		r = open_pipe(&p->out.fd, &e->out, false);
	if (r == 0)
		r = open_pipe(&p->err.fd, &e->err, false);
	return r;
}

static int open_pty(struct process *p, const struct agent_exec *x, struct ends *e)
{
	int unlock = 0;

	p->flags |= AGENT_PROCESS_PTY;
	p->out.fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (p->out.fd < 0 || ioctl(p->out.fd, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	e->in = ioctl(p->out.fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (e->in < 0)
		return -errno;
	e->out = e->err = e->in;
	(void)process_resize(p, x->cols, x->rows); /* a new terminal takes any size */
	if (user.uid != geteuid())
		(void)!fchown(e->in, user.uid, (gid_t)-1); /* as login does; works without it too */
	return 0;
}

/* --- errors --- */

static void spawn_error(
	struct conn *c, const struct agent_exec *x, const struct spawn_failure *f, const char *cwd)
{
	switch (f->stage) {
	case SPAWN_EXEC:
		if (!f->exists)
			conn_error(c, AGENT_ERR_NO_COMMAND, AGENT_EXEC, f->err, "%s", argv[0]);
		else if (f->err == ENOENT)
			conn_error(c, AGENT_ERR_NOT_EXECUTABLE, AGENT_EXEC, f->err,
				"%s: its interpreter", argv[0]);
		else
			conn_error(c, AGENT_ERR_NOT_EXECUTABLE, AGENT_EXEC, f->err, "%s", argv[0]);
		return;
	case SPAWN_CWD:
		conn_error(c, AGENT_ERR_BAD_CWD, AGENT_EXEC, f->err, "working directory %s", cwd);
		return;
	case SPAWN_USER:
		conn_error(c, AGENT_ERR_BAD_USER, AGENT_EXEC, f->err, "user %s", x->user);
		return;
	case SPAWN_FORK:
		conn_error(c, AGENT_ERR_LIMIT, AGENT_EXEC, f->err, "cannot create a process");
		return;
	case SPAWN_TTY:
		conn_error(c, AGENT_ERR_INTERNAL, AGENT_EXEC, f->err, "standard streams");
		return;
	}
}

static bool check(struct conn *c, const struct agent_exec *x)
{
	struct agent_selector by_tag = {.tag = x->tag};

	if (!conn_check_flags(c, AGENT_EXEC, x->flags, EXEC_FLAGS))
		return false;
	if ((x->flags & AGENT_EXEC_DETACHED) && (x->flags & AGENT_EXEC_KILL_ON_CLOSE)) {
		conn_error(c, AGENT_ERR_INVALID, AGENT_EXEC, 0, "both detached and kill_on_close");
		return false;
	}
	if (!x->argv.count) {
		conn_error(c, AGENT_ERR_INVALID, AGENT_EXEC, 0, "no command");
		return false;
	}
	if (x->tag[0] && process_find(&by_tag)) {
		conn_error(c, AGENT_ERR_EXISTS, AGENT_EXEC, 0, "a process with tag %s is running",
			x->tag);
		return false;
	}
	if (user_find(x->user, &user) < 0) {
		conn_error(c, AGENT_ERR_BAD_USER, AGENT_EXEC, ENOENT, "user %s",
			x->user[0] ? x->user : guest.user);
		return false;
	}
	return true;
}

/* --- the request is kept for LIST_PROCESSES --- */

static void keep_reduced(struct process *p, const struct agent_exec *x)
{
	struct buf b = BUF_INIT(AGENT_MESSAGE_MAX + 4096);
	struct agent_exec reduced = *x;

	p->flags |= AGENT_PROCESS_TRUNCATED;
	reduced.env = (struct agent_strings){0};
	if (x->argv.packed_bytes > PROCESS_CONFIG_MAX - 8192)
		reduced.argv = (struct agent_strings){
			.array = argv, .count = strlen(argv[0]) <= AGENT_PATH_MAX};
	if (agent_exec_encode(&b, &reduced) == 0) { /* less than one frame */
		buf_consume(&b, AGENT_HEADER_BYTES);
		p->exec = malloc(buf_len(&b));
		if (p->exec)
			memcpy(p->exec, buf_head(&b), buf_len(&b));
		p->exec_bytes = p->exec ? (uint32_t)buf_len(&b) : 0;
	}
	buf_done(&b);
}

static void keep_request(struct process *p, const struct agent_exec *x, const struct agent_frame *f)
{
	if (f->length > PROCESS_CONFIG_MAX) {
		keep_reduced(p, x);
		return;
	}
	p->exec = malloc(f->length);
	if (p->exec)
		memcpy(p->exec, f->payload, f->length);
	p->exec_bytes = p->exec ? (uint32_t)f->length : 0;
}

/* --- the request --- */

/* Puts the working directory into `out`. True when it may be missing. */
static bool find_cwd(const struct agent_exec *x, char out[AGENT_PATH_MAX + 1], int *ret)
{
	const char *cwd = x->cwd[0] ? x->cwd : guest.workdir;

	*ret = path_resolve(cwd[0] ? cwd : user.home, user.home, out);
	return !cwd[0];
}

static bool start(struct conn *c, const struct agent_exec *x, struct process *p, struct ends *e)
{
	char cwd[AGENT_PATH_MAX + 1];
	struct spawn_failure failure;
	struct spawn s = {.argv = argv, .env = env, .cwd = cwd, .user = &user};
	int r;

	s.cwd_optional = find_cwd(x, cwd, &r);
	if (r < 0) {
		conn_error(c, AGENT_ERR_BAD_CWD, AGENT_EXEC, -r, "working directory %s", x->cwd);
		return false;
	}
	r = x->flags & AGENT_EXEC_PTY ? open_pty(p, x, e)
				      : open_pipes(p, x->flags & AGENT_EXEC_STDIN, e);
	if (r < 0) {
		conn_error(c, error_class_of(-r), AGENT_EXEC, -r, "standard streams");
		return false;
	}
	build_env(x);
	build_argv(x);
	s.search_path = search_path();
	s.in = e->in;
	s.out = e->out;
	s.err = e->err;
	s.tty = x->flags & AGENT_EXEC_PTY;
	p->pid = spawn(&s, &failure);
	if (p->pid < 0)
		spawn_error(c, x, &failure, cwd);
	return p->pid > 0;
}

static void started(struct conn *c, const struct agent_exec *x, struct process *p)
{
	struct agent_started m = {.pid = (uint32_t)p->pid};

	p->started_ns = clock_realtime_ns();
	if (x->flags & AGENT_EXEC_KILL_ON_CLOSE)
		p->owner = c;
	p->brief = x->flags & AGENT_EXEC_BRIEF;
	p->kept = p->unclaimed = x->flags & AGENT_EXEC_KEEP;
	strcpy(p->tag, x->tag); /* the decoder bounds it */
	if (x->timeout_ms)
		process_limit(p, x->timeout_ms);
	conn_send(c, AGENT_STARTED, &m);
	if (!(x->flags & AGENT_EXEC_DETACHED))
		process_attach(p, c);
	process_start(p);
}

void request_exec(struct conn *c, const struct agent_frame *f)
{
	struct ends e = {-1, -1, -1};
	struct agent_exec x;
	struct process *p;

	if (!conn_decode(c, f, &x) || !check(c, &x))
		return;
	p = process_new();
	if (!p) {
		conn_error(c, AGENT_ERR_LIMIT, AGENT_EXEC, 0, "%d processes are running",
			AGENT_PROCESSES_MAX);
		return;
	}
	if (start(c, &x, p, &e)) {
		keep_request(p, &x, f);
		started(c, &x, p);
	} else {
		process_discard(p);
	}
	close_ends(&e);
}
