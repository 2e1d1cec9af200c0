/*
 * The outer end of the emulated host's command channel (protocol: link.h), and two helpers.
 *
 *   kvmexec run ENDPOINT [--tty] [--forward PORT]... [--env NAME]... -- KVMHOST ARG... --
 * COMMAND... kvmexec status ENDPOINT kvmexec stop ENDPOINT [idle] kvmexec listen SOCKET COMMAND...
 * run COMMAND with a listening Unix socket as descriptor 3 kvmexec monitor SOCKET COMMAND     one
 * command to QEMU's monitor
 *
 * ENDPOINT is a file with the port and the token of the machine. `run` gets the whole original
 * command line of kvmhost: when the machine goes away before the command was started (it stopped
 * because it was idle), kvmhost is executed once more, and boots another one.
 *
 * Descriptors 0 to 2 may be shared with other processes, so they never become non-blocking: they
 * are polled, and pipes and terminals are written in pieces that a ready pipe takes whole.
 */
#define _GNU_SOURCE
#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define FORWARDS_MAX	 64
#define DIALS_MAX	 5
#define NAMES_MAX	 64
#define PIPE_PIECE	 4096
#define RETRIES_MAX	 3
#define REPLY_MAX	 65536
#define ANSWER_TIMEOUT_S 8

struct endpoint {
	uint16_t port;
	char token[LINK_TOKEN_SIZE];
};

struct run {
	struct endpoint endpoint;
	struct link link;
	char **again; /* kvmhost and its arguments */
	char **command;
	bool tty;
	bool started;
	int ends_asked;		  /* signals that should end the command */
	bool in_ended;		  /* nothing more is sent */
	bool out_closed[STREAMS]; /* nobody reads ours */
	bool regular[STREAMS];
	int forwards[FORWARDS_MAX]; /* listening sockets */
	pid_t forwarders[FORWARDS_MAX];
	int forward_count;
	const char *names[NAMES_MAX];
	int name_count;
};

static int signal_pipe[2];
static struct termios saved_terminal;
static bool terminal_changed;

static void restore_terminal(void)
{
	if (terminal_changed)
		tcsetattr(0, TCSADRAIN, &saved_terminal);
	terminal_changed = false;
}

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
	va_list args;

	restore_terminal();
	va_start(args, format);
	fputs("kvmhost: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(125);
}

static int read_endpoint(const char *path, struct endpoint *ret)
{
	unsigned port;
	char token[LINK_TOKEN_SIZE + 1];
	FILE *f = fopen(path, "re");

	if (!f)
		return -1;
	int n = fscanf(f, "%u %32s", &port, token);
	fclose(f);
	if (n != 2 || !port || port > 65535 || strlen(token) != LINK_TOKEN_SIZE)
		return -1;
	ret->port = port;
	memcpy(ret->token, token, LINK_TOKEN_SIZE);
	return 0;
}

static int connect_endpoint(const struct endpoint *e, enum link_kind kind, uint32_t value)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(e->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct link_hello hello = {.kind = kind, .value = value};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(hello.token, e->token, sizeof(hello.token));
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
		close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

/* ---- forwarded ports ---- */

static int listen_on(const char *text)
{
	char *end;
	unsigned long port = strtoul(text, &end, 10);
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (*end || !port || port > 65535)
		fail("--forward %s: not a port number", text);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(fd, 512) < 0)
		fail("--forward %s: cannot listen there (%s); choose a free port", text,
			strerror(errno));
	return fd;
}

static int dial_once(const struct run *r, uint16_t port, uint8_t *ret_dialled)
{
	int fd = connect_endpoint(&r->endpoint, LINK_DIAL, port);

	if (fd < 0 || recv(fd, ret_dialled, 1, 0) == 1)
		return fd;
	close(fd);
	return -1;
}

/* QEMU's listener has a backlog of one, and of connections that are opened in a burst some are
 * reset. So they take turns; what another kvmhost's call broke is tried again. Nothing of the
 * client's was sent yet. */
static int dial(const struct run *r, uint16_t port, int turn_fd)
{
	uint8_t dialled = 0;
	int fd = -1;

	(void)lockf(turn_fd, F_LOCK, 0); /* cannot fail; ends with the process */
	for (int i = 0; !dialled && i < DIALS_MAX; i++)
		fd = dial_once(r, port, &dialled);
	(void)lockf(turn_fd, F_ULOCK, 0);
	return dialled == LINK_CONNECTED ? fd : -1;
}

static void forward_connection(const struct run *r, int fd, uint16_t port, int turn_fd)
{
	int on = 1, target = dial(r, port, turn_fd);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (target >= 0)
		relay(fd, target);
	else
		close_with_reset(fd);
}

static void die_with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

static int forwarder_fd;

static void on_forwarder_end(int number)
{
	(void)number;
	close(forwarder_fd);
	alarm(1); /* for what is still on its way to the clients */
}

/* A process per port, and one per connection; all end with their parents. */
__attribute__((noreturn)) static void run_forwarder(const struct run *r, int listen_fd)
{
	struct sockaddr_in address;
	socklen_t length = sizeof(address);
	int null = open("/dev/null", O_RDWR), turn_fd = memfd_create("turn", MFD_CLOEXEC);
	pid_t self = getpid();

	for (int i = 0; i < 3; i++)
		dup2(null, i);
	signal(SIGCHLD, SIG_IGN);
	forwarder_fd = listen_fd;
	signal(SIGTERM, on_forwarder_end);
	getsockname(listen_fd, (struct sockaddr *)&address, &length);
	for (;;) {
		int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0 && errno == EBADF)
			break;
		if (fd < 0) {
			usleep(1000); /* out of descriptors, or the client has gone */
			continue;
		}
		pid_t pid = fork();
		if (pid == 0) {
			signal(SIGTERM, SIG_DFL);
			die_with_parent(self);
			close(listen_fd);
			forward_connection(r, fd, ntohs(address.sin_port), turn_fd);
			_exit(0);
		}
		close(fd);
	}
	(void)wait(NULL); /* returns when the last child has ended, for want of children */
	_exit(0);
}

static void start_forwarders(struct run *r)
{
	pid_t self = getpid();

	for (int i = 0; i < r->forward_count; i++) {
		r->forwarders[i] = fork();
		if (r->forwarders[i] < 0)
			fail("cannot fork: %s", strerror(errno));
		if (r->forwarders[i] == 0) {
			die_with_parent(self);
			setpgid(0,
				0); /* Ctrl-C is for the command, which may still want to answer */
			run_forwarder(r, r->forwards[i]);
		}
		close(r->forwards[i]);
	}
}

static void stop_forwarders(struct run *r)
{
	for (int i = 0; i < r->forward_count; i++)
		if (r->forwarders[i] > 0) {
			kill(r->forwarders[i], SIGTERM);
			waitpid(r->forwarders[i], NULL, 0);
		}
}

/* ---- starting a command ---- */

static bool allowed_variable(const struct run *r, const char *variable)
{
	static const char *const names[] = {"PATH", "HOME", "LANG", "TERM", "CI"};
	static const char *const prefixes[] = {"MAYFLY_", "TEST_"};
	size_t length = strcspn(variable, "=");

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == length && !strncmp(variable, names[i], length))
			return true;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
			return true;
	for (int i = 0; i < r->name_count; i++)
		if (strlen(r->names[i]) == length && !strncmp(variable, r->names[i], length))
			return true;
	return false;
}

static struct link_size terminal_size(void)
{
	struct winsize w = {.ws_row = 24, .ws_col = 80};

	if (ioctl(0, TIOCGWINSZ, &w) < 0)
		(void)ioctl(1, TIOCGWINSZ, &w); /* else the usual size */
	return (struct link_size){.rows = w.ws_row, .columns = w.ws_col};
}

static void append_string(struct buffer *b, const char *string)
{
	if (strlen(string) + 1 > buffer_room(b))
		fail("the command line is too long (the limit is %d MiB)", LINK_START_MAX >> 20);
	buffer_append(b, string, strlen(string) + 1);
}

__attribute__((noreturn)) static void lost_before_start(struct run *r);

static void send_start(struct run *r)
{
	struct link_start start = {.tty = r->tty, .size = terminal_size()};
	struct buffer b;
	char *directory = getcwd(NULL, 0);

	start.umask = umask(022);
	umask(start.umask);
	if (!directory)
		fail("the current directory has gone; cd to one that exists");
	buffer_init(&b, LINK_START_MAX);
	buffer_append(&b, &start, sizeof(start));
	append_string(&b, directory);
	for (char **a = r->command; *a; a++, start.arguments++)
		append_string(&b, *a);
	for (char **v = environ; *v; v++)
		if (allowed_variable(r, *v)) {
			append_string(&b, *v);
			start.variables++;
		}
	memcpy(b.data, &start, sizeof(start));

	struct frame f = {.type = FRAME_START, .length = b.length};
	if (write_all(r->link.fd, &f, sizeof(f)) < 0 || write_all(r->link.fd, b.data, b.length) < 0)
		lost_before_start(r);
	free(b.data);
	free(directory);
}

/* The machine went away; a new one may be booted, because the command did not run. */
static void lost_before_start(struct run *r)
{
	const char *text = getenv("KVMHOST_RETRY");
	int retries = text ? atoi(text) : 0;
	char number[16];

	if (retries >= RETRIES_MAX)
		fail("the emulated host does not answer; run tools/kvmhost --stop and try again");
	snprintf(number, sizeof(number), "%d", retries + 1);
	setenv("KVMHOST_RETRY", number, 1);
	for (int i = 0; i < r->forward_count; i++)
		close(r->forwards[i]);
	usleep(200000);
	execv(r->again[0], r->again);
	fail("%s: %s", r->again[0], strerror(errno));
}

static void on_signal(int number)
{
	int saved = errno;
	unsigned char byte = number;

	(void)!write(signal_pipe[1], &byte, 1); /* full: there are enough of them */
	errno = saved;
}

static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

	if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
		fail("cannot make a pipe: %s", strerror(errno));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		struct sigaction old, action = {.sa_handler = on_signal};

		sigaction(numbers[i], NULL, &old);
		if (old.sa_handler != SIG_IGN) /* as nohup leaves it */
			sigaction(numbers[i], &action, NULL);
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTTIN, SIG_IGN); /* in the background, the terminal's input counts as ended */
	signal(SIGCHLD, SIG_DFL);
}

static void set_raw_terminal(void)
{
	struct termios raw;

	if (tcgetattr(0, &saved_terminal) < 0)
		return;
	raw = saved_terminal;
	cfmakeraw(&raw);
	terminal_changed = tcsetattr(0, TCSADRAIN, &raw) == 0;
}

/* ---- moving bytes ---- */

static void send_signals(struct run *r)
{
	unsigned char number;

	while (read(signal_pipe[0], &number, 1) == 1) {
		int32_t value = number;
		struct link_size size = terminal_size();

		/* a machine that hangs must not hold the caller */
		r->ends_asked += number == SIGINT || number == SIGTERM || number == SIGHUP;
		if (r->ends_asked > (r->started ? 2 : 0)) {
			restore_terminal();
			stop_forwarders(r);
			exit(128 + number);
		}
		if (!link_has_room(&r->link))
			continue;
		if (number == SIGWINCH && r->tty)
			link_send(&r->link, FRAME_RESIZE, 0, &size, sizeof(size));
		else if (number != SIGWINCH)
			link_send(&r->link, FRAME_SIGNAL, 0, &value, sizeof(value));
	}
}

static bool wants_input(const struct run *r)
{
	return r->started && !r->in_ended && r->link.window[STREAM_IN] && link_has_room(&r->link);
}

static void send_input(struct run *r)
{
	uint8_t data[LINK_PAYLOAD_MAX];
	size_t length = r->link.window[STREAM_IN];

	if (!wants_input(r))
		return;
	ssize_t n = read(0, data, length < sizeof(data) ? length : sizeof(data));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		n = 0;
		r->in_ended = true;
	}
	r->link.window[STREAM_IN] -= n;
	link_send(&r->link, FRAME_DATA, STREAM_IN, data, n);
}

static void close_output(struct run *r, int stream)
{
	struct buffer *pending = &r->link.pending[stream];

	r->out_closed[stream] = true;
	buffer_consume(pending, pending->length);
	link_send(&r->link, FRAME_CLOSED, stream, NULL, 0);
}

static void write_output(struct run *r, int stream)
{
	struct buffer *pending = &r->link.pending[stream];
	size_t length = pending->length;

	if (!r->regular[stream] && length > PIPE_PIECE)
		length = PIPE_PIECE;
	ssize_t n = write(stream, pending->data + pending->start, length);
	if (n > 0) {
		buffer_consume(pending, n);
		link_delivered(&r->link, stream, n);
	} else if (n < 0 && errno != EINTR && errno != EAGAIN) {
		close_output(r, stream);
	}
}

static void write_all_output(struct run *r)
{
	for (int i = STREAM_OUT; i <= STREAM_ERR; i++) {
		struct buffer *pending = &r->link.pending[i];

		if (!r->out_closed[i])
			(void)write_all(i, pending->data + pending->start, pending->length);
	}
}

static void end(struct run *r, const struct frame *f, const uint8_t *payload)
{
	int32_t status = 125;

	if (f->length >= sizeof(status))
		memcpy(&status, payload, sizeof(status));
	write_all_output(r);
	restore_terminal();
	if (f->type == FRAME_FAILED)
		fprintf(stderr, "kvmhost: %.*s\n", (int)(f->length - sizeof(status)),
			payload + sizeof(status));
	stop_forwarders(r);
	exit(status);
}

__attribute__((noreturn)) static void lost(struct run *r)
{
	if (!r->started)
		lost_before_start(r);
	write_all_output(r);
	stop_forwarders(r);
	fail("the emulated host went away while the command ran; its last messages are in "
	     "console.log of the cache directory");
}

static void handle_frames(struct run *r)
{
	struct frame f;
	const uint8_t *payload;
	int n;

	while ((n = link_next(&r->link, &f, &payload)) > 0) {
		switch (f.type) {
		case FRAME_STARTED:
			r->started = true;
			if (r->tty)
				set_raw_terminal();
			start_forwarders(r);
			break;
		case FRAME_FAILED:
		case FRAME_EXIT:
			end(r, &f, payload);
			break;
		case FRAME_CLOSED:
			if (f.stream == STREAM_IN)
				r->in_ended = true;
			break;
		default:
			break;
		}
	}
	if (n < 0)
		fail("the emulated host answers nonsense; run tools/kvmhost --stop");
	for (int i = STREAM_OUT; i <= STREAM_ERR; i++)
		if (r->out_closed[i])
			buffer_consume(&r->link.pending[i], r->link.pending[i].length);
}

static void run_once(struct run *r)
{
	struct link *l = &r->link;
	struct pollfd fds[5] = {
		{.fd = l->fd, .events = POLLIN | (l->out.length ? POLLOUT : 0)},
		{.fd = signal_pipe[0], .events = POLLIN},
		{.fd = wants_input(r) ? 0 : -1, .events = POLLIN},
		{.fd = l->pending[STREAM_OUT].length ? 1 : -1, .events = POLLOUT},
		{.fd = l->pending[STREAM_ERR].length ? 2 : -1, .events = POLLOUT},
	};

	if (poll(fds, 5, -1) < 0 && errno != EINTR)
		fail("poll: %s", strerror(errno));
	send_signals(r);
	if (fds[2].revents & POLLNVAL)
		r->in_ended = true;
	if (fds[2].revents)
		send_input(r);
	for (int i = STREAM_OUT; i <= STREAM_ERR; i++)
		if (fds[2 + i].revents && !r->out_closed[i] && l->pending[i].length)
			write_output(r, i);
	if (fds[0].revents) {
		if (link_receive(l) < 0)
			lost(r);
		handle_frames(r);
	}
	if (link_flush(l) < 0)
		lost(r);
}

static bool can_be_terminal(void)
{
	return isatty(0) && isatty(1) && isatty(2) && tcgetpgrp(0) == getpgrp();
}

static void parse_run(struct run *r, char **argv)
{
	for (; *argv && strcmp(*argv, "--"); argv++) {
		if (!strcmp(*argv, "--tty")) {
			r->tty = true;
		} else if (!strcmp(*argv, "--forward") && r->forward_count < FORWARDS_MAX) {
			r->forwards[r->forward_count++] = listen_on(*++argv);
		} else if (!strcmp(*argv, "--env") && r->name_count < NAMES_MAX) {
			r->names[r->name_count++] = *++argv;
		} else {
			fail("too many options, or unknown: %s", *argv);
		}
	}
	if (*argv)
		argv++;
	r->again = argv;
	while (*argv && strcmp(*argv, "--"))
		argv++;
	if (!*argv || !argv[1])
		fail("no command given");
	r->command = argv + 1;
}

__attribute__((noreturn)) static void run(const char *endpoint, char **argv)
{
	static struct run r;
	struct stat st;

	parse_run(&r, argv);
	r.tty |= can_be_terminal();
	for (int i = 0; i < STREAMS; i++)
		r.regular[i] = fstat(i, &st) == 0 && S_ISREG(st.st_mode);
	catch_signals();
	int fd = -1;
	if (read_endpoint(endpoint, &r.endpoint) == 0)
		fd = connect_endpoint(&r.endpoint, LINK_EXEC, 0);
	if (fd < 0)
		lost_before_start(&r);
	link_init(&r.link, fd);
	fcntl(fd, F_SETFL, 0);
	send_start(&r);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (;;)
		run_once(&r);
}

/* ---- the rest ---- */

static void on_alarm(int number)
{
	(void)number;
	_exit(1);
}

/* A machine that hangs is for the caller to end. */
static void limit_time(void)
{
	signal(SIGALRM, on_alarm);
	alarm(ANSWER_TIMEOUT_S);
}

static int ask(const char *path, enum link_kind kind, uint32_t value)
{
	struct endpoint e;
	char reply[4096];
	ssize_t n;
	int fd = -1, result = 1;

	if (read_endpoint(path, &e) == 0)
		fd = connect_endpoint(&e, kind, value);
	if (fd < 0)
		return 1;
	limit_time();
	while ((n = read(fd, reply, sizeof(reply))) > 0) {
		(void)write_all(1, reply, n);
		result = 0;
	}
	return result;
}

static int unix_socket(const char *path, struct sockaddr_un *ret)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (fd < 0 || strlen(path) >= sizeof(ret->sun_path))
		fail("%s: the path is too long for a socket; set XDG_RUNTIME_DIR to a shorter one",
			path);
	memcpy(ret->sun_path, path, strlen(path));
	return fd;
}

static int listen_and_execute(const char *path, char **argv)
{
	struct sockaddr_un address;
	int fd = unix_socket(path, &address);

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0)
		fail("%s: %s", path, strerror(errno));
	if (fd == 3)
		fcntl(fd, F_SETFD, 0);
	else
		dup2(fd, 3);
	execvp(argv[0], argv);
	fail("%s: %s", argv[0], strerror(errno));
}

/* Reads up to the monitor's next prompt; the text is a string in reply. */
static int read_to_prompt(int fd, char *reply)
{
	for (size_t length = 0; length < REPLY_MAX - 1;) {
		ssize_t n = read(fd, reply + length, REPLY_MAX - 1 - length);
		if (n <= 0)
			return -1;
		length += n;
		reply[length] = '\0';
		if (length >= 7 && !strcmp(reply + length - 7, "(qemu) "))
			return 0;
	}
	return -1;
}

static int monitor(const char *path, const char *command)
{
	static char reply[REPLY_MAX];
	struct sockaddr_un address;
	int fd = unix_socket(path, &address);

	limit_time();
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		read_to_prompt(fd, reply) < 0 || dprintf(fd, "%s\n", command) < 0 ||
		read_to_prompt(fd, reply) < 0)
		return 1;
	/* its echo of the command fills the first line, its prompt the last */
	char *text = strchr(reply, '\n');
	reply[strlen(reply) - strlen("(qemu) ")] = '\0';
	if (text)
		fputs(text + 1, stdout);
	return 0;
}

int main(int argc, char **argv)
{
	int null;

	do { /* a closed descriptor 0, 1 or 2 must not become a socket's */
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (null >= 0 && null <= 2 && fcntl(null, F_SETFD, 0) == 0);
	close(null);
	if (argc >= 3 && !strcmp(argv[1], "run"))
		run(argv[2], argv + 3);
	if (argc >= 3 && !strcmp(argv[1], "status"))
		return ask(argv[2], LINK_STATUS, 0);
	if (argc >= 3 && !strcmp(argv[1], "stop"))
		return ask(argv[2], LINK_STOP, argc > 3);
	if (argc >= 4 && !strcmp(argv[1], "listen"))
		return listen_and_execute(argv[2], argv + 3);
	if (argc >= 4 && !strcmp(argv[1], "monitor"))
		return monitor(argv[2], argv[3]);
	fail("kvmexec is a part of tools/kvmhost; see its --help");
}
