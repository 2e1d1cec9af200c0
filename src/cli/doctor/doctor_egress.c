#include "cli/doctor/doctor_egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <jansson.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/remote_files.h"
#include "cli/remote/session_remote.h"
#include "cli/sandbox/create.h"
#include "io/program.h"

enum { PROBES_MAX = 160, PROBE_BYTES = 80, ADDRESSES_MAX = 16, OUTPUT_MAX = 64 * 1024, RUN_S = 60 };

#define PROGRAM "/tmp/mayfly-probe"

struct probe {
	const char *what;
	char text[PROBE_BYTES];	 /* as mayfly-probe takes it */
	char status[8], how[96]; /* of its answer; "" without */
};

struct probes {
	struct probe items[PROBES_MAX];
	unsigned count;
	int tcp_fd, udp_fd; /* where what reaches this host arrives */
	uint16_t tcp_port, udp_port;
};

static void __attribute__((format(printf, 3, 4)))
add(struct probes *all, const char *what, const char *fmt, ...)
{
	va_list ap;

	if (all->count == PROBES_MAX)
		return; /* a host with more addresses than anybody looks at */
	all->items[all->count].what = what;
	va_start(ap, fmt);
	(void)vsnprintf(all->items[all->count++].text, PROBE_BYTES, fmt, ap); /* fits */
	va_end(ap);
}

/* --- what is tried --- */

static void add_places(struct probes *all)
{
	static const char *const metadata[] = {"169.254.169.254", "169.254.170.2", "169.254.170.23",
		"100.100.100.200", "168.63.129.16", "192.0.0.192"};
	static const char *const private[] = {"10.0.0.1", "172.16.0.1", "192.168.0.1",
		"192.168.1.1", "100.64.0.1", "169.254.0.1", "198.18.0.1"};

	for (size_t i = 0; i < ARRAY_SIZE(metadata); i++)
		add(all, "metadata service", "tcp:%s:80", metadata[i]);
	for (size_t i = 0; i < ARRAY_SIZE(private); i++) {
		add(all, "private address", "tcp:%s:80", private[i]);
		add(all, "private address", "tcp:%s:22", private[i]);
	}
	for (unsigned n = 1; n <= 3; n += 2) /* .2 is the guest's own */
		add(all, "another sandbox", "tcp:10.77.0.%u:%u", n, all->tcp_port);
	add(all, "every address", "tcp:0.0.0.0:%u", all->tcp_port);
	add(all, "IPv6", "tcp6:2001:4860:4860::8888:443");
	add(all, "IPv6", "tcp6:fd00:ec2::254:80");
}

static void add_others(struct probes *all)
{
	static const unsigned ports[] = {22, 80, 1024, 1026, 2375};

	add(all, "datagram", "udp:169.254.169.254:123");
	add(all, "datagram", "udp:255.255.255.255:67");
	add(all, "datagram", "udp:224.0.0.251:5353");
	add(all, "DNS to elsewhere", "dns:192.0.2.1");
	add(all, "DNS to elsewhere", "dns:8.8.8.8");
	add(all, "echo request", "icmp:8.8.8.8");
	for (size_t i = 0; i < ARRAY_SIZE(ports); i++)
		add(all, "host over vsock", "vsock:2:%u", ports[i]);
	add(all, "hypervisor over vsock", "vsock:0:%u", ports[0]);
}

static void add_host(struct probes *all)
{
	struct ifaddrs *list = NULL;
	unsigned n = 0;

	if (getifaddrs(&list) < 0)
		return;
	for (struct ifaddrs *i = list; i && n < ADDRESSES_MAX; i = i->ifa_next) {
		struct sockaddr_in at;
		char text[INET_ADDRSTRLEN];

		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
			i->ifa_flags & IFF_LOOPBACK) /* 127.0.0.1 is the guest's */
			continue;
		memcpy(&at, i->ifa_addr, sizeof(at));
		(void)inet_ntop(AF_INET, &at.sin_addr, text, sizeof(text)); /* fits */
		add(all, "this host", "tcp:%s:%u", text, all->tcp_port);
		add(all, "this host", "tcp:%s:22", text);
		add(all, "this host", "tcp6:::ffff:%s:%u", text, all->tcp_port);
		add(all, "this host", "udp:%s:%u", text, all->udp_port);
		n++;
	}
	freeifaddrs(list);
}

/* --- what arrives here --- */

static int listen_here(int type, uint16_t *ret_port, struct error *e)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t n = sizeof(at);
	_cleanup_close_ int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 ||
		(type == SOCK_STREAM && listen(fd, PROBES_MAX) < 0) ||
		getsockname(fd, (struct sockaddr *)&at, &n) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "cannot listen on this host");
	*ret_port = ntohs(at.sin_port);
	return TAKE_FD(fd);
}

/* Any is reported: this port was nobody's before. */
static void add_arrivals(struct probes *all)
{
	unsigned streams = 0, datagrams = 0;
	char byte;
	int fd;

	while ((fd = accept(all->tcp_fd, NULL, NULL)) >= 0) {
		(void)close(fd); /* a socket */
		streams++;
	}
	while (recv(all->udp_fd, &byte, 1, 0) >= 0)
		datagrams++;
	add(all, "arrived here", "port %u, port %u", all->tcp_port, all->udp_port);
	(void)strcpy(all->items[all->count - 1].status, streams + datagrams ? "open" : "closed");
	(void)snprintf(all->items[all->count - 1].how, sizeof(all->items[0].how),
		"%u connections, %u datagrams", streams, datagrams); /* fits */
}

/* --- in the sandbox --- */

/* One event, or a wait for the next. Returns 1 at the end. */
static int take_event(
	struct session_remote *s, struct buf *out, uint64_t deadline_ns, struct error *e)
{
	const struct session_peer_ops *ops = &session_remote_ops;
	struct session_event ev;
	struct pollfd fds[SESSION_PEER_FDS];
	int r = ops->next(s, &ev, e);

	if (r < 0)
		return r;
	if (clock_monotonic_ns() > deadline_ns)
		return error_set(e, ERROR_TIMEOUT, ETIMEDOUT, "the probes do not end");
	if (r == 0) {
		for (unsigned i = 0; i < SESSION_PEER_FDS; i++)
			fds[i].fd = -1;
		ops->poll(s, false, fds);
		(void)poll(fds, SESSION_PEER_FDS, 1000); /* next says what happened */
		return 0;
	}
	if (ev.type == SESSION_OUT && buf_add(out, ev.data, ev.length) < 0)
		return error_set(e, ERROR_INTERNAL, E2BIG, "the probes say too much");
	return ev.type == SESSION_EXIT;
}

static int run_probes(
	const struct probes *all, const struct remote *remote, struct buf *out, struct error *e)
{
	char *argv[PROBES_MAX + 1] = {(char *)PROGRAM};
	struct session_remote_options o = {.remote = remote,
		.argc = (int)all->count + 1,
		.argv = argv,
		.no_input = true,
		.lease = true};
	uint64_t deadline_ns = clock_monotonic_ns() + RUN_S * NS_PER_S;
	struct session_remote *s = NULL;
	int r;

	for (unsigned i = 0; i < all->count; i++)
		argv[i + 1] = (char *)all->items[i].text;
	r = session_remote_open(&o, &s, e);
	while (r == 0)
		r = take_event(s, out, deadline_ns, e);
	session_remote_close(s);
	return r < 0 ? r : 0;
}

static int put_program(const struct remote *remote, struct error *e)
{
	struct remote_files files = {.remote = remote};
	_cleanup_close_ int fd = -1;
	char path[4096];
	struct stat st;
	int r = program_path("mayfly-probe", path, sizeof(path), e);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "%s", path);
	r = remote_files_put(&files, PROGRAM, fd, st.st_size, 0755, e);
	remote_files_close(&files);
	return r;
}

/* Parses lines of "STATUS PROBE HOW". The guest wrote them, so malformed lines are skipped. */
static void take_answers(struct probes *all, char *text)
{
	for (char *line = text, *rest = NULL; (line = strtok_r(line, "\n", &rest)); line = NULL) {
		char *words = NULL, *status = strtok_r(line, " ", &words),
		     *name = strtok_r(NULL, " ", &words);

		for (unsigned i = 0; name && i < all->count; i++) {
			struct probe *p = &all->items[i];

			if (strcmp(p->text, name) != 0)
				continue;
			(void)snprintf(p->status, sizeof(p->status), "%s", status); /* or cut */
			(void)snprintf(p->how, sizeof(p->how), "%s", words ? words : "");
		}
	}
}

/* Runs them, and takes what they say. */
static int probe(struct probes *all, const char *template, struct error *e)
{
	const struct create_order order = {
		.template = template, .timeout_ns = REMOTE_LEASE_S * NS_PER_S};
	struct remote remote = REMOTE_INIT;
	_cleanup_(client_closep) struct client *c = NULL;
	struct buf out = BUF_INIT(OUTPUT_MAX);
	struct error gone = {0};
	int r = home_open(NULL, &remote.home, e);

	remote.user = "root";
	r = r ? r : client_open(&remote.home, &c, e);
	r = r ? r : remote_create(c, create_body(&order), remote.id, e);
	if (r == 0) {
		r = put_program(&remote, e);
		r = r ? r : run_probes(all, &remote, &out, e);
		(void)remote_remove(&remote.home, remote.id, &gone); /* its time ends, too */
	}
	r = r ? r : buf_add(&out, "", 1);
	if (r == 0)
		take_answers(all, (char *)buf_head(&out));
	buf_done(&out);
	remote_close(&remote);
	return r;
}

/* --- what it means --- */

/* One probe must find something open, or none of them could. */
static bool is_well(const struct probe *p)
{
	return strcmp(p->status, strcmp(p->text, "self") == 0 ? "open" : "closed") == 0;
}

static unsigned count_bad(struct probes *all)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < all->count; i++) {
		struct probe *p = &all->items[i];

		if (!p->status[0])
			(void)strcpy(p->status, "broken"); /* fits */
		bad += !is_well(p);
	}
	return bad;
}

static int print_json(const struct probes *all, unsigned bad, struct error *e)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < all->count; i++) {
		const struct probe *p = &all->items[i];

		/* a missing line shows as a missing line */
		(void)json_array_append_new(
			list, json_pack("{s:s, s:s, s:o, s:o, s:b}", "what", p->what, "probe",
				      p->text, "status", json_text(p->status), "text",
				      json_text(p->how), "ok", is_well(p)));
	}
	return json_print(json_pack("{s:b, s:o}", "closed", bad == 0, "probes", list), e);
}

static void print(const struct probes *all, unsigned bad)
{
	for (unsigned i = 0; i < all->count; i++) {
		const struct probe *p = &all->items[i];

		printf("%-5s %-22s %-38s %s%s%s\n", is_well(p) ? "ok" : "fail", p->what, p->text,
			p->status, *p->how ? ": " : "", p->how);
	}
	if (bad)
		printf("\n%u of %u probes failed, or found something open that must be closed.\n",
			bad, all->count);
	else
		printf("\nAll %u probes found closed what must be closed.\n", all->count - 1);
}

int doctor_egress(const char *template, bool json, struct error *e)
{
	struct probes all = {.tcp_fd = -1, .udp_fd = -1};
	unsigned bad;
	int r;

	all.tcp_fd = r = listen_here(SOCK_STREAM, &all.tcp_port, e);
	if (r >= 0)
		all.udp_fd = r = listen_here(SOCK_DGRAM, &all.udp_port, e);
	if (r >= 0) {
		add(&all, "a probe that works", "self");
		add_host(&all);
		add_places(&all);
		add_others(&all);
		r = probe(&all, template, e);
	}
	if (r == 0) {
		add_arrivals(&all);
		bad = count_bad(&all);
		if (json)
			r = print_json(&all, bad, e);
		else
			print(&all, bad);
		r = r ? r : bad ? error_exit_status(ERROR_HOST) : 0;
	}
	cleanup_close_p(&all.tcp_fd);
	cleanup_close_p(&all.udp_fd);
	return r;
}
