#include "egress/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "egress/between.h"
#include "egress/consent.h"
#include "egress/context.h"
#include "egress/counts.h"
#include "egress/datagrams.h"
#include "egress/flow.h"
#include "egress/lease.h"
#include "egress/middle.h"
#include "egress/names_report.h"
#include "egress/target.h"
#include "egress/wrap.h"
#include "intercept/tls_kit.h"
#include "proto/json_tree.h"

enum {
	KIT_STEP_MS = 1,
	POLICY_WAIT_MS =
		5000, /* streams wait this long for the first policy; then they are refused */
	STREAMS_AT_ONCE = 16,
};

/* All tables together, when full, fit the limit and leave a fifth for the allocator. A flow counts
 * with its bytes in both directions; an intercepted connection with TLS and HTTP of both sides; the
 * policy and the authorities of servers and of a proxy as text and parsed. */
enum {
	FLOW_BYTES = 2 * PUMP_HELD_MAX + CLIENT_HELLO_MAX + WRAP_BYTES_MAX + (4 << 10),
	POLICY_BYTES = 2 * (LINK_LINE_MAX + (12 << 20)),
	ROOTS_BYTES = 3 * TRUST_FILES * (TRUST_FILE_MAX + (16 << 20)),
	TABLES_BYTES = (POLICY_FLOWS_MAX + FLOWS_BESIDE_MAX) * FLOW_BYTES +
		       MIDDLES_MAX * MIDDLE_BYTES_MAX + HTTP2_BUDGET_MAX + HTTP2_LENT_MAX +
		       CONSENTS_MAX * CONSENT_LINE_MAX + POLICY_BYTES + ROOTS_BYTES,
};
_Static_assert(
	TABLES_BYTES / 10 * 12 < WORKER_MEMORY_MAX, "the tables do not fit the memory limit");

struct worker {
	struct context context;
	struct worker_options options;
	struct loop_watch channel;
	struct loop_timer idle, patience;
	struct flows *flows;
	struct datagrams *datagrams;
};

/* --- to the daemon --- */

static void say(struct worker *w, const char *key, const char *value)
{
	struct buf b = BUF_INIT(1024);
	json_t *text = json_pack("{s:s}", key, value);
	char *line = text ? json_dumps(text, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

	if (line && buf_add_str(&b, line) == 0 && buf_add_str(&b, "\n") == 0)
		(void)link_send(&w->context.link, &b); /* the next message is as good */
	free(line);
	json_decref(text);
	buf_done(&b);
}

static void say_text(struct worker *w, const char *line)
{
	struct buf b = BUF_INIT(256);

	if (buf_add_str(&b, line) == 0)
		(void)link_send(&w->context.link, &b); /* the next message is as good */
	buf_done(&b);
}

static void say_applied(struct worker *w)
{
	char line[64];

	(void)snprintf(line, sizeof(line), "{\"applied\":%llu}\n",
		(unsigned long long)w->context.policy->generation); /* fits */
	say_text(w, line);
}

static void on_client(void *arg)
{
	struct worker *w = arg;

	if (w->context.policy)
		say_applied(w);
	names_report(&w->context);
	counts_tell(&w->context);
	between_tell(&w->context);
	consent_tell(&w->context);
	lease_tell(&w->context);
}

/* For the next worker. */
static void say_denials(struct worker *w)
{
	struct denials *d = &w->context.denials;
	struct buf b = BUF_INIT(DENIALS_TEXT_MAX);

	if (d->changes != w->context.denials_told && buf_add_str(&b, "{\"denials\":") == 0 &&
		denials_json(d, &b) == 0 && buf_add_str(&b, "}\n") == 0)
		(void)link_send(&w->context.link, &b); /* else the next one knows of none */
	buf_done(&b);
}

/* --- policies --- */

/* names: NULL if no worker gave any out. */
static int restore_names(struct worker *w, json_t *names, struct error *e)
{
	const char *name;
	json_t *value;
	uint32_t address;

	if (!names)
		return 0;
	if (!json_is_object(names) || json_object_size(names) > NAMES_MAX)
		return error_set(e, ERROR_USAGE, EINVAL, "names: expected an object of at most %d",
			NAMES_MAX);
	json_object_foreach(names, name, value)
	{
		const char *text = json_string_value(value);

		if (!policy_is_host(name) || !text || net_parse_address(text, &address) < 0 ||
			names_restore(w->context.names, name, address) < 0)
			return error_set(e, ERROR_USAGE, EINVAL,
				"names: expected names with addresses of 198.18.0.0/15");
	}
	return 0;
}

/* What the daemon sent. Without names or denials: NULL. */
struct message {
	json_t *policy, *names, *denials;
};

static void listen_to_guest(struct worker *w)
{
	loop_stop(&w->context.loop, &w->patience);
	loop_change(&w->context.loop, &w->channel, EPOLLIN);
}

/* Preparing interception takes a while. So it is done in steps beside other work, if possible
 * before the first intercepted connection. */
static void on_kit(void *arg)
{
	struct worker *w = arg;
	struct context *c = &w->context;

	if ((c->tls_kit && tls_kit_step(c->tls_kit) == 0) || proxy_trust_step(&c->proxy_trust) == 0)
		loop_start(&c->loop, &c->kit_timer, KIT_STEP_MS);
}

static void prepare_kit(struct context *c)
{
	struct intercept *i = c->policy->intercept;

	if (!i) {
		tls_kit_unref(c->tls_kit);
		c->tls_kit = NULL;
	}
	/* without memory a flow says so */
	if (i)
		(void)tls_kit_begin(&c->tls_kit, i, c->root_fds, NULL);
	(void)proxy_trust_begin(&c->proxy_trust, c->policy->proxies, c->root_fds);
	if (c->tls_kit || c->proxy_trust.made)
		loop_start(&c->loop, &c->kit_timer, KIT_STEP_MS);
}

static int apply(struct worker *w, const struct message *m, struct error *e)
{
	struct context *c = &w->context;
	struct policy *p;
	int r = policy_make(m->policy, &p, e);

	if (r < 0)
		return r;
	if (c->policy && p->generation < c->policy->generation)
		r = error_set(e, ERROR_USAGE, EINVAL, "generation: a newer one is in force");
	r = r ? r : restore_names(w, m->names, e);
	if (r == 0 && m->denials && !c->policy && denials_restore(&c->denials, m->denials) < 0)
		r = error_set(e, ERROR_USAGE, EINVAL, "denials: expected those of a worker");
	if (r < 0) {
		policy_free(p);
		return r;
	}
	policy_free(c->policy);
	c->policy = p;
	prepare_kit(c);
	resolver_set(c->resolver, p->dns, p->dns_count);
	flows_judge(w->flows);
	datagrams_judge(w->datagrams);
	listen_to_guest(w);
	say_applied(w);
	return 0;
}

/* If the connection is open, the message says where it leads and comes with a descriptor. */
static void take_between(struct worker *w, const json_t *between)
{
	int fd = json_object_get(between, "to") ? link_take_fd(&w->context.link) : -1;

	if (between_take(&w->context, between, fd) < 0)
		say(w, "error", "between: expected what became of a connection to another sandbox");
}

static void take_lease(struct worker *w, const json_t *said)
{
	struct context *c = &w->context;

	if (lease_take(c, said) < 0) {
		say(w, "error", "flows.lent: expected how many flows there may be");
		return;
	}
	flows_lent(w->flows);
	lease_left(c); /* many may have ended meanwhile */
}

/* What is no policy. */
static bool take_answer(struct worker *w, const json_t *message)
{
	const json_t *between = json_object_get(message, "between");
	const json_t *ask = json_object_get(message, "ask");
	const json_t *flows = json_object_get(message, "flows");

	if (between)
		take_between(w, between);
	else if (ask && consent_take(&w->context, ask) < 0)
		say(w, "error", "ask: expected an id and a decision, allow or deny");
	else if (flows)
		take_lease(w, flows);
	return between || ask || flows;
}

static void on_line(void *arg, char *line, size_t n)
{
	struct worker *w = arg;
	const char *reason = NULL;
	struct error e = {0};
	json_t *message = json_tree_parse(line, n, JSON_TREE_UNIQUE | JSON_TREE_NO_NUL, &reason);
	const struct message m = {json_object_get(message, "policy"),
		json_object_get(message, "names"), json_object_get(message, "denials")};
	unsigned members = 1u + (m.names != NULL) + (m.denials != NULL);

	if (take_answer(w, message)) {
		json_decref(message);
		return;
	}
	if (!message)
		(void)error_set(&e, ERROR_USAGE, EINVAL, "%s", reason);
	else if (!m.policy || json_object_size(message) != members)
		(void)error_set(&e, ERROR_USAGE, EINVAL,
			"expected {\"policy\": {...}, \"names\": ..., \"denials\": ...}");
	else
		(void)apply(w, &m, &e);
	if (e.code)
		say(w, "error", e.message);
	json_decref(message);
}

/* --- streams --- */

/* Returns a descriptor, -EAGAIN, or another error at the end of the channel.
 *
 * #calls egress: recvmsg */
static int receive_stream(int channel)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(channel, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *c;
	int fd;

	if (n <= 0)
		return n == 0 ? -EPIPE : -errno;
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		c->cmsg_len != CMSG_LEN(sizeof(int)))
		return -EBADMSG;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void on_channel(void *arg, uint32_t events)
{
	struct worker *w = arg;

	(void)events; /* what is received says all */
	for (unsigned i = 0; i < STREAMS_AT_ONCE; i++) {
		int fd = receive_stream(w->channel.fd);

		if (fd >= 0) {
			flows_take(w->flows, fd);
		} else if (fd == -EPIPE || fd == -ECONNRESET) { /* the guest has ended */
			loop_remove(&w->context.loop, &w->channel);
			loop_start(&w->context.loop, &w->idle, 0);
			return;
		} else if (fd != -EBADMSG && fd != -EINTR) {
			return; /* there are no more, or no descriptor is free until a flow ends */
		}
	}
}

static void on_datagrams(void *arg, int fd)
{
	struct worker *w = arg;

	datagrams_take(w->datagrams, fd);
}

static void on_impatient(void *arg)
{
	listen_to_guest(arg);
}

/* --- the end --- */

static void on_idle(void *arg)
{
	struct worker *w = arg;
	struct context *c = &w->context;
	uint64_t idle_ms = (c->loop.now_ns - c->last_active_ns) / NS_PER_MS;
	bool busy = c->active || flows_count(w->flows);

	if (!busy && (!w->channel.added || idle_ms >= w->options.idle_ms)) {
		counts_tell(c);
		say_denials(w);
		say_text(w, "{\"idle\":true}\n");
		c->loop.over = true;
		return;
	}
	loop_start(&c->loop, &w->idle,
		!w->channel.added ? 100
		: busy		  ? w->options.idle_ms
				  : w->options.idle_ms - idle_ms);
}

/* --- begin --- */

/* The operator's resolvers may be anywhere. Those of a client may be where its flows may go, so not
 * on this host. */
static bool may_ask(void *arg, uint32_t server)
{
	struct context *c = arg;
	const char *why;

	return c->policy && (!c->policy->dns_given || target_place_open(c, server, &why));
}

static int make_parts(struct worker *w)
{
	struct context *c = &w->context;

	counts_init(c);
	c->names = names_make();
	c->resolver = resolver_make(&c->loop, may_ask, c);
	w->flows = flows_make(c, on_datagrams, w);
	w->datagrams = datagrams_make(c);
	return c->names && c->resolver && w->flows && w->datagrams ? 0 : -ENOMEM;
}

static int begin(struct worker *w)
{
	struct context *c = &w->context;
	int r = loop_init(&c->loop);

	c->loop.broker_fd = w->options.broker_fd;
	r = r ? r : pump_means_init(&c->means);
	r = r ? r : make_parts(w);
	r = r ? r : link_init(&c->link, &c->loop, w->options.clients_fd);
	r = r ? r : loop_add(&c->loop, &w->channel, w->options.channel_fd, 0);
	if (r < 0)
		return r;
	c->last_active_ns = c->loop.now_ns;
	loop_start(&c->loop, &w->idle, w->options.idle_ms);
	loop_start(&c->loop, &w->patience, POLICY_WAIT_MS);
	return 0;
}

int worker_make(const struct worker_options *o, struct worker **ret, struct error *e)
{
	struct worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	w->options = *o;
	w->context.middle_idle_ms = o->middle_idle_ms;
	w->context.loop.epoll_fd = -1;
	w->context.means.pipe[0] = w->context.means.pipe[1] = -1;
	memcpy(w->context.root_fds, o->root_fds, sizeof(o->root_fds));
	w->context.link.on_client = on_client;
	w->context.link.on_line = on_line;
	w->channel.on = on_channel;
	w->idle.on = on_idle;
	w->context.kit_timer.on = on_kit;
	w->context.kit_timer.arg = w;
	w->patience.on = on_impatient;
	w->context.link.arg = w->channel.arg = w->idle.arg = w->patience.arg = w;
	r = begin(w);
	if (r < 0) {
		worker_free(w);
		return error_set_errno(e, ERROR_HOST, -r, "cannot begin");
	}
	*ret = w;
	return 0;
}

void worker_run(struct worker *w)
{
	loop_run(&w->context.loop);
}

void worker_free(struct worker *w)
{
	struct context *c = &w->context;

	datagrams_free(w->datagrams);
	flows_free(w->flows);
	link_done(&c->link);
	resolver_free(c->resolver);
	names_free(c->names);
	wraps_free(c);
	tls_kit_unref(c->tls_kit);
	proxy_trust_done(&c->proxy_trust);
	policy_free(c->policy);
	pump_means_done(&c->means);
	cleanup_close_p(&c->loop.epoll_fd);
	free(w);
}
