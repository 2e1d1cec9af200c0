/* The agent: pid 1 of every guest. It does in the guest what the host asks for.
 *
 * It has one thread and one epoll set. Slow work runs in forked helpers (helper.h). Streams advance
 * in slices while their connection has space (conn.h). Everything that can grow has a maximum.
 * Under test (--test-listen PATH) it is an ordinary process on a Unix socket, and sets no mounts,
 * clock or host name; with --test-network behind that, it sets up its network namespace. As pid 1
 * it does not accept these options. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include "agent/conn.h"
#include "agent/dispatch.h"
#include "agent/guest.h"
#include "agent/helper.h"
#include "agent/hold.h"
#include "agent/init/boot.h"
#include "agent/net/net.h"
#include "agent/net/net_setup.h"
#include "agent/process.h"
#include "agent/setup.h"

enum {
	BACKLOG =
		/* the most connections that the daemon has with its clients; the kernel may allow
		 * fewer */
	4096,
	REAPED_PER_ROUND = 256,
};

static struct source signals = {.fd = -1};
static struct timer reap_again;

/* Reaps children, a bounded number per round: they may end faster than they are reaped, and others
 * need their turn. */
static void reap(struct timer *t)
{
	struct rusage usage;
	int status;

	for (int i = 0; i < REAPED_PER_ROUND; i++) {
		pid_t pid = wait4(-1, &status, WNOHANG, &usage);

		if (pid <= 0)
			return;
		if (!process_reaped(pid, status, &usage))
			(void)helper_reaped(pid, status); /* otherwise an orphan, which needs
							   * nothing more */
	}
	timer_set(&reap_again, 0, reap);
}

static void signal_ready(struct source *s, uint32_t events)
{
	struct signalfd_siginfo info;

	if (read(s->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGCHLD) {
		reap(NULL);
	} else if (!guest.init) { /* pid 1 obeys no signals: hosts use SHUTDOWN */
		processes_kill_all();
		loop_stop();
	}
}

/* Blocks all signals for good and receives them by descriptor. Children get an empty mask. Resets
 * dispositions: inherited "ignored" ones would pass on to children. */
static int open_signals(void)
{
	sigset_t all;
	int fd;

	for (int i = 1; i < _NSIG; i++)
		(void)signal(i, SIG_DFL); /* some cannot be set, and need not be */
	(void)sigfillset(&all);		  /* cannot fail; the next likewise */
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)sigemptyset(&all);
	(void)sigaddset(&all, SIGCHLD);
	(void)sigaddset(&all, SIGTERM);
	(void)sigaddset(&all, SIGINT);
	fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	source_open(&signals, fd, signal_ready);
	return source_wait(&signals, EPOLLIN);
}

static int listen_vsock(void)
{
	struct sockaddr_vm sa = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = AGENT_PORT};
	int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return fd;
}

static int listen_unix(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return fd;
}

static int run(int listener)
{
	if (listener < 0) {
		console("cannot listen for the host: %s", strerror(-listener));
		return 1;
	}
	conn_listen(listener, guest.init, dispatch_request);
	console("%s",
		guest.state == AGENT_STATE_READY ? "ready" : "up, but the guest is not usable");
	loop_run(conns_after_round);
	return 0;
}

static int start_loop(void)
{
	int r = loop_open();

	if (r == 0)
		r = open_signals();
	if (r < 0)
		console("cannot start: %s", strerror(-r));
	return r;
}

static void __attribute__((noreturn)) main_init(void)
{
	guest.init = true;
	boot();
	setup_limits();
	guest_open();
	hold_open();
	if (start_loop() == 0) {
		net_open();
		(void)run(listen_vsock());
	}
	for (;;)
		(void)pause(); /* pid 1 must not end; the host will see that nobody answers */
}

/* network: also set up the network namespace of this process, which nobody else uses. */
static int main_test(const char *path, bool network)
{
	(void)syscall(SYS_close_range, 3, ~0U, 0); /* inherited ones would leak into children */
	(void)umask(022);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* without it, orphans are reaped elsewhere */
	guest.state = AGENT_STATE_READY;
	guest.facts = AGENT_FACT_TEST;
	setup_limits();
	guest_open();
	if (start_loop() < 0)
		return 1;
	if (network) {
		(void)net_setup_loopback(); /* without it, nothing works, and the test sees that */
		net_open();
	}
	return run(listen_unix(path));
}

int main(int argc, char **argv)
{
	if (getpid() == 1 && boot_possible())
		main_init();
	if (getpid() != 1 && argc >= 3 && strcmp(argv[1], "--test-listen") == 0)
		return main_test(argv[2], argc == 4 && strcmp(argv[3], "--test-network") == 0);
	(void)!write(STDERR_FILENO, "mayfly-agent is the init of a microVM\n", 38);
	return 2;
}
