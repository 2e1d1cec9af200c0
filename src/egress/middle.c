#include "egress/middle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "egress/consent.h"

enum {
	HANDSHAKE_MS = 20000, /* of each side */
	CLOSE_MS = 15000,     /* for the last bytes, from each time that some of them went */
	LINGER_MS = 5000,
	SPARE_MS = 60000, /* without a byte, one with an open request may be ended for another */
	FILLS = 4,	  /* of a socket in a turn: other flows wait */
	FILL_BYTES = TLS_IN_MAX, /* nearly two records */
};

enum state { CONNECT, ACCEPT, OPEN, CLOSE, LINGER, OVER };

/* While OPEN: a new connection to the server is being made. */
enum renewal { RENEWAL_NONE, RENEWAL_DIALS, RENEWAL_SHAKES };

/* One of the two sides. */
struct leg {
	struct loop_watch *watch;
	struct tls_session tls;
	enum exchange_side side;
	struct buf plain; /* that the exchange did not take yet */
	bool eof;	  /* nothing more comes: the socket has ended */
	bool broken;	  /* by a reset */
	bool ended;	  /* the exchange knows of the end */
	bool gone;	  /* takes no bytes any more */
	bool said_end;	  /* nothing more will be sent */
	unsigned fills;	  /* of this turn */
	bool dry;	  /* the socket has no bytes for now: epoll says when it has */
	uint64_t in, out;
};

struct middle {
	struct middle_options o;
	enum state state;
	struct leg guest, server;
	struct exchange *exchange;
	enum renewal renewal;
	struct loop_timer renewing; /* of SHAKES */
	struct loop_timer timer;    /* of the state */
	uint64_t bytes, active_ns;  /* that had gone and come, and when they last changed */
	bool orderly;		    /* both are to get a close_notify */
	uint64_t closed_bytes;	    /* that had gone when CLOSE's time began */
	const char *verdict;
	char reason[200];
};

/* --- the end --- */

static void finish(struct middle *m)
{
	struct middle_end end = {m->verdict, m->reason};

	m->state = OVER;
	loop_stop(&m->o.context->loop, &m->timer);
	loop_stop(&m->o.context->loop, &m->renewing);
	m->o.ended(m->o.arg, &end); /* frees m */
}

/* Notes why, once: what follows is its consequence. */
static void note(struct middle *m, const char *verdict, const char *what, const char *why)
{
	if (m->reason[0])
		return;
	m->verdict = verdict;
	(void)snprintf(m->reason, sizeof(m->reason), "%s%s", what, why); /* fits, or is cut */
}

static void begin_close(struct middle *m, bool orderly)
{
	m->orderly = orderly;
	m->state = CLOSE;
	if (m->renewal)
		m->server.gone = true; /* there is no TLS to write to */
	m->renewal = RENEWAL_NONE;
	loop_stop(&m->o.context->loop, &m->renewing);
	buf_done(&m->guest.tls.in); /* nothing of it is used any more */
	m->closed_bytes = m->guest.out + m->server.out;
	loop_start(&m->o.context->loop, &m->timer, CLOSE_MS);
}

/* --- bytes of a socket --- */

static bool wants(const struct middle *m, const struct leg *leg)
{
	switch (m->state) {
	case CONNECT:
		return leg == &m->server;
	case ACCEPT:
	case LINGER:
		return leg == &m->guest;
	case OPEN:
		if (leg == &m->server && m->renewal)
			return true;
		return !leg->ended && buf_len(&leg->plain) == 0 &&
		       exchange_wants(m->exchange, leg->side);
	default:
		return false;
	}
}

static bool may_read(const struct middle *m, const struct leg *leg)
{
	return !leg->eof && leg->watch->fd >= 0 && buf_len(&leg->tls.in) == 0 && wants(m, leg);
}

/* Each of these returns whether it changed something.
 *
 * #calls egress: recvfrom */
static bool fill(struct middle *m, struct leg *leg)
{
	uint8_t *p;
	ssize_t n;

	if (leg->dry || !may_read(m, leg) || leg->fills >= FILLS)
		return false;
	leg->fills++;
	p = m->state == LINGER ? m->o.context->means.space : buf_reserve(&leg->tls.in, FILL_BYTES);
	n = p ? recv(leg->watch->fd, p, FILL_BYTES, 0) : 0;
	leg->dry = n < FILL_BYTES; /* a call less than to hear that there is nothing */
	if (n < 0 && errno == EAGAIN)
		return false;
	leg->eof = n <= 0;
	leg->broken = n < 0;
	if (n > 0) {
		leg->in += (uint64_t)n;
		if (m->state != LINGER)
			buf_commit(&leg->tls.in, (size_t)n);
	}
	return true;
}

static bool flush(struct leg *leg)
{
	bool changed = false;

	while (buf_len(&leg->tls.out)) {
		ssize_t n = leg->gone ? -1
				      : fd_send_peer(leg->watch->fd, buf_head(&leg->tls.out),
						buf_len(&leg->tls.out));

		if (n < 0 && !leg->gone && errno == EAGAIN)
			return changed;
		changed = true;
		leg->gone = n < 0;
		leg->out += leg->gone ? 0 : (uint64_t)n;
		buf_consume(&leg->tls.out, leg->gone ? buf_len(&leg->tls.out) : (size_t)n);
	}
	return changed;
}

/* Gives memory back until the next turn. */
static void release(struct leg *leg)
{
	if (!buf_len(&leg->tls.in))
		buf_done(&leg->tls.in);
	if (!buf_len(&leg->tls.out))
		buf_done(&leg->tls.out);
}

/* --- handshakes --- */

static void await(struct middle *m, enum state state)
{
	m->state = state;
	loop_start(&m->o.context->loop, &m->timer, HANDSHAKE_MS);
}

/* The program sees what it would see of such a server. */
static void fail_plainly(struct middle *m, enum first_alert alert)
{
	first_send_alert(m->guest.watch->fd, alert);
	m->server.gone = true;
	begin_close(m, false);
}

static const char *server_name(const struct middle *m)
{
	return m->o.via ? m->o.via->name : m->o.name;
}

static struct tls_protocols offered(const struct client_hello *h)
{
	return (struct tls_protocols){.h2 = h->h2, .http1 = h->http1 || !h->alpn};
}

static int accept_guest(struct middle *m, enum leaf_fault fault, struct tls_protocols chosen)
{
	struct authority *a = m->o.kit->authority;
	X509 *leaf = authority_leaf(a, m->o.name, fault);
	int r = leaf ? tls_accept(&m->guest.tls, m->o.kit->roots.setup, leaf, authority_leaf_key(a),
			       chosen)
		     : -ENOMEM;

	X509_free(leaf);
	r = r ? r
	      : buf_add(&m->guest.tls.in, buf_head(&m->o.first->held), buf_len(&m->o.first->held));
	first_done(m->o.first);
	if (r == 0)
		await(m, ACCEPT);
	return r;
}

static enum leaf_fault fault_of(long error)
{
	switch (error) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return LEAF_EXPIRED;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return LEAF_NOT_YET;
	case X509_V_ERR_HOSTNAME_MISMATCH:
		return LEAF_OTHER_NAME;
	default:
		return LEAF_UNTRUSTED;
	}
}

/* The server's certificate has a fault, so the guest gets one with the same fault. */
static void distrust(struct middle *m, long error)
{
	struct tls_protocols p = offered(&m->o.first->hello);

	p.h2 = p.h2 && !p.http1;
	if (!m->o.kit->roots.has_any)
		note(m, "failed", "",
			"the server's certificate: no authorities are known, as this host "
			"has no /etc/ssl/certs/ca-certificates.crt");
	note(m, "failed", "the server's certificate: ", tls_reason(&m->server.tls));
	(void)flush(&m->server); /* the alert */
	m->server.gone = m->server.eof = m->server.ended = true;
	(void)shutdown(m->server.watch->fd, SHUT_RDWR); /* fails if it is gone */
	if (accept_guest(m, fault_of(error), p) < 0)
		fail_plainly(m, ALERT_HANDSHAKE_FAILURE);
}

static void server_is_ready(struct middle *m)
{
	const struct client_hello *h = &m->o.first->hello;
	struct tls_protocols p = tls_protocol(&m->server.tls);

	if (h->alpn && !h->http1 && !p.h2) {
		note(m, "failed", "the program speaks HTTP/2 only, and the server does not", "");
		fail_plainly(m, ALERT_NO_APPLICATION_PROTOCOL);
		return;
	}
	if (!h->alpn)
		p = (struct tls_protocols){0};
	else if (!p.h2)
		p.http1 = true;
	if (accept_guest(m, LEAF_GOOD, p) < 0) {
		note(m, "failed", "no certificate can be made for the program: out of memory", "");
		fail_plainly(m, ALERT_HANDSHAKE_FAILURE);
	}
}

static bool connect_step(struct middle *m)
{
	int r = tls_handshake(&m->server.tls);
	long fault;

	if (r == 1) {
		server_is_ready(m);
		return true;
	}
	if (r == TLS_AGAIN && !m->server.eof)
		return false;
	fault = tls_certificate_fault(&m->server.tls);
	if (r == TLS_FAILED && fault != X509_V_OK) {
		distrust(m, fault);
		return true;
	}
	note(m, "failed", "the server's TLS: ",
		r == TLS_FAILED ? tls_reason(&m->server.tls) : "it ended the connection");
	fail_plainly(m, ALERT_HANDSHAKE_FAILURE);
	return true;
}

static uint64_t idle_ms(const struct middle *m, bool quiet)
{
	uint64_t most = m->o.context->middle_idle_ms;

	return most ? most : 1000ull * (quiet ? MIDDLE_QUIET_S : MIDDLE_BUSY_S);
}

static enum exchange_protocol protocol_of(const struct middle *m)
{
	return !m->o.plain && tls_protocol(&m->guest.tls).h2 ? EXCHANGE_HTTP2 : EXCHANGE_HTTP1;
}

static void open_exchange(struct middle *m)
{
	struct exchange_options o = {.protocol = protocol_of(m),
		.host = m->o.name,
		.port = m->o.port,
		.server_host = server_name(m),
		.server_port = m->o.via ? m->o.via->port : m->o.port,
		.server_path = m->o.via ? m->o.via->path : "",
		.plain = m->o.plain,
		.intercept = m->o.intercept,
		.callbacks = m->o.callbacks,
		.budget = &m->o.context->budget};

	loop_start(&m->o.context->loop, &m->timer, idle_ms(m, true));
	if (exchange_new(&o, &m->exchange) < 0) {
		note(m, "failed", "out of memory", "");
		begin_close(m, false);
		return;
	}
	m->state = OPEN;
	if (m->server.ended)
		exchange_fail_server(m->exchange, m->reason);
}

static bool accept_step(struct middle *m)
{
	int r = tls_handshake(&m->guest.tls);

	if (r == 1) {
		open_exchange(m);
		return true;
	}
	if (r == TLS_AGAIN && !m->guest.eof)
		return false;
	note(m, "failed", "the program's TLS: ",
		r == TLS_FAILED ? tls_reason(&m->guest.tls) : "it ended the connection");
	begin_close(m, false);
	return true;
}

/* --- bytes of HTTP --- */

/* The socket has ended, and TLS has not; or TLS has failed. */
static void cut_off(struct middle *m, struct leg *leg, const char *why)
{
	leg->ended = true;
	if (leg == &m->server) {
		exchange_fail_server(m->exchange, why);
		return;
	}
	if (leg->broken)
		note(m, "reset", "", "the program's connection was reset");
	else if (why[0])
		note(m, "reset", "the program's TLS: ", why);
	begin_close(m, false); /* many programs end without a close_notify */
}

static bool take_plain(struct middle *m, struct leg *leg)
{
	size_t n = exchange_receive(
		m->exchange, leg->side, buf_head(&leg->plain), buf_len(&leg->plain));

	buf_consume(&leg->plain, n);
	if (buf_len(&leg->plain) == 0)
		buf_done(&leg->plain);
	return n > 0;
}

/* Decrypts one piece. */
static bool decrypt(struct middle *m, struct leg *leg)
{
	uint8_t *space = m->o.context->means.space;
	ssize_t n;
	size_t taken;

	if (buf_len(&leg->plain))
		return take_plain(m, leg);
	if (leg->ended || !exchange_wants(m->exchange, leg->side))
		return false;
	n = tls_read(&leg->tls, space, TLS_PLAIN_MAX);
	if (n == TLS_AGAIN && !leg->eof)
		return false;
	if (n == TLS_AGAIN && leg->tls.plain && !leg->broken)
		n = TLS_EOF; /* of the socket */
	if (n > 0) {
		taken = exchange_receive(m->exchange, leg->side, space, (size_t)n);
		if (buf_add(&leg->plain, space + taken, (size_t)n - taken) < 0)
			cut_off(m, leg, "out of memory");
		explicit_bzero(space, (size_t)n); /* an answer may say a secret */
	} else if (n == TLS_EOF) {
		leg->ended = true;
		exchange_receive_end(m->exchange, leg->side);
	} else {
		cut_off(m, leg,
			n == TLS_FAILED || leg == &m->guest
				? tls_reason(&leg->tls)
				: "the server's connection was cut off");
	}
	return true;
}

/* Encrypts one piece; `whole`: only what fills a record. */
static bool encrypt(struct middle *m, struct leg *leg, bool whole)
{
	size_t n = 0;
	const uint8_t *p = buf_len(&leg->tls.out) < TLS_OUT_ENOUGH
				   ? exchange_output(m->exchange, leg->side, &n)
				   : NULL;
	ssize_t taken;

	if (n == 0 || (whole && n < TLS_PLAIN_MAX))
		return false;
	taken = leg->gone ? (ssize_t)n : tls_write(&leg->tls, p, n);
	if (taken < 0) {
		leg->gone = true;
		buf_clear(&leg->tls.out);
		taken = (ssize_t)n;
	}
	exchange_sent(m->exchange, leg->side, (size_t)taken);
	return true;
}

static bool has_output(struct middle *m, const struct leg *leg)
{
	size_t n = 0;

	if (m->exchange)
		(void)exchange_output(m->exchange, leg->side, &n);
	return n > 0;
}

/* --- another connection with the server --- */

static void end_renewal(struct middle *m, const char *why)
{
	m->renewal = RENEWAL_NONE;
	loop_stop(&m->o.context->loop, &m->renewing);
	if (why)
		m->server.gone = m->server.eof = m->server.ended = true;
	exchange_renew_server(m->exchange, why);
}

/* A request that was allowed needs it. */
static bool begin_renewal(struct middle *m)
{
	const char *why;

	if (m->state != OPEN || m->renewal || !exchange_needs_server(m->exchange))
		return false;
	m->renewal = RENEWAL_DIALS;
	m->server.gone = true; /* until there is another */
	tls_done(&m->server.tls);
	buf_done(&m->server.plain);
	why = m->o.redial(m->o.arg);
	if (why)
		end_renewal(m, why);
	return true;
}

static bool shake_again(struct middle *m)
{
	int r = m->renewal == RENEWAL_SHAKES ? tls_handshake(&m->server.tls) : TLS_AGAIN;
	bool h2 = protocol_of(m) == EXCHANGE_HTTP2;

	if (r == TLS_AGAIN && (m->renewal != RENEWAL_SHAKES || !m->server.eof))
		return false;
	if (r == 1)
		end_renewal(m, tls_protocol(&m->server.tls).h2 == h2
				       ? NULL
				       : "the server speaks another protocol than before");
	else
		end_renewal(m, r == TLS_FAILED ? tls_reason(&m->server.tls)
					       : "the server ended the connection");
	return true;
}

static void on_renewal_late(void *arg)
{
	struct middle *m = arg;

	end_renewal(m, "the server's TLS takes too long");
	middle_run(m, 0, 0);
}

static int connect_again(struct middle *m)
{
	struct tls_protocols p = tls_protocol(&m->guest.tls);
	struct leg old = m->server;

	m->server = (struct leg){.watch = old.watch,
		.side = old.side,
		.plain = old.plain,
		.in = old.in,
		.out = old.out};
	p.http1 = !p.h2;
	return tls_connect(&m->server.tls, m->o.kit->roots.setup, server_name(m), p);
}

void middle_renew(struct middle *m, const char *why)
{
	bool plain = m->guest.tls.plain;

	if (m->state != OPEN || m->renewal != RENEWAL_DIALS)
		return;
	if (!why && plain) {
		m->server.eof = m->server.broken = m->server.ended = m->server.gone = false;
		tls_plain(&m->server.tls);
	} else if (!why && connect_again(m) < 0) {
		why = "out of memory";
	}
	m->renewal = RENEWAL_SHAKES;
	if (why || plain)
		end_renewal(m, why);
	else
		loop_start(&m->o.context->loop, &m->renewing, HANDSHAKE_MS);
	middle_run(m, 0, 0);
}

void middle_decide(struct middle *m, uint64_t id, const struct consent_answer *answer, bool stale)
{
	if (m->state != OPEN)
		return;
	if (answer->allowed && stale && protocol_of(m) == EXCHANGE_HTTP1)
		exchange_fail_server(m->exchange, "it was silent for long");
	if (answer->charged)
		exchange_note_charge(m->exchange, id, answer->charged);
	exchange_decide(m->exchange, id, answer->allowed, answer->reason);
	middle_run(m, 0, 0);
}

static bool open_step(struct middle *m)
{
	bool changed = decrypt(m, &m->guest);

	if (m->state == OPEN)
		changed |= m->renewal ? shake_again(m) : decrypt(m, &m->server);
	if (m->state != OPEN)
		return true;
	/* small pieces wait for what follows at once: each record costs */
	changed |= !m->renewal && encrypt(m, &m->server, changed);
	changed |= begin_renewal(m);
	changed |= encrypt(m, &m->guest, changed);
	switch (exchange_state(m->exchange)) {
	case EXCHANGE_GOING:
		break;
	case EXCHANGE_FAILED:
		note(m, "reset", "", exchange_reason(m->exchange));
		m->server.gone = true;
		begin_close(m, false);
		return true;
	case EXCHANGE_DONE:
		if (exchange_reason(m->exchange)[0])
			note(m, "reset", "", exchange_reason(m->exchange));
		begin_close(m, true);
		return true;
	}
	if (m->guest.gone && !changed && !wants(m, &m->guest) && !has_output(m, &m->server)) {
		begin_close(m, false); /* nobody waits for an answer */
		changed = true;
	}
	return changed;
}

/* --- the last bytes --- */

/* Returns whether all of a side has been sent. */
static bool say_end(struct middle *m, struct leg *leg)
{
	if (has_output(m, leg) && !leg->gone)
		return false;
	if (!leg->said_end && m->orderly && tls_is_there(&leg->tls))
		tls_end(&leg->tls);
	leg->said_end = true;
	return buf_len(&leg->tls.out) == 0;
}

/* A side that takes bytes gets more time, unless only the server is left. */
static void give_time(struct middle *m)
{
	uint64_t bytes = m->guest.out + m->server.out;

	if (bytes == m->closed_bytes || m->guest.gone)
		return;
	m->closed_bytes = bytes;
	loop_start(&m->o.context->loop, &m->timer, CLOSE_MS);
}

/* #calls egress: shutdown */
static bool close_step(struct middle *m)
{
	bool to_server = m->exchange && encrypt(m, &m->server, false);
	bool to_guest = m->exchange && encrypt(m, &m->guest, false);
	bool changed = to_server || to_guest;
	bool server = say_end(m, &m->server), guest = say_end(m, &m->guest);

	if (!server || !guest) {
		give_time(m);
		return changed;
	}
	(void)shutdown(m->guest.watch->fd, SHUT_WR); /* fails if it is gone */
	if (m->server.watch->fd >= 0)
		(void)shutdown(m->server.watch->fd, SHUT_WR); /* likewise */
	m->state = LINGER;
	loop_start(&m->o.context->loop, &m->timer, LINGER_MS);
	return true;
}

static bool linger_step(struct middle *m)
{
	if (!m->guest.eof && !m->guest.gone)
		return false;
	m->state = OVER;
	return false;
}

/* --- turns --- */

static bool step(struct middle *m)
{
	switch (m->state) {
	case CONNECT:
		return connect_step(m);
	case ACCEPT:
		return accept_step(m);
	case OPEN:
		return open_step(m);
	case CLOSE:
		return close_step(m);
	case LINGER:
		return linger_step(m);
	case OVER:
		break;
	}
	return false;
}

static bool is_held(const struct middle *m)
{
	return m->state == OPEN && exchange_is_held(m->exchange);
}

/* Sets what to wait for on a side. A socket that is no longer watched may still have bytes; they
 * are read when the other one can be written. */
static void watch(struct middle *m, struct leg *leg, const struct leg *other)
{
	bool pull = !other->watch->added && may_read(m, other);
	uint32_t events =
		(may_read(m, leg) ? EPOLLIN : 0) | (buf_len(&leg->tls.out) || pull ? EPOLLOUT : 0);

	if (leg == &m->guest && is_held(m))
		events |= EPOLLRDHUP;

	loop_change(&m->o.context->loop, leg->watch, events);
}

/* Both directions of a socket have ended; epoll would report that in each turn. */
static void on_hang_up(struct middle *m, struct leg *leg)
{
	if (leg == &m->guest)
		leg->gone = true;
	if (!may_read(m, leg))
		loop_remove(&m->o.context->loop, leg->watch);
}

static void note_activity(struct middle *m)
{
	uint64_t bytes = m->guest.in + m->guest.out + m->server.in + m->server.out;

	if (bytes != m->bytes)
		m->active_ns = m->o.context->loop.now_ns;
	m->bytes = bytes;
}

static void begin_turn(struct leg *leg, uint32_t events)
{
	bool watched = leg->watch->added && (leg->watch->events & EPOLLIN);

	leg->fills = 0;
	leg->dry = watched && !(events & (EPOLLIN | EPOLLHUP | EPOLLERR));
}

void middle_run(struct middle *m, uint32_t guest_events, uint32_t remote_events)
{
	bool changed = true;

	begin_turn(&m->guest, guest_events);
	begin_turn(&m->server, remote_events);
	if (guest_events & (EPOLLHUP | EPOLLERR))
		on_hang_up(m, &m->guest);
	if (remote_events & (EPOLLHUP | EPOLLERR))
		on_hang_up(m, &m->server);
	if (guest_events & EPOLLRDHUP && is_held(m)) {
		note(m, "reset", "", "the program did not wait for a person");
		begin_close(m, false);
	}
	if (m->guest.gone && m->state == CONNECT) {
		note(m, "reset", "", "the program did not wait for TLS");
		m->state = OVER;
	}
	while (changed && m->state != OVER) {
		changed = fill(m, &m->guest);
		changed |= fill(m, &m->server);
		changed |= step(m);
		/* what follows at once goes out with one call */
		if (!changed || buf_len(&m->guest.tls.out) >= TLS_OUT_ENOUGH)
			changed |= flush(&m->guest);
		if (!changed || buf_len(&m->server.tls.out) >= TLS_OUT_ENOUGH)
			changed |= flush(&m->server);
	}
	release(&m->guest);
	release(&m->server);
	if (m->state == OVER) {
		finish(m);
		return;
	}
	note_activity(m);
	watch(m, &m->guest, &m->server);
	watch(m, &m->server, &m->guest);
}

/* --- the end of idle ones --- */

static bool is_asked(const struct middle *m)
{
	return m->state == OPEN && exchange_is_asked(m->exchange);
}

static uint64_t silent_ms(const struct middle *m)
{
	return (m->o.context->loop.now_ns - m->active_ns) / NS_PER_MS;
}

static bool is_quiet(const struct middle *m)
{
	return m->state == LINGER || (m->state == OPEN && exchange_is_quiet(m->exchange));
}

int64_t middle_spare(const struct middle *m)
{
	int64_t ms = (int64_t)silent_ms(m);

	if (is_quiet(m))
		return ms + INT32_MAX;
	if (is_asked(m))
		return -1;
	return m->state == OPEN && ms >= SPARE_MS ? ms : -1;
}

void middle_evict(struct middle *m)
{
	if (m->state == OPEN && !is_quiet(m))
		note(m, "reset", "", "it was silent, and another connection needed its place");
	if (m->state == OPEN) {
		exchange_end(m->exchange);
		m->server.gone = m->server.gone || m->renewal;
		(void)encrypt(m, &m->guest, false); /* what fits goes out */
		(void)encrypt(m, &m->server, false);
		begin_close(m, true);
		(void)close_step(m);
		(void)flush(&m->guest);
		(void)flush(&m->server);
	}
	finish(m);
}

static void on_idle(struct middle *m)
{
	bool quiet = is_quiet(m);
	uint64_t ms = silent_ms(m), most = idle_ms(m, quiet), look = idle_ms(m, true);

	if (ms < most || is_asked(m)) { /* it may become quiet meanwhile */
		ms = ms < most && most - ms < look ? most - ms : look;
		loop_start(&m->o.context->loop, &m->timer, ms);
		return;
	}
	if (quiet) {
		exchange_end(m->exchange);
	} else {
		note(m, "reset", "", "nothing was sent for too long within a request");
		begin_close(m, false);
	}
	middle_run(m, 0, 0);
}

static void on_late(void *arg)
{
	struct middle *m = arg;

	if (m->state == OPEN) {
		on_idle(m);
		return;
	}
	if (m->state == CONNECT) {
		note(m, "failed", "", "the server's TLS takes too long");
		fail_plainly(m, ALERT_HANDSHAKE_FAILURE);
		middle_run(m, 0, 0);
		return;
	}
	if (m->state == ACCEPT)
		note(m, "failed", "", "the program's TLS takes too long");
	if (m->state == CLOSE)
		note(m, "reset", "", "the last bytes were not taken in time");
	finish(m);
}

/* --- begin --- */

static int begin_tls(struct middle *m)
{
	int r = tls_connect(
		&m->server.tls, m->o.kit->roots.setup, server_name(m), offered(&m->o.first->hello));

	if (r == 0)
		await(m, CONNECT);
	return r;
}

static int begin_plain(struct middle *m)
{
	const struct buf *held = &m->o.first->held;
	int r;

	tls_plain(&m->guest.tls);
	tls_plain(&m->server.tls);
	r = buf_add(&m->guest.tls.in, buf_head(held), buf_len(held));
	first_done(m->o.first);
	open_exchange(m);
	return m->exchange ? r : -ENOMEM;
}

/* Of plain connections: no rule, no secret. It is never freed. */
static struct intercept nothing = {.references = 1};

int middle_new(const struct middle_options *o, struct middle **ret)
{
	struct middle *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->o = *o;
	m->guest = (struct leg){.watch = o->guest, .side = EXCHANGE_GUEST};
	m->server = (struct leg){.watch = o->remote, .side = EXCHANGE_SERVER};
	buf_init_secret(&m->guest.plain, TLS_PLAIN_MAX);
	buf_init_secret(&m->server.plain, TLS_PLAIN_MAX);
	m->verdict = "allowed";
	m->timer.on = on_late;
	m->renewing.on = on_renewal_late;
	m->timer.arg = m->renewing.arg = m;
	m->active_ns = o->context->loop.now_ns;
	m->o.intercept = o->plain ? &nothing : o->intercept;
	if (o->kit)
		(void)tls_kit_ref(o->kit);
	(void)intercept_ref(m->o.intercept);
	o->context->middles++;
	r = o->plain ? begin_plain(m) : begin_tls(m);
	if (r < 0) {
		middle_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

void middle_free(struct middle *m)
{
	if (!m)
		return;
	loop_stop(&m->o.context->loop, &m->timer);
	loop_stop(&m->o.context->loop, &m->renewing);
	exchange_free(m->exchange);
	tls_done(&m->guest.tls);
	tls_done(&m->server.tls);
	buf_done(&m->guest.plain);
	buf_done(&m->server.plain);
	tls_kit_unref(m->o.kit);
	intercept_unref(m->o.intercept);
	m->o.context->middles--;
	free(m);
}

static void set_intercept(struct middle *m, struct intercept *i)
{
	intercept_unref(m->o.intercept);
	m->o.intercept = intercept_ref(i);
	if (m->exchange)
		exchange_set_intercept(m->exchange, i);
}

void middle_judge(struct middle *m, struct intercept *i)
{
	if (!m->o.plain)
		set_intercept(m, i);
	if (!is_held(m))
		return;
	exchange_judge_held(m->exchange);
	middle_run(m, 0, 0);
}

void middle_bytes(const struct middle *m, uint64_t *ret_up, uint64_t *ret_down)
{
	*ret_up = m->server.out;
	*ret_down = m->server.in;
}
