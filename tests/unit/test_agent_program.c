/* src/agent/net/net_program: which program has a connection. */
#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/net/net_program.h"

#define NAME "fetch\\ \x01\xff)" /* or whatever a program likes */

/* A network of this process, as a guest has one. */
static void make_network(void)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		skip(); /* needs root */
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
	(void)close(fd);
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(port)};
}

static struct sockaddr_in6 mapped(const struct sockaddr_in *a)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = a->sin_port};

	six.sin6_addr.s6_addr[10] = six.sin6_addr.s6_addr[11] = 0xff;
	memcpy(six.sin6_addr.s6_addr + 12, &a->sin_addr, sizeof(a->sin_addr));
	return six;
}

/* A child connects, by a socket of this family, tells from where, and waits. */
static pid_t connect_in_child(const struct sockaddr_in *to, int family, uint16_t *ret_port)
{
	const struct sockaddr_in6 six = mapped(to);
	const void *address = family == AF_INET ? (const void *)to : &six;
	socklen_t n = family == AF_INET ? sizeof(*to) : sizeof(six);
	int pipe_fds[2];
	pid_t pid;

	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	if (pid == 0) {
		struct sockaddr_in6 own;
		socklen_t own_bytes = sizeof(own);
		int fd = socket(family, SOCK_STREAM, 0);

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)prctl(PR_SET_NAME, NAME);
		if (connect(fd, address, n) < 0 ||
			getsockname(fd, (struct sockaddr *)&own, &own_bytes) < 0 ||
			write(pipe_fds[1], &own.sin6_port, 2) != 2) /* where IPv4 has it, too */
			_exit(1);
		(void)pause();
		_exit(0);
	}
	(void)close(pipe_fds[1]);
	assert_true(pid > 0);
	assert_int_equal(read(pipe_fds[0], ret_port, 2), 2);
	(void)close(pipe_fds[0]);
	return pid;
}

/* In a network of its own. *to gets the port. */
static int listen_alone(struct sockaddr_in *to)
{
	socklen_t n = sizeof(*to);
	int listener;

	make_network();
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)to, n), 0);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)to, &n), 0);
	return listener;
}

static void find_child(int family)
{
	struct sockaddr_in to = loopback(0), from;
	struct egress_open open = {.kind = EGRESS_TCP};
	uint16_t port;
	int listener;
	pid_t pid;

	listener = listen_alone(&to);
	pid = connect_in_child(&to, family, &port);
	from = loopback(ntohs(port));
	net_program_find(&from, &to, &open);
	assert_int_equal(open.pid, pid);
	assert_string_equal(open.name, NAME);

	/* the other end has another socket, which nobody has accepted yet */
	open = (struct egress_open){.pid = 7};
	net_program_find(&to, &from, &open);
	assert_int_equal(open.pid, 7);
	assert_string_equal(open.name, "");

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	net_program_find(&from, &to, &open); /* nobody's any more */
	assert_int_equal(open.pid, 7);
	(void)close(listener);
}

static void finds_the_program(void **state)
{
	find_child(AF_INET);
}

/* Newer processes are looked at first. */
static void a_process_with_many_descriptors_hides_no_other(void **state)
{
	struct sockaddr_in to = loopback(0);
	struct egress_open open = {.kind = EGRESS_TCP};
	struct sockaddr_in from;
	int listener, ready[2];
	uint16_t port;
	pid_t pid, greedy;
	char c;

	listener = listen_alone(&to);
	pid = connect_in_child(&to, AF_INET, &port);
	from = loopback(ntohs(port));
	assert_int_equal(pipe(ready), 0);
	greedy = fork();
	if (greedy == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned i = 0; i < 1100; i++)
			(void)fcntl(listener, F_DUPFD, 0); /* as many as it may have */
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		(void)pause();
		_exit(0);
	}
	assert_true(greedy > 0);
	assert_int_equal(read(ready[0], &c, 1), 1);
	net_program_find(&from, &to, &open);
	assert_int_equal(open.pid, pid);
	assert_int_equal(kill(greedy, SIGKILL), 0);
	assert_int_equal(waitpid(greedy, NULL, 0), greedy);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(listener);
	(void)close(ready[0]);
	(void)close(ready[1]);
}

static void finds_the_program_of_a_mapped_address(void **state)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		skip(); /* without IPv6 */
	(void)close(fd);
	find_child(AF_INET6);
}

/* A process table of its own, as a guest has one: other programs here may have newer processes with
 * many descriptors. Without the rights for it, that is a chance to take. */
static bool make_process_table(void)
{
	return unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static int status_of(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int run_all(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_program),
		cmocka_unit_test(a_process_with_many_descriptors_hides_no_other),
		cmocka_unit_test(finds_the_program_of_a_mapped_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The first process of the table only waits, as its parent does. LeakSanitizer can look into
 * neither: its own process would be one of the table. */
static void be_first(void)
{
	pid_t pid;

	if (mount("proc", "/proc", "proc", 0, NULL) < 0)
		_exit(1);
	pid = fork();
	if (pid != 0)
		_exit(status_of(pid));
}

int main(void)
{
	pid_t pid;

	if (!make_process_table())
		return run_all();
	pid = fork();
	if (pid != 0)
		_exit(status_of(pid));
	be_first();
	return run_all();
}
