#include "egress/flow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/place.h"
#include "egress/counts.h"
#include "egress/dns_stream.h"
#include "egress/flow_internal.h"
#include "egress/lease.h"
#include "egress/opening.h"
#include "egress/pump.h"
#include "egress/why.h"
#include "egress/why_stream.h"
#include "egress/wrap.h"

enum {
	HEADER_MS = 10000, /* for the guest's header */
	HELLO_MS = 10000,  /* for the rest of a TLS hello that has begun */
};

/* --- the end --- */

struct record flow_record_of(const struct flow *f, const char *verdict)
{
	const struct policy *p = f->flows->context->policy;

	return (struct record){.proto = "tcp",
		.verdict = verdict,
		.rule = f->target.rule[0] ? f->target.rule : NULL,
		.reason = f->target.reason,
		.noted = f->target.noted,
		.name = f->target.name,
		.sandbox = f->between.open ? f->between.to : NULL,
		.program = f->open.name,
		.address = f->dialled ? f->dialled : f->target.asked,
		.port = f->target.port,
		.pid = f->open.pid,
		.generation = p ? p->generation : 0,
		.begin_ms = f->begin_ms,
		.up = f->up.bytes,
		.down = f->down.bytes};
}

static void count_bytes(struct flow *f, uint64_t *ret_up, uint64_t *ret_down)
{
	*ret_up = f->up.bytes;
	*ret_down = f->down.bytes;
	if (f->middle)
		middle_bytes(f->middle, ret_up, ret_down);
	counts_bytes(f->flows->context, *ret_up, &f->told_up, *ret_down, &f->told_down);
}

static void record(struct flow *f, const char *verdict, int err)
{
	struct record r = flow_record_of(f, verdict);

	r.err = err;
	count_bytes(f, &r.up, &r.down);
	record_send(f->flows->context, &r);
}

static void unlink_flow(struct flow *f)
{
	*(f->previous ? &f->previous->next : &f->flows->first) = f->next;
	if (f->next)
		f->next->previous = f->previous;
	f->flows->count--;
}

void flow_close_remote(struct flow *f, bool reset)
{
	static const struct linger now = {.l_onoff = 1};

	if (f->remote.fd < 0)
		return;
	loop_remove(&f->flows->context->loop, &f->remote);
	if (reset)
		(void)setsockopt(f->remote.fd, SOL_SOCKET, SO_LINGER, &now,
			sizeof(now)); /* without it, it ends in order */
	(void)close(f->remote.fd);    /* a socket */
}

/* Closes both sides. If the guest's stream closes before both directions have ended, the guest sees
 * a reset. */
static void end(struct flow *f, bool reset)
{
	struct context *c = f->flows->context;

	loop_stop(&c->loop, &f->timer);
	loop_remove(&c->loop, &f->guest);
	if (f->guest.fd >= 0)
		(void)close(f->guest.fd); /* a socket */
	resolver_cancel(&f->ask);
	consent_end(&f->consent, false);
	dial_stop(&f->dial);
	tunnel_free(f->tunnel);
	between_end(&f->between, f->up.bytes, f->down.bytes, reset);
	dns_stream_free(f->dns);
	why_stream_free(f->why);
	middle_free(f->middle);
	flow_close_remote(f, reset);
	wrap_leave(f->wrap, reset);
	first_done(&f->first);
	pump_done(&f->up);
	pump_done(&f->down);
	c->active -= f->counted;
	c->lease.waiting -= f->state == LEASE;
	c->last_active_ns = c->loop.now_ns;
	unlink_flow(f);
	free(f);
	lease_left(c);
}

static void end_reset(struct flow *f)
{
	record(f, "reset", 0);
	end(f, true);
}

/* --- the answer --- */

static void refuse(struct flow *f, enum egress_verdict verdict, int err, const char *reason)
{
	(void)opening_answer(f->guest.fd, verdict, err, reason); /* it ends anyway */
	if (!f->target.reason[0])
		(void)snprintf(f->target.reason, sizeof(f->target.reason), "%s", reason); /* fits */
	record(f, verdict == EGRESS_DENIED ? "denied" : "failed", err);
	end(f, true);
}

/* --- bytes --- */

/* Sets what to wait for on `to`. A socket that is no longer watched may still have bytes; they are
 * read when the other one can be written. */
static uint32_t events_of(const struct pump *from, const struct pump *to, bool other_watched)
{
	bool write = pump_wants_write(to) || (!other_watched && pump_wants_read(to));

	return (pump_wants_read(from) ? EPOLLIN : 0) | (write ? EPOLLOUT : 0);
}

static void watch_both(struct flow *f)
{
	struct loop *l = &f->flows->context->loop;

	loop_change(l, &f->guest, events_of(&f->up, &f->down, f->remote.added));
	loop_change(l, &f->remote, events_of(&f->down, &f->up, f->guest.added));
}

/* Both directions of a socket have ended. epoll would report that in each turn, so it is not
 * watched any more. It may still have bytes to read. */
static void on_hang_up(struct flow *f, struct loop_watch *w, const struct pump *from)
{
	if (!pump_wants_read(from))
		loop_remove(&f->flows->context->loop, w);
}

/* No more bytes can go to the guest. */
static void on_guest_gone(struct flow *f)
{
	f->guest_gone = true;
	f->down.ended = true;
	buf_clear(&f->down.held);
	on_hang_up(f, &f->guest, &f->up);
}

/* The guest is connected: TLS tells it why it is not served. */
static void refuse_hello(struct flow *f, const char *why, enum first_alert alert)
{
	target_deny(&f->target, "tls", why);
	first_send_alert(f->guest.fd, alert);
	record(f, "denied", 0);
	end(f, true);
}

/* Returns whether the flow is still there. */
static bool look_at_records(struct flow *f)
{
	if (pump_wants_write(&f->up))
		return true;
	switch (first_next(&f->first, f->guest.fd, f->target.name, &f->up.held)) {
	case FIRST_WRONG:
		refuse_hello(f, f->first.why, f->first.alert);
		return false;
	case FIRST_PLAIN:
		f->state = OPEN;
		break;
	case FIRST_MORE:
	case FIRST_TLS:
		break;
	}
	return true;
}

/* The end that came is not the server's. */
static bool is_cut_off(const struct flow *f)
{
	return f->wrap && wrap_reason(f->wrap)[0];
}

/* Returns whether the flow is still there. */
static bool move(struct flow *f)
{
	struct context *c = f->flows->context;
	enum pump_end up = PUMP_GOES_ON, down = PUMP_GOES_ON;

	if (f->state == RECORDS && !look_at_records(f))
		return false;
	if (f->state == OPEN)
		up = pump_run(&f->up, f->guest.fd, f->remote.fd, &c->means);
	else if (f->state == RECORDS)
		up = pump_flush(&f->up, f->remote.fd);
	if (!f->guest_gone)
		down = pump_run(&f->down, f->remote.fd, f->guest.fd, &c->means);
	if (down == PUMP_TO_FAILED &&
		errno == EPIPE) { /* the guest's program has closed: what it sent counts */
		on_guest_gone(f);
		down = PUMP_GOES_ON;
	}
	counts_bytes(c, f->up.bytes, &f->told_up, f->down.bytes, &f->told_down);
	if (up != PUMP_GOES_ON || down != PUMP_GOES_ON || (f->down.ended && is_cut_off(f))) {
		end_reset(f);
		return false;
	}
	if (f->up.shut && (f->down.shut || f->guest_gone)) {
		record(f, "allowed", 0);
		end(f, false); /* if the server still sends, the kernel resets it */
		return false;
	}
	return true;
}

static void on_bytes(struct flow *f, bool guest, uint32_t events)
{
	uint64_t up, down;

	if (f->state == INTERCEPTED) {
		count_bytes(f, &up, &down); /* of the turns before: this one may end it */
		middle_run(f->middle, guest ? events : 0, guest ? 0 : events);
		return;
	}
	if (!guest && events & EPOLLERR) {
		end_reset(f);
		return;
	}
	if (!guest && events & EPOLLHUP && f->between.open && !f->up.shut) {
		end_reset(f); /* the other guest has closed both directions, or is gone */
		return;
	}
	if (guest && events & (EPOLLHUP | EPOLLERR))
		on_guest_gone(f);
	else if (events & EPOLLHUP)
		on_hang_up(f, &f->remote, &f->down);
	if (move(f))
		watch_both(f);
}

static void on_remote(void *arg, uint32_t events)
{
	on_bytes(arg, false, events);
}

/* --- the guest's first bytes --- */

/* Denies a flow whose requests cannot be judged. */
static void refuse_opaque(struct flow *f)
{
	record(f, "denied", 0);
	end(f, true);
}

static void on_middle_end(void *arg, const struct middle_end *e)
{
	struct flow *f = arg;

	if (e->reason[0]) {
		(void)strcpy(f->target.rule, "tls"); /* fits */
		(void)snprintf(f->target.reason, sizeof(f->target.reason), "%s",
			e->reason); /* or is cut */
	}
	record(f, e->verdict, 0);
	end(f, strcmp(e->verdict, "reset") == 0);
}

/* Makes room: ends the intercepted connection that was silent longest, preferably one without an
 * open request. Returns whether there was one to end. */
static bool evict_middle(struct flows *all)
{
	struct flow *best = NULL;
	int64_t most = -1;

	for (struct flow *f = all->first; f; f = f->next) {
		int64_t spare = f->middle ? middle_spare(f->middle) : -1;

		if (spare > most) {
			most = spare;
			best = f;
		}
	}
	if (best)
		middle_evict(best->middle);
	return best;
}

/* Returns why it cannot be, or NULL. */
static const char *make_middle(struct flow *f, struct intercept *i)
{
	struct context *c = f->flows->context;
	struct error e = {0};
	struct middle_options o = {.context = c,
		.intercept = i,
		.guest = &f->guest,
		.remote = &f->remote,
		.name = f->target.name,
		.port = f->target.port,
		.via = f->target.via.name[0] ? &f->target.via : NULL,
		.plain = !f->tls,
		.first = &f->first,
		.ended = on_middle_end,
		.callbacks = {.judge = flow_judge_request,
			.shows = flow_shows_tool,
			.record = flow_record_request,
			.ask = flow_ask_request,
			.unask = flow_unask_request,
			.arg = f},
		.redial = flow_redial,
		.arg = f};

	if (c->middles >= MIDDLES_MAX && !evict_middle(f->flows))
		return "the sandbox has too many intercepted connections";
	if (f->tls && tls_kit_get(&c->tls_kit, i, c->root_fds, &e) < 0)
		return "the sandbox's authority cannot be used";
	o.kit = f->tls ? c->tls_kit : NULL;
	return middle_new(&o, &f->middle) < 0 ? "out of memory" : NULL;
}

static void intercept(struct flow *f, struct intercept *i)
{
	const struct client_hello *h = &f->first.hello;
	const char *why;

	if (h->alpn && !h->h2 && !h->http1) {
		refuse_hello(f, "its TLS hello offers no HTTP, which its rules need",
			ALERT_NO_APPLICATION_PROTOCOL);
		return;
	}
	if (!i)
		why = "the sandbox has no authority yet, which its rules need";
	else
		why = f->down.bytes || buf_len(&f->down.held) ? "the server spoke before TLS began"
							      : make_middle(f, i);
	if (why) {
		refuse_hello(f, why, ALERT_HANDSHAKE_FAILURE);
		return;
	}
	f->state = INTERCEPTED;
	loop_stop(&f->flows->context->loop, &f->timer);
	middle_run(f->middle, 0, 0);
}

/* Lets the bytes that waited, and all others, through. */
static void let_through(struct flow *f, uint32_t events)
{
	if (!target_is_opaque(f->flows->context, &f->target, f->dialled)) {
		refuse_opaque(f);
		return;
	}
	loop_stop(&f->flows->context->loop, &f->timer);
	if (f->tls) {
		f->first.passing = f->first.hello.bytes;
		f->state = RECORDS;
	} else {
		f->up.held = f->first.held;
		f->up.held.max = PUMP_HELD_MAX;
		first_init(&f->first);
		f->state = OPEN;
	}
	on_bytes(f, true, events);
}

/* Whether its bytes, which are not TLS, are read as requests. A server that speaks first speaks no
 * HTTP. */
static bool reads_plain(struct flow *f)
{
	const struct target *t = &f->target;

	if (t->via.name[0] || f->down.bytes || buf_len(&f->down.held))
		return false;
	f->reads_host = !t->inspect && first_may_name_host(&f->first, t->port) &&
			target_is_by_name(f->flows->context, t, f->dialled);
	return f->reads_host || (t->inspect && first_is_http(&f->first));
}

/* Bytes that are not TLS. */
static void on_plain(struct flow *f, uint32_t events)
{
	const char *why;

	if (!reads_plain(f)) {
		let_through(f, events);
		return;
	}
	why = make_middle(f, NULL);
	if (why) {
		target_deny(&f->target, "limit", why);
		refuse_opaque(f);
		return;
	}
	f->state = INTERCEPTED;
	loop_stop(&f->flows->context->loop, &f->timer);
	middle_run(f->middle, 0, 0);
}

/* Whether rules need its requests. */
static bool is_intercepted(const struct flow *f)
{
	return f->target.inspect || intercept_applies(f->flows->context->policy->intercept,
					    f->target.name, f->target.port);
}

static void on_tls(struct flow *f, uint32_t events)
{
	struct intercept *i = f->flows->context->policy->intercept;

	f->tls = true;
	if (is_intercepted(f))
		intercept(f, i);
	else if (f->first.hello.encrypted)
		refuse_hello(
			f, "its TLS hello may hide another name (ECH)", ALERT_HANDSHAKE_FAILURE);
	else
		let_through(f, events);
}

static void on_first_bytes(struct flow *f, uint32_t events)
{
	switch (first_read(&f->first, f->guest.fd, f->target.name)) {
	case FIRST_MORE:
		if (buf_len(&f->first.held) && !f->timer.at_ns)
			loop_start(&f->flows->context->loop, &f->timer, HELLO_MS);
		on_bytes(f, true, events);
		return;
	case FIRST_PLAIN:
		on_plain(f, events);
		return;
	case FIRST_TLS:
		on_tls(f, events);
		return;
	case FIRST_WRONG:
		refuse_hello(f, f->first.why, f->first.alert);
		return;
	}
}

/* early: what the server has sent already. */
static void open_flow(
	struct flow *f, int fd, uint32_t address, const void *early, size_t early_bytes)
{
	struct context *c = f->flows->context;
	struct loop *l = &c->loop;

	f->dialled = address;
	f->remote.fd = fd;
	f->remote.on = on_remote;
	f->remote.arg = f;
	f->state = f->target.name[0] ? HELLO : OPEN; /* a later policy may have names again */
	if (opening_answer(f->guest.fd, EGRESS_OK, 0, "") < 0 ||
		buf_add(&f->down.held, early, early_bytes) < 0 ||
		loop_add(l, &f->remote, fd, EPOLLIN) < 0)
		end_reset(f);
	else
		watch_both(f);
}

/* --- the way to a server --- */

static void on_dialled(void *arg, int fd, uint32_t address)
{
	struct flow *f = arg;

	if (fd < 0)
		refuse(f, EGRESS_FAILED, -fd, "");
	else
		open_flow(f, fd, address, NULL, 0);
}

static void on_tunnel(void *arg, int fd, const char *why)
{
	struct flow *f = arg;

	f->wrap = fd >= 0 ? tunnel_take_wrap(f->tunnel) : NULL;
	if (why)
		target_deny(&f->target, "proxy", why);
	tunnel_free(f->tunnel);
	f->tunnel = NULL;
	if (fd >= 0) {
		open_flow(f, fd, f->target.addresses[0], NULL, 0);
		return;
	}
	refuse(f, EGRESS_FAILED, -fd, "");
}

/* The program of a connection to another sandbox is told why it is denied, if it speaks HTTP. */
static void refuse_between(struct flow *f)
{
	if (f->open.to.port != WHY_PORT) {
		refuse(f, EGRESS_DENIED, f->target.err, f->target.reason);
		return;
	}
	f->state = WHY;
	f->why = why_stream_make(f->flows->context, &f->guest, f->target.reason);
	record(f, "denied", f->target.err);
	if (!f->why || opening_answer(f->guest.fd, EGRESS_OK, 0, "") < 0) {
		end(f, true);
		return;
	}
	loop_start(&f->flows->context->loop, &f->timer, HEADER_MS);
	loop_change(&f->flows->context->loop, &f->guest, EPOLLIN);
}

static void on_between(void *arg, const struct between_answer *a)
{
	struct flow *f = arg;

	loop_stop(&f->flows->context->loop, &f->timer);
	if (a->fd >= 0) {
		open_flow(f, a->fd, f->target.asked, a->early, a->early_bytes);
	} else if (a->err) {
		refuse(f, EGRESS_FAILED, a->err, "");
	} else {
		target_deny(&f->target, "between", a->reason);
		refuse_between(f);
	}
}

static void on_between_over(void *arg)
{
	end_reset(arg);
}

static void ask_between(struct flow *f)
{
	struct context *c = f->flows->context;

	f->state = BETWEEN;
	f->between.done = on_between;
	f->between.over = on_between_over;
	f->between.arg = f;
	if (between_ask(c, &f->between, f->target.port, f->target.to) < 0)
		refuse(f, EGRESS_FAILED, EHOSTUNREACH, "");
	else
		loop_start(&c->loop, &f->timer, c->policy->limits.connect_seconds * 1000);
}

static void dial(struct flow *f)
{
	struct context *c = f->flows->context;
	struct target *t = &f->target;
	unsigned ms = c->policy->limits.connect_seconds * 1000;

	f->state = DIAL;
	if (target_is_proxied(c, t)) {
		f->tunnel = tunnel_start(c, t, ms, on_tunnel, f);
		if (!f->tunnel)
			refuse(f, EGRESS_FAILED, EHOSTUNREACH, "");
		return;
	}
	f->dial.done = on_dialled;
	f->dial.arg = f;
	dial_start(&f->dial, &c->loop, t->addresses, t->count, t->dial_port, ms);
}

static void go(struct flow *f, enum target_step step);

static void on_resolved(void *arg, const struct dns_answer *a)
{
	struct flow *f = arg;

	go(f, target_resolved(f->flows->context, &f->target, a));
}

static void resolve(struct flow *f)
{
	struct dns_answer a;

	f->state = RESOLVE;
	f->ask = (struct resolver_ask){.done = on_resolved, .arg = f};
	if (resolver_ask(f->flows->context->resolver, &f->ask, target_server(&f->target), &a))
		on_resolved(f, &a);
}

static void refuse_consent(struct flow *f, const char *why)
{
	char rule[POLICY_ID_MAX + 1], what[CONSENT_REASON_MAX + 32];

	memcpy(rule, f->target.rule, sizeof(rule));
	(void)snprintf(what, sizeof(what), "nobody has allowed it%s%s", *why ? ": " : "", why);
	target_deny(&f->target, rule, what);
	refuse(f, EGRESS_DENIED, f->target.err, f->target.reason);
}

static void on_consent(void *arg, const struct consent_answer *a)
{
	struct flow *f = arg;

	f->target.consented = a->allowed;
	if (a->allowed)
		dial(f);
	else
		refuse_consent(f, a->reason);
}

/* A person is to decide whether it may. */
static void ask_consent(struct flow *f)
{
	const struct target *t = &f->target;
	char address[NET_TEXT_BYTES];
	const struct consent_question q = {.rule = t->rule,
		.host = t->name,
		.address = net_format(
			place_is_synthetic(t->asked) ? t->addresses[0] : t->asked, address),
		.port = t->port,
		.program = f->open.name};

	f->state = CONSENT;
	f->consent.done = on_consent;
	f->consent.arg = f;
	if (consent_ask(f->flows->context, &f->consent, &q) < 0)
		refuse_consent(f, "there is nobody to ask");
	else if (opening_answer(f->guest.fd, EGRESS_WAITING, 0, "") < 0)
		end(f, true);
}

static void go(struct flow *f, enum target_step step)
{
	struct target *t = &f->target;

	switch (step) {
	case TARGET_DIAL:
		dial(f);
		break;
	case TARGET_ASK:
		ask_consent(f);
		break;
	case TARGET_RESOLVE:
		resolve(f);
		break;
	case TARGET_BETWEEN:
		ask_between(f);
		break;
	case TARGET_DENIED:
		if (t->to[0])
			refuse_between(f);
		else
			refuse(f, EGRESS_DENIED, t->err, t->reason);
		break;
	case TARGET_FAILED:
		refuse(f, EGRESS_FAILED, t->err, "");
		break;
	}
}

/* --- the header --- */

static void become_dns(struct flow *f)
{
	f->state = DNS;
	f->dns = dns_stream_make(f->flows->context, &f->guest);
	if (!f->dns || opening_answer(f->guest.fd, EGRESS_OK, 0, "") < 0)
		end(f, true);
}

static void become_why(struct flow *f)
{
	f->state = WHY;
	f->why = why_stream_make(f->flows->context, &f->guest, NULL);
	if (!f->why || opening_answer(f->guest.fd, EGRESS_OK, 0, "") < 0)
		end(f, true);
	else
		loop_start(&f->flows->context->loop, &f->timer, HEADER_MS);
}

static void refuse_lease(struct flow *f)
{
	const struct context *c = f->flows->context;

	(void)strcpy(f->target.rule, lease_rule(c)); /* fits */
	refuse(f, EGRESS_DENIED, ECONNREFUSED, lease_reason(c));
}

/* It is within all limits. */
static void enter(struct flow *f)
{
	struct context *c = f->flows->context;

	f->counted = true;
	c->active++;
	if (f->open.to.port == DNS_PORT)
		become_dns(f);
	else if (f->target.asked == WHY_ADDRESS && f->target.port == WHY_PORT)
		become_why(f);
	else
		go(f, target_begin(c, f->target.asked, f->target.port, false, &f->target));
}

static void look_at_lease(struct flow *f)
{
	struct context *c = f->flows->context;

	switch (lease_look(c)) {
	case LEASE_ROOM:
		loop_stop(&c->loop, &f->timer);
		enter(f);
		break;
	case LEASE_WAIT:
		f->state = LEASE;
		c->lease.waiting++;
		if (!f->timer.at_ns)
			loop_start(&c->loop, &f->timer, LEASE_WAIT_MS);
		break;
	case LEASE_REFUSED:
		refuse_lease(f);
		break;
	}
}

/* Looks again. */
static void end_wait(struct flow *f)
{
	struct context *c = f->flows->context;

	f->state = HEADER;
	c->lease.waiting--;
	loop_change(&c->loop, &f->guest, EPOLLIN);
	look_at_lease(f);
}

void flows_lent(struct flows *all)
{
	struct flow *f = all->first, *newer;

	while (f && f->next)
		f = f->next;
	for (; f; f = newer) { /* the oldest first */
		newer = f->previous;
		if (f->state == LEASE)
			end_wait(f);
	}
}

static void begin(struct flow *f)
{
	struct context *c = f->flows->context;
	const struct policy_limits *l = c->policy ? &c->policy->limits : NULL;

	f->target.asked = net_get(f->open.to.address);
	f->target.port = f->open.to.port;
	if (l && c->active + c->lease.waiting >= l->flows) {
		(void)strcpy(f->target.rule, "limit flows"); /* fits */
		refuse(f, EGRESS_DENIED, ECONNREFUSED, "the sandbox has too many flows");
		return;
	}
	if (l && !rate_take(&c->flow_rate, l->flows_per_second, c->loop.now_ns)) {
		(void)strcpy(f->target.rule, "limit flowsPerSecond"); /* fits */
		refuse(f, EGRESS_DENIED, ECONNREFUSED, "the sandbox opens flows too fast");
		return;
	}
	look_at_lease(f);
}

static void hand_over(struct flow *f)
{
	struct flows *all = f->flows;
	int fd = f->guest.fd;

	if (opening_answer(f->guest.fd, EGRESS_OK, 0, "") < 0) {
		end(f, true);
		return;
	}
	loop_remove(&all->context->loop, &f->guest);
	f->guest.fd = -1;
	end(f, false);
	all->on_datagrams(all->arg, fd);
}

static void on_header(struct flow *f)
{
	int r;

	do /* its two parts come together */
		r = opening_read(f->guest.fd, f->head, &f->head_bytes, &f->open);
	while (r == 0);
	if (r == -EAGAIN)
		return;
	loop_stop(&f->flows->context->loop, &f->timer);
	f->begin_ms = record_now_ms();
	if (r < 0)
		end(f, true);
	else if (f->open.kind == EGRESS_UDP)
		hand_over(f);
	else
		begin(f);
}

static bool is_passing(const struct flow *f)
{
	return f->state == OPEN || f->state == RECORDS || f->state == INTERCEPTED;
}

static void on_guest(void *arg, uint32_t events)
{
	struct flow *f = arg;

	if (f->state == HEADER) {
		on_header(f);
	} else if (is_passing(f)) {
		on_bytes(f, true, events);
	} else if (f->state == HELLO) {
		on_first_bytes(f, events);
	} else if (f->state == DNS) {
		if (!dns_stream_run(f->dns, events))
			end(f, false);
	} else if (f->state == WHY) {
		if (!why_stream_run(f->why, events))
			end(f, false);
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		end_reset(f); /* it did not wait for the answer */
	} else {
		loop_change(&f->flows->context->loop, &f->guest, 0); /* read when it is open */
	}
}

static void on_late(void *arg)
{
	struct flow *f = arg;

	if (f->state == HELLO)
		refuse_hello(f, "its TLS hello takes too long", ALERT_HANDSHAKE_FAILURE);
	else if (f->state == LEASE)
		refuse_lease(f);
	else if (f->state == BETWEEN)
		refuse(f, EGRESS_FAILED, ETIMEDOUT, "");
	else
		end(f, true);
}

/* #calls egress: fcntl(F_GETFL|F_SETFL) */
void flows_take(struct flows *all, int fd)
{
	struct context *c = all->context;
	unsigned max = (c->policy ? c->policy->limits.flows : 0) + FLOWS_BESIDE_MAX;
	struct flow *f = all->count < max ? calloc(1, sizeof(*f)) : NULL;

	if (!f) {
		(void)close(fd); /* a reset for the guest */
		return;
	}
	*f = (struct flow){
		.flows = all, .next = all->first, .guest = {.on = on_guest, .arg = f, .fd = fd}};
	f->remote.fd = -1;
	f->timer.on = on_late;
	f->timer.arg = f;
	first_init(&f->first);
	pump_init(&f->up);
	pump_init(&f->down);
	if (f->next)
		f->next->previous = f;
	all->first = f;
	all->count++;
	if (fd_set_nonblock(fd, 1) < 0 || loop_add(&c->loop, &f->guest, fd, EPOLLIN) < 0)
		end(f, true);
	else
		loop_start(&c->loop, &f->timer, HEADER_MS);
}

/* --- all of them --- */

struct flows *flows_make(struct context *c, void (*on_datagrams)(void *arg, int fd), void *arg)
{
	struct flows *all = calloc(1, sizeof(*all));

	if (all)
		*all = (struct flows){.context = c, .on_datagrams = on_datagrams, .arg = arg};
	return all;
}

void flows_free(struct flows *all)
{
	while (all && all->first)
		end(all->first, true);
	free(all);
}

unsigned flows_count(const struct flows *all)
{
	return all->count;
}

static bool is_connected(const struct flow *f)
{
	return f->state == HELLO || is_passing(f);
}

/* A flow whose first bytes have not come, or are no HTTP, is not intercepted. */
static bool is_plain_inspected(const struct flow *f)
{
	return f->state == INTERCEPTED && (f->target.inspect || f->reads_host);
}

static bool is_allowed(struct flow *f)
{
	struct context *c = f->flows->context;
	struct target *t = &f->target;

	if (is_connected(f))
		return target_holds(c, t, f->dialled) &&
		       (f->tls ? is_intercepted(f) : is_plain_inspected(f)) ==
			       (f->state == INTERCEPTED);
	if (f->state == BETWEEN)
		return target_holds(c, t, t->asked);
	for (unsigned i = 0; (f->state == DIAL || f->state == CONSENT) && i < t->count; i++)
		if (!target_holds(c, t, t->addresses[i]))
			return false;
	return true; /* RESOLVE: judged when it is resolved; DNS: by question */
}

/* It needs nobody's consent any more, or only that. */
static void judge_consent(struct flow *f)
{
	struct target *t = &f->target;
	bool allowed = is_allowed(f), waits;

	t->consented = true;
	waits = is_allowed(f);
	t->consented = false;
	if (allowed || !waits)
		consent_end(&f->consent, true);
	if (allowed) {
		dial(f);
	} else if (!waits) {
		refuse_consent(f, "the policy has changed");
	}
}

static void judge(struct flow *f)
{
	struct context *c = f->flows->context;

	if (f->state == CONSENT) {
		judge_consent(f);
		return;
	}
	if (is_allowed(f)) {
		if (f->middle)
			middle_judge(f->middle, c->policy->intercept); /* may free f */
		return;
	}
	f->forbidden = true;
	(void)strcpy(f->target.rule, "policy"); /* fits */
	if (is_connected(f))
		end_reset(f);
	else
		refuse(f, EGRESS_DENIED, ECONNREFUSED, "the policy has changed");
}

void flows_judge(struct flows *all)
{
	struct flow *next;

	for (struct flow *f = all->first; f; f = next) {
		next = f->next;
		judge(f);
	}
}
