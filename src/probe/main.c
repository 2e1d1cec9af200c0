/* mayfly-probe: tries, in a guest, what must be closed there, and prints a line for each try:
 *
 *	mayfly-probe PROBE...
 *	tcp:ADDRESS:PORT   a connection
 *	tcp6:ADDRESS:PORT  one in an IPv6 socket
 *	udp:ADDRESS:PORT   a datagram, and an answer to it
 *	dns:ADDRESS        a TXT question, and records for it
 *	vsock:CID:PORT     a stream to the host
 *	icmp:ADDRESS       an echo request
 *	self               a connection that works: what "open" looks like
 *
 *	open tcp:169.254.169.254:80 connected
 *	closed udp:203.0.113.1:7 no answer
 *
 * All run at once, each in a process, for PATIENCE_MS at most. "broken" instead of "open" or
 * "closed" says that the try itself was not possible. Run as root: raw sockets need it. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 4000, AFTER_MS = 1000, ANSWER_MAX = 1500, DNS_HEAD = 12 };

struct probe {
	const char *text; /* as it was given */
	struct sockaddr_storage to;
	socklen_t length;
};

static _Noreturn void tell(const struct probe *p, const char *verdict, const char *how)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "%s %s %s\n", verdict, p->text, how);

	_exit(write(STDOUT_FILENO, line, (size_t)n) != n); /* one write: lines do not mix */
}

static bool wait_for(int fd, short events, int ms)
{
	struct pollfd f = {.fd = fd, .events = events};

	return poll(&f, 1, ms) > 0;
}

static int open_socket(const struct probe *p, int family, int type, int protocol)
{
	int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		tell(p, errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT ? "closed" : "broken",
			strerror(errno));
	return fd;
}

/* A connection that is accepted and reset at once was not made: guests without some of the kernel's
 * modules see that (docs/network.md). */
static void try_stream(const struct probe *p, int family)
{
	int fd = open_socket(p, family, SOCK_STREAM, 0), err = 0;
	socklen_t n = sizeof(err);
	char byte;

	if (connect(fd, (const struct sockaddr *)&p->to, p->length) < 0 && errno != EINPROGRESS)
		tell(p, "closed", strerror(errno));
	if (!wait_for(fd, POLLOUT, PATIENCE_MS))
		tell(p, "closed", "no answer");
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0 || err)
		tell(p, "closed", strerror(err));
	if (wait_for(fd, POLLIN, AFTER_MS) && recv(fd, &byte, 1, 0) <= 0)
		tell(p, "closed", "reset at once");
	tell(p, "open", "connected");
}

static ssize_t ask(const struct probe *p, int fd, const void *data, size_t n, uint8_t *answer)
{
	ssize_t got;

	if (connect(fd, (const struct sockaddr *)&p->to, p->length) < 0 || send(fd, data, n, 0) < 0)
		tell(p, "closed", strerror(errno));
	if (!wait_for(fd, POLLIN, PATIENCE_MS))
		tell(p, "closed", "no answer");
	got = recv(fd, answer, ANSWER_MAX, 0);
	if (got < 0)
		tell(p, "closed", strerror(errno));
	return got;
}

static void try_datagram(const struct probe *p)
{
	int fd = open_socket(p, AF_INET, SOCK_DGRAM, 0);
	uint8_t answer[ANSWER_MAX];

	(void)ask(p, fd, "probe", 5, answer); /* ends unless one comes */
	tell(p, "open", "an answer came");
}

/* Whoever is asked, the worker answers, and has no text for anybody. */
static void try_dns(const struct probe *p)
{
	static const uint8_t question[] = "\x6d\x66\1\0\0\1\0\0\0\0\0\0\5probe\7example\0\0\x10\0";
	int fd = open_socket(p, AF_INET, SOCK_DGRAM, 0);
	uint8_t answer[ANSWER_MAX];
	ssize_t n = ask(p, fd, question, sizeof(question), answer);

	if (n < DNS_HEAD || answer[6] || answer[7])
		tell(p, "open", "somebody answers with records");
	tell(p, "closed", "answered without records");
}

static void try_echo(const struct probe *p)
{
	static const uint8_t request[] = {8, 0, 0xf7, 0xfe, 0, 1, 0, 0};
	int fd = open_socket(p, AF_INET, SOCK_RAW, IPPROTO_ICMP);
	uint8_t answer[ANSWER_MAX];
	ssize_t n = ask(p, fd, request, sizeof(request), answer);

	do { /* our own request may come, too */
		size_t head = n > 0 ? (size_t)(answer[0] & 15) * 4 : 0;

		if (head && (size_t)n > head && answer[head] == 0)
			tell(p, "open", "it answers");
		if (!wait_for(fd, POLLIN, AFTER_MS))
			tell(p, "closed", "no answer");
		n = recv(fd, answer, sizeof(answer), 0);
	} while (n >= 0);
	tell(p, "closed", strerror(errno));
}

/* --- what is asked for --- */

static const char *parse_port(const char *text, uint16_t *ret)
{
	char *end;
	unsigned long port = strtoul(text, &end, 10);

	*ret = htons((uint16_t)port);
	return *end == '\0' && port > 0 && port <= UINT16_MAX ? end : NULL;
}

static bool parse_ip(struct probe *p, int family, const char *text, const char *end, uint16_t port)
{
	char address[64] = "";
	struct sockaddr_in *v4 = (struct sockaddr_in *)&p->to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&p->to;

	if ((size_t)(end - text) >= sizeof(address))
		return false;
	memcpy(address, text, (size_t)(end - text));
	p->to.ss_family = (sa_family_t)family;
	p->length = family == AF_INET ? sizeof(*v4) : sizeof(*v6);
	if (family == AF_INET)
		v4->sin_port = port;
	else
		v6->sin6_port = port;
	return inet_pton(family, address,
		       family == AF_INET ? (void *)&v4->sin_addr : (void *)&v6->sin6_addr) == 1;
}

static bool parse_vsock(struct probe *p, const char *text)
{
	struct sockaddr_vm *to = (struct sockaddr_vm *)&p->to;

	to->svm_family = AF_VSOCK;
	p->length = sizeof(*to);
	return sscanf(text, "%u:%u", &to->svm_cid, &to->svm_port) == 2;
}

static bool parse(struct probe *p, const char *text, int family)
{
	const char *colon = strrchr(text, ':');
	uint16_t port = htons(53);

	if (family == AF_VSOCK)
		return parse_vsock(p, text);
	if (!colon)
		return parse_ip(p, family, text, text + strlen(text), port);
	return parse_port(colon + 1, &port) && parse_ip(p, family, text, colon, port);
}

static void listen_to_self(struct probe *p)
{
	struct sockaddr_in *at = (struct sockaddr_in *)&p->to;
	int fd = open_socket(p, AF_INET, SOCK_STREAM, 0);

	*at = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	p->length = sizeof(*at);
	if (bind(fd, (struct sockaddr *)at, sizeof(*at)) < 0 || listen(fd, 1) < 0 ||
		getsockname(fd, (struct sockaddr *)at, &p->length) < 0)
		tell(p, "broken", strerror(errno));
}

static _Noreturn void run(const char *text)
{
	static const char *const kinds[] = {"tcp:", "tcp6:", "udp:", "vsock:", "dns:", "icmp:"};
	static const int families[] = {AF_INET, AF_INET6, AF_INET, AF_VSOCK, AF_INET, AF_INET};
	struct probe p = {.text = text};
	unsigned k = 0;

	if (strcmp(text, "self") == 0) {
		listen_to_self(&p);
		try_stream(&p, AF_INET);
	}
	while (k < 6 && strncmp(text, kinds[k], strlen(kinds[k])) != 0)
		k++;
	if (k == 6 || !parse(&p, text + strlen(kinds[k]), families[k]))
		tell(&p, "broken", "it is no probe");
	if (k == 2)
		try_datagram(&p);
	else if (k == 4)
		try_dns(&p);
	else if (k == 5)
		try_echo(&p);
	else
		try_stream(&p, families[k]);
	_exit(1);
}

int main(int argc, char **argv)
{
	int failed = 0, status;

	for (int i = 1; i < argc; i++) {
		pid_t pid = fork();

		if (pid == 0)
			run(argv[i]);
		failed |= pid < 0;
	}
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
