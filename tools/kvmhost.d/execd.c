/*
 * Process 1 of the emulated host: runs the commands that kvmexec brings (protocol: link.h).
 *
 *   execd IDLE_SECONDS, token in /run/kvmhost/token
 *
 * One child per connection, so commands cannot disturb each other; it is the parent of the command
 * and moves its bytes. Process 1 itself only accepts, collects the dead, and powers the machine
 * off: when asked to, or after IDLE_SECONDS without a command or forwarded connection.
 *
 * A command is the leader of its own session. When its connection breaks, its process group gets
 * SIGHUP and SIGTERM, and SIGKILL two seconds later. When it ends, what its pipes hold is still
 * delivered, but children that it left behind are not waited for.
 */
#define _GNU_SOURCE
#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/kvm.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define TOKEN_FILE	"/run/kvmhost/token"
#define CONNECTIONS_MAX 1024
#define HELLO_TIMEOUT_S 10
#define KILL_AFTER_MS	2000
#define STOP_GRACE_MS	3000
#define OPEN_FILES	1048576
#define STATUS_COMMAND	80

/* Shared by process 1 and the children: what each connection is for. */
struct slot {
	pid_t pid;
	volatile uint32_t kind; /* 0 until its hello was read */
	time_t since;
	char command[STATUS_COMMAND];
};

static struct slot *slots;
static char token[LINK_TOKEN_SIZE];
static time_t started_at;

static time_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void die(const char *what)
{
	fprintf(stderr, "kvmhost: execd: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int active_connections(void)
{
	int n = 0;

	for (int i = 0; i < CONNECTIONS_MAX; i++)
		n += slots[i].pid && (slots[i].kind == LINK_EXEC || slots[i].kind == LINK_DIAL);
	return n;
}

/* ---- one command ---- */

struct command {
	struct link link;
	pid_t pid;
	int pid_fd;
	int in_fd;	     /* where STREAM_IN goes, -1 when closed */
	int out_fd[STREAMS]; /* where STREAM_OUT and STREAM_ERR come from */
	bool tty;
	bool in_ended; /* the last byte of input is in pending */
	bool exited;
	int status;
	int64_t kill_at_ms; /* when the connection broke */
};

static void send_failure(struct link *l, int status, const char *format, ...)
{
	char payload[sizeof(int32_t) + 512];
	int32_t value = status;
	va_list args;

	memcpy(payload, &value, sizeof(value));
	va_start(args, format);
	vsnprintf(payload + sizeof(value), sizeof(payload) - sizeof(value), format, args);
	va_end(args);
	link_send(l, FRAME_FAILED, 0, payload, sizeof(value) + strlen(payload + sizeof(value)));
}

/* Cuts strings out of the payload into a NULL-terminated vector; NULL when they are not there. */
static char **take_strings(char **position, const char *end, uint32_t count)
{
	if (count > LINK_START_MAX / 2)
		return NULL;
	char **strings = calloc(count + 1, sizeof(*strings));

	for (uint32_t i = 0; strings && i < count; i++) {
		char *nul = *position < end ? memchr(*position, 0, end - *position) : NULL;
		if (!nul) {
			free(strings);
			return NULL;
		}
		strings[i] = *position;
		*position = nul + 1;
	}
	return strings;
}

static void describe(struct slot *slot, char **arguments)
{
	char text[STATUS_COMMAND] = "";

	for (size_t i = 0, n = 0; arguments[i] && n + 1 < sizeof(text); i++)
		n += snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "", arguments[i]);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
	memcpy(slot->command, text, sizeof(text));
}

struct child_failure {
	int error;
	int in_chdir;
};

static void reset_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void run_child(const struct link_start *start, char *directory, char **arguments,
	char **variables, const int fds[STREAMS], int report_fd)
{
	struct child_failure failure = {0};

	reset_signals();
	setsid();
	for (int i = 0; i < STREAMS; i++)
		dup2(fds[i], i);
	if (start->tty)
		ioctl(0, TIOCSCTTY, 0);
	umask(start->umask);
	environ = variables;
	if (chdir(directory) < 0)
		failure.in_chdir = 1;
	else
		execvp(arguments[0], arguments);
	failure.error = errno;
	(void)write_all(report_fd, &failure, sizeof(failure)); /* nobody else to tell */
	_exit(127);
}

/* Both ends of the three streams; ours are non-blocking. */
static int open_streams(struct command *c, const struct link_start *start, int ret_child[STREAMS])
{
	int fds[2];

	c->in_fd = c->out_fd[STREAM_OUT] = c->out_fd[STREAM_ERR] = -1;
	if (start->tty) {
		struct winsize size = {.ws_row = start->size.rows, .ws_col = start->size.columns};
		int master, terminal;

		if (openpty(&master, &terminal, NULL, NULL, &size) < 0)
			return -1;
		fcntl(master, F_SETFD, FD_CLOEXEC);
		fcntl(master, F_SETFL, O_NONBLOCK);
		c->in_fd = master;
		c->out_fd[STREAM_OUT] = fcntl(master, F_DUPFD_CLOEXEC, 3);
		ret_child[0] = ret_child[1] = ret_child[2] = terminal;
		fcntl(terminal, F_SETFD, FD_CLOEXEC);
		return 0;
	}
	for (int i = 0; i < STREAMS; i++) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return -1;
		int ours = i == STREAM_IN;
		ret_child[i] = fds[!ours];
		fcntl(fds[ours], F_SETFL, O_NONBLOCK);
		*(ours ? &c->in_fd : &c->out_fd[i]) = fds[ours];
	}
	return 0;
}

static int spawn(struct command *c, const struct link_start *start, char *directory,
	char **arguments, char **variables)
{
	int child_fds[STREAMS], report[2];
	struct child_failure failure;

	if (open_streams(c, start, child_fds) < 0 || pipe2(report, O_CLOEXEC) < 0) {
		send_failure(&c->link, 125, "cannot open the streams: %s", strerror(errno));
		return -1;
	}
	c->pid = fork();
	if (c->pid < 0) {
		send_failure(&c->link, 125, "cannot fork inside: %s", strerror(errno));
		return -1;
	}
	if (c->pid == 0)
		run_child(start, directory, arguments, variables, child_fds, report[1]);
	close(report[1]);
	for (int i = 0; i < (start->tty ? 1 : STREAMS); i++)
		close(child_fds[i]);

	bool failed = read_all(report[0], &failure, sizeof(failure)) == 0;
	close(report[0]);
	if (failed && failure.in_chdir) {
		send_failure(&c->link, 125,
			"the directory %s cannot be entered inside: %s; it was made after the "
			"boot, or is temporary here: give it with --share",
			directory, strerror(failure.error));
		return -1;
	}
	if (failed) {
		send_failure(&c->link, failure.error == ENOENT ? 127 : 126, "%s: %s", arguments[0],
			failure.error == ENOENT ? "command not found" : strerror(failure.error));
		return -1;
	}
	c->tty = start->tty;
	c->pid_fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	return c->pid_fd < 0 ? -1 : 0;
}

static int start_command(struct command *c, struct slot *slot)
{
	struct frame f;
	struct link_start start;

	if (read_all(c->link.fd, &f, sizeof(f)) < 0 || f.type != FRAME_START ||
		f.length < sizeof(start) || f.length > LINK_START_MAX)
		return -1;
	char *payload = malloc(f.length);
	if (!payload || read_all(c->link.fd, payload, f.length) < 0)
		return -1;
	memcpy(&start, payload, sizeof(start));

	char *position = payload + sizeof(start), *end = payload + f.length;
	char **directory = take_strings(&position, end, 1);
	char **arguments = take_strings(&position, end, start.arguments);
	char **variables = take_strings(&position, end, start.variables);
	if (!directory || !arguments || !arguments[0] || !variables)
		return -1;
	describe(slot, arguments);
	/* execvp() looks in the PATH of this process */
	for (char **v = variables; *v; v++)
		if (strncmp(*v, "PATH=", 5) == 0)
			putenv(*v);
	return spawn(c, &start, directory[0], arguments, variables);
}

static void signal_command(struct command *c, int number)
{
	/* once the leader was waited for, the number may be another group's */
	if (c->exited || number <= 0 || number >= NSIG)
		return;
	/* what ends a command ends all of it; the rest has a meaning for one program only */
	bool for_leader = number == SIGUSR1 || number == SIGUSR2;
	kill(for_leader ? c->pid : -c->pid, number);
}

static int handle_frame(struct command *c, const struct frame *f, const uint8_t *payload)
{
	int32_t number;
	struct link_size size;

	switch (f->type) {
	case FRAME_DATA:
		c->in_ended = true;
		return 0;
	case FRAME_CLOSED:
		if (f->stream != STREAM_IN && c->out_fd[f->stream] >= 0) {
			close(c->out_fd[f->stream]);
			c->out_fd[f->stream] = -1;
		}
		return 0;
	case FRAME_SIGNAL:
		if (f->length != sizeof(number))
			return -1;
		memcpy(&number, payload, sizeof(number));
		signal_command(c, number);
		return 0;
	case FRAME_RESIZE:
		if (f->length != sizeof(size))
			return -1;
		memcpy(&size, payload, sizeof(size));
		if (c->tty && c->in_fd >= 0) {
			struct winsize w = {.ws_row = size.rows, .ws_col = size.columns};
			ioctl(c->in_fd, TIOCSWINSZ, &w);
		}
		return 0;
	default:
		return -1;
	}
}

static void deliver_input(struct command *c)
{
	struct buffer *pending = &c->link.pending[STREAM_IN];

	if (c->in_fd >= 0 && pending->length) {
		ssize_t n = write(c->in_fd, pending->data + pending->start, pending->length);
		if (n > 0) {
			buffer_consume(pending, n);
			link_delivered(&c->link, STREAM_IN, n);
		} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
			close(c->in_fd);
			c->in_fd = -1;
			link_send(&c->link, FRAME_CLOSED, STREAM_IN, NULL, 0);
		}
	}
	if (c->in_fd < 0) {
		buffer_consume(pending, pending->length);
	} else if (c->in_ended && !pending->length) {
		c->in_ended = false;
		if (c->tty) {
			(void)!write(c->in_fd, "\004", 1); /* as a person would end the input */
		} else {
			close(c->in_fd);
			c->in_fd = -1;
		}
	}
}

static bool wants_output(const struct command *c, int stream)
{
	return c->out_fd[stream] >= 0 && c->link.window[stream] && link_has_room(&c->link);
}

/* True when there may be more to read at once. */
static bool collect_output(struct command *c, int stream)
{
	uint8_t data[LINK_PAYLOAD_MAX];
	size_t length = c->link.window[stream];

	if (!wants_output(c, stream))
		return false;
	if (length > sizeof(data))
		length = sizeof(data);
	ssize_t n = read(c->out_fd[stream], data, length);
	if (n > 0) {
		c->link.window[stream] -= n;
		link_send(&c->link, FRAME_DATA, stream, data, n);
		return true;
	}
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN && !c->exited)
		return false;
	/* the end; or the command has ended and only others hold the pipe */
	close(c->out_fd[stream]);
	c->out_fd[stream] = -1;
	link_send(&c->link, FRAME_DATA, stream, NULL, 0);
	return false;
}

static void collect_exit(struct command *c)
{
	siginfo_t info = {0};

	if (waitid(P_PID, c->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
		return;
	if (c->kill_at_ms)
		signal_command(c, SIGKILL); /* the rest of the group, while the number is ours */
	waitpid(c->pid, NULL, 0);
	c->exited = true;
	c->status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

static void break_connection(struct command *c)
{
	if (c->kill_at_ms)
		return;
	c->kill_at_ms = now_ms() + KILL_AFTER_MS;
	signal_command(c, SIGHUP);
	signal_command(c, SIGTERM);
	signal_command(c, SIGCONT);
	for (int i = STREAM_OUT; i <= STREAM_ERR; i++) {
		if (c->out_fd[i] >= 0)
			close(c->out_fd[i]);
		c->out_fd[i] = -1;
	}
	if (c->in_fd >= 0)
		close(c->in_fd);
	c->in_fd = -1;
}

static void read_connection(struct command *c)
{
	struct frame f;
	const uint8_t *payload;
	int r;

	if (link_receive(&c->link) < 0) {
		break_connection(c);
		return;
	}
	while ((r = link_next(&c->link, &f, &payload)) > 0)
		if (handle_frame(c, &f, payload) < 0) {
			r = -1;
			break;
		}
	if (r < 0)
		break_connection(c);
}

/* One turn of the loop while the command or its output lasts. */
static void serve_once(struct command *c)
{
	struct link *l = &c->link;
	bool broken = c->kill_at_ms != 0;
	int timeout = -1;
	struct pollfd fds[5] = {
		{.fd = broken ? -1 : l->fd, .events = POLLIN | (l->out.length ? POLLOUT : 0)},
		{.fd = c->exited ? -1 : c->pid_fd, .events = POLLIN},
		{.fd = l->pending[STREAM_IN].length ? c->in_fd : -1, .events = POLLOUT},
		{.fd = wants_output(c, STREAM_OUT) ? c->out_fd[STREAM_OUT] : -1, .events = POLLIN},
		{.fd = wants_output(c, STREAM_ERR) ? c->out_fd[STREAM_ERR] : -1, .events = POLLIN},
	};

	if (broken) {
		int64_t left = c->kill_at_ms - now_ms();
		timeout = left > 0 ? (int)left : 0;
	}
	if (c->exited && (fds[3].fd >= 0 || fds[4].fd >= 0))
		timeout = 0;
	if (poll(fds, 5, timeout) < 0)
		return;
	if (fds[0].revents)
		read_connection(c);
	if (fds[1].revents)
		collect_exit(c);
	deliver_input(c);
	for (int i = STREAM_OUT; i <= STREAM_ERR; i++)
		if (fds[2 + i].revents || c->exited)
			collect_output(c, i);
	if (broken && now_ms() >= c->kill_at_ms)
		signal_command(c, SIGKILL);
	if (!c->kill_at_ms && link_flush(l) < 0)
		break_connection(c);
}

/* Sends what is left, then waits for the other end to close, so that nothing is cut off. */
static void finish(struct link *l)
{
	char byte;

	fcntl(l->fd, F_SETFL, 0);
	(void)link_flush(l); /* broken or not: this is the end */
	shutdown(l->fd, SHUT_WR);
	while (read(l->fd, &byte, 1) > 0)
		;
}

static void serve_command(int fd, struct slot *slot)
{
	struct command c = {.pid = -1, .in_fd = -1, .out_fd = {-1, -1, -1}};

	link_init(&c.link, fd);
	fcntl(fd, F_SETFL, 0);
	int r = start_command(&c, slot);
	alarm(0);
	if (r < 0) {
		finish(&c.link);
		return;
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	link_send(&c.link, FRAME_STARTED, 0, NULL, 0);
	(void)link_flush(&c.link); /* the loop finds out */
	while (!c.exited || c.out_fd[STREAM_OUT] >= 0 || c.out_fd[STREAM_ERR] >= 0)
		serve_once(&c);
	if (c.kill_at_ms)
		return;
	int32_t status = c.status;
	link_send(&c.link, FRAME_EXIT, 0, &status, sizeof(status));
	finish(&c.link);
}

/* ---- the other kinds of connection ---- */

static int dial(uint32_t port)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&v4, sizeof(v4)) == 0)
		return fd;
	close(fd);
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&v6, sizeof(v6)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void serve_dial(int fd, uint32_t port)
{
	int on = 1, target = dial(port);
	uint8_t dialled = target < 0 ? LINK_REFUSED : LINK_CONNECTED;

	if (send(fd, &dialled, 1, MSG_NOSIGNAL) != 1 || target < 0)
		return;
	setsockopt(target, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	alarm(0);
	relay(fd, target);
}

static void serve_status(int fd)
{
	dprintf(fd, "up %lld s, %d connections\n", (long long)(now_s() - started_at),
		active_connections());
	for (int i = 0; i < CONNECTIONS_MAX; i++)
		if (slots[i].pid && slots[i].kind == LINK_EXEC)
			dprintf(fd, "running for %lld s: %s\n",
				(long long)(now_s() - slots[i].since), slots[i].command);
}

static void serve_stop(int fd, bool only_when_idle)
{
	if (only_when_idle && active_connections()) {
		dprintf(fd, "busy\n");
		return;
	}
	dprintf(fd, "stopping\n");
	shutdown(fd, SHUT_WR);
	kill(1, SIGTERM);
}

static bool same_token(const char *other)
{
	unsigned difference = 0;

	for (int i = 0; i < LINK_TOKEN_SIZE; i++)
		difference |= (unsigned char)(token[i] ^ other[i]);
	return difference == 0;
}

static void serve_connection(int fd, struct slot *slot)
{
	struct link_hello hello;
	sigset_t none;
	int on = 1;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_IGN);
	alarm(HELLO_TIMEOUT_S);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (read_all(fd, &hello, sizeof(hello)) < 0 || !same_token(hello.token))
		return;
	slot->kind = hello.kind;
	if (hello.kind == LINK_EXEC)
		serve_command(fd, slot);
	else if (hello.kind == LINK_DIAL)
		serve_dial(fd, hello.value);
	else if (hello.kind == LINK_STATUS)
		serve_status(fd);
	else if (hello.kind == LINK_STOP)
		serve_stop(fd, hello.value);
}

/* ---- process 1 ---- */

static void accept_connection(int listen_fd)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	struct slot *slot = NULL;

	if (fd < 0)
		return;
	for (int i = 0; i < CONNECTIONS_MAX && !slot; i++)
		if (!slots[i].pid)
			slot = &slots[i];
	if (slot) {
		*slot = (struct slot){.since = now_s()};
		pid_t pid = fork();
		if (pid == 0) {
			close(listen_fd);
			serve_connection(fd, slot);
			exit(0);
		}
		slot->pid = pid > 0 ? pid : 0;
	}
	close(fd);
}

/* True when a command or forwarded connection was among the dead. */
static bool collect_dead(void)
{
	bool was_active = false;
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (int i = 0; i < CONNECTIONS_MAX; i++)
			if (slots[i].pid == pid) {
				was_active |=
					slots[i].kind == LINK_EXEC || slots[i].kind == LINK_DIAL;
				slots[i].pid = 0;
			}
	return was_active;
}

static void power_off(void)
{
	int64_t deadline = now_ms() + STOP_GRACE_MS;

	kill(-1, SIGCONT);
	kill(-1, SIGTERM);
	while (now_ms() < deadline && (waitpid(-1, NULL, WNOHANG) >= 0 || errno == EINTR))
		usleep(5000);
	kill(-1, SIGKILL);
	sync();
	reboot(RB_POWER_OFF);
	exit(0); /* panics, and so ends the machine as well */
}

static int listen_on_guest_port(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(LINK_GUEST_PORT),
		.sin_addr.s_addr = inet_addr("10.0.2.15"),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(fd, 512) < 0)
		die("listen");
	return fd;
}

static void setup(void)
{
	struct rlimit files = {.rlim_cur = 1024, .rlim_max = OPEN_FILES};
	int fd = open(TOKEN_FILE, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read_all(fd, token, sizeof(token)) < 0)
		die(TOKEN_FILE);
	close(fd);
	setrlimit(RLIMIT_NOFILE, &files);
	slots = mmap(NULL, CONNECTIONS_MAX * sizeof(*slots), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (slots == MAP_FAILED)
		die("mmap");
	started_at = now_s();
}

/* Keeps one VM with a local APIC and a vCPU that never runs. The kernel patches branches in its own
 * code when the first of those appears and when the last one goes; QEMU's translator now and then
 * goes on with the breakpoint that stood there meanwhile, and both CPUs loop for ever. With one VM
 * always there, nothing is patched any more. Failing is no reason not to start. */
static void keep_a_vm(void)
{
	struct kvm_enable_cap split = {.cap = KVM_CAP_SPLIT_IRQCHIP, .args = {24}};
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int vm = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);

	if (vm < 0 || ioctl(vm, KVM_ENABLE_CAP, &split) < 0 || ioctl(vm, KVM_CREATE_VCPU, 0) < 0)
		printf("kvmhost: no VM to keep: %s\n", strerror(errno));
}

int main(int argc, char **argv)
{
	time_t idle_limit = argc > 1 ? atoi(argv[1]) : 900;
	sigset_t signals;

	setup();
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	int listen_fd = listen_on_guest_port();
	if (signal_fd < 0)
		die("signalfd");
	keep_a_vm();
	printf("kvmhost: ready\n");
	fflush(stdout);

	time_t last_active = now_s();
	for (;;) {
		struct pollfd fds[2] = {
			{.fd = listen_fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
		time_t left = last_active + idle_limit - now_s();
		bool active = active_connections() > 0;
		struct signalfd_siginfo info;

		if (!active && left <= 0)
			power_off();
		(void)poll(fds, 2, active ? -1 : (int)left * 1000); /* EINTR: another turn */
		while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
			if (info.ssi_signo == SIGTERM)
				power_off();
		if (collect_dead())
			last_active = now_s();
		if (fds[0].revents)
			accept_connection(listen_fd);
	}
}
