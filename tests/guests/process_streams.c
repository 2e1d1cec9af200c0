/* Streams that guests open, in processes of their own. */
#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "sandbox/vmm_request.h"
#include "vmm/control.h"
#include "vmm/vsock.h"

/* What the guest egress.c says first. */
struct report {
	uint32_t refused, reset;
};

struct channel {
	int theirs, ours;
};

static struct channel make_channel(void)
{
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	return (struct channel){pair[0], pair[1]};
}

static void close_channel(struct channel *c)
{
	if (c->theirs >= 0)
		(void)close(c->theirs); /* the VMM has its own */
	(void)close(c->ours);		/* nobody opens a stream any more */
}

static void await_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, WAIT_MS) != 1)
		fail("nothing comes from the guest");
}

static int take_stream(const struct channel *c)
{
	struct control_fds fds;
	char text[CONTROL_MESSAGE_MAX];

	await_readable(c->ours);
	CHECK(control_receive(c->ours, text, &fds) == 1 && text[0] == '\0' && fds.count == 1);
	return fds.fd[0];
}

static void read_from(int fd, void *data, size_t n)
{
	for (size_t have = 0; have < n;) {
		ssize_t r;

		await_readable(fd);
		r = read(fd, (char *)data + have, n - have);
		CHECK(r > 0);
		have += (size_t)r;
	}
}

static struct report hear(int stream)
{
	struct report r;
	char end;

	read_from(stream, &r, sizeof(r));
	await_readable(stream);
	CHECK(read(stream, &end, 1) == 0); /* the guest's direction ends on its own */
	return r;
}

static void answer(int stream)
{
	CHECK(write(stream, "answer", 6) == 6 && close(stream) == 0);
}

/* One stream from its beginning to its end. */
static struct report converse(const struct channel *c)
{
	int stream = take_stream(c);
	struct report r = hear(stream);

	answer(stream);
	return r;
}

static void set_egress(const struct machine *m, int channel)
{
	struct error e = {0};
	int fd = open_dir(m->name);

	if (vmm_set_egress(fd, channel, &e) < 0)
		fail("vmm_set_egress: %s", e.message);
	(void)close(fd); /* only a directory */
}

/* While a stream of the old channel is open, which goes on. */
static void switch_channel(const struct machine *m, const struct channel *old, int channel)
{
	int stream = take_stream(old);

	set_egress(m, channel);
	(void)hear(stream);
	answer(stream);
}

void guest_streams(void)
{
	struct channel c = make_channel(), other = make_channel();
	struct machine m;
	struct report r;

	boot_guest(&m, "talks", "egress", "talks", c.theirs);
	for (unsigned i = 0; i < 3; i++) {
		r = converse(&c);
		CHECK(r.refused == 0 && r.reset == 0);
	}
	switch_channel(&m, &c, other.theirs);
	r = converse(&other);
	CHECK(r.refused == 0 && r.reset == 0);
	stop(&m);
	close_channel(&c);
	close_channel(&other);
}

/* Some: setting the device up costs fewer exits. */
static void await_refusals(const struct machine *m)
{
	await_exits(m, 500);
}

/* Without a channel, with one, with none again; and with one that nobody reads any more. */
void no_guest_streams(void)
{
	struct channel c[3] = {make_channel(), make_channel(), make_channel()};
	struct machine m;

	boot_guest(&m, "talks", "egress", "talks", -1);
	await_refusals(&m);
	set_egress(&m, c[0].theirs);
	CHECK(converse(&c[0]).refused > 0);
	switch_channel(&m, &c[0], -1);
	await_refusals(&m);
	set_egress(&m, c[1].theirs);
	CHECK(converse(&c[1]).refused > 0);
	(void)close(c[1].ours); /* as a worker's that was killed */
	c[1].ours = -1;
	await_refusals(&m);
	set_egress(&m, c[2].theirs);
	CHECK(converse(&c[2]).refused > 0);
	stop(&m);
	for (unsigned i = 0; i < 3; i++)
		close_channel(&c[i]);
}

/* As many as there may be, and not one more. */
void many_guest_streams(void)
{
	static int streams[VSOCK_GUEST_CONNECTIONS_MAX];
	struct channel c = make_channel();
	struct machine m;
	uint32_t n;

	boot_guest(&m, "many", "egress", "many", c.theirs);
	for (unsigned i = 0; i < VSOCK_GUEST_CONNECTIONS_MAX; i++)
		streams[i] = take_stream(&c);
	read_from(streams[0], &n, sizeof(n));
	CHECK(n == VSOCK_GUEST_CONNECTIONS_MAX);
	for (unsigned i = 0; i < VSOCK_GUEST_CONNECTIONS_MAX; i++)
		(void)close(streams[i]); /* only counted */
	stop(&m);
	close_channel(&c);
}

/* Streams that a snapshot found open are reset in what is restored from it, and go on in the
 * parent. */
void guest_streams_and_snapshots(void)
{
	struct channel c = make_channel(), other = make_channel();
	struct machine m, child;
	struct report r;
	int open_one;

	boot_guest(&m, "parent", "egress", "talks", c.theirs);
	snapshot(&m, "full", false, true);
	(void)converse(&c);
	open_one = take_stream(&c);
	(void)hear(open_one);
	snapshot(&m, "layer", false, false);
	restore_with(&child, "child", false, other.theirs);
	await_start(&child);
	r = converse(&other);
	CHECK(r.reset == 1 && r.refused == 0);
	answer(open_one);
	r = converse(&c);
	CHECK(r.reset == 0 && r.refused == 0);
	stop(&child);
	stop(&m);
	remove_snapshots();
	close_channel(&c);
	close_channel(&other);
}
