#include "network/direct_network.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "policy/authority.h"
#include "policy/intercept.h"
#include "policy/network_check.h"
#include "policy/network_floor.h"
#include "network/reach_tell.h"
#include "policy/network_policy.h"
#include "policy/network_reach.h"
#include "proto/json_tree.h"
#include "sandbox/egress_spawn.h"

enum {
	LINE_MAX_BYTES = 256 * 1024, /* of a worker */
	READ_BYTES = 16 * 1024,
	REST_MS = 1000,	   /* after a worker that has failed */
	ANSWER_MAX = 1024, /* bytes */
};

struct direct_network {
	struct network_floors floors; /* what they point to is borrowed */
	json_t *network;	      /* as in a creation, without what it says of the internet */
	bool no_internet;
	int far_fd, dirfd, stop_fd;
	int person_fd;	   /* where somebody answers what rules ask; -1: nobody does */
	uint64_t workers;  /* so many were started */
	json_t *intercept; /* so that requests are judged; or NULL */
	json_t *names;	   /* what the last worker said, for the next one; or NULL */
	pthread_t thread;
	bool started;
};

/* One worker. */
struct worker {
	pid_t pid;
	int fd;
	struct buf in;
	bool failed;
};

/* --- the policy --- */

static int tell_policy(const struct direct_network *n, int fd)
{
	json_t *policy = network_policy(&n->floors, n->network, n->no_internet, 1);
	bool made = policy &&
		    (!n->intercept || json_object_set(policy, "intercept", n->intercept) == 0);
	_cleanup_free_ char *line = NULL;
	struct egress_reach reach;
	int r;

	network_reach(policy, &reach);
	if (made)
		line = network_policy_line(policy, json_incref(n->names));
	else
		json_decref(policy);
	r = line ? reach_tell(n->dirfd, &reach) : -ENOMEM;
	r = r ? r : fd_send_full(fd, line, strlen(line));
	return r ? r : fd_send_full(fd, "\n", 1);
}

/* Requests are judged where rules speak of them. The authority for that lives as long as the
 * sandbox, and no guest trusts it: of HTTPS, the program ends the connection. */
static int make_intercept(struct direct_network *n, struct error *e)
{
	_cleanup_(authority_done) struct authority a = {0};
	json_t *inspected = network_inspected(&n->floors, n->network);
	struct intercept_source s = {.inspected = inspected, .authority = &a};
	json_t *hosts = inspected ? intercept_hosts(&s) : NULL;
	int r = 0;

	if (json_array_size(hosts)) {
		r = authority_make(NULL, hosts, time(NULL), &a, e);
		n->intercept = r == 0 ? intercept_policy(&s) : NULL;
	}
	if (r == 0 && (!hosts || (json_array_size(hosts) && !n->intercept)))
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	json_decref(hosts);
	json_decref(inspected);
	return r;
}

/* --- a worker --- */

/* A flow would wait for ever if nobody can decide. */
static int deny(int fd, json_int_t id, const char *reason)
{
	_cleanup_free_ char *line =
		str_printf("{\"ask\":{\"id\":%lld,\"decision\":\"deny\",\"reason\":\"%s\"}}\n",
			(long long)id, reason);

	return line ? fd_send_full(fd, line, strlen(line)) : -ENOMEM;
}

/* Takes the message. */
static bool tell_person(const struct direct_network *n, json_t *message)
{
	_cleanup_free_ char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
	size_t length = text ? strlen(text) : 0;

	json_decref(message);
	return length && length <= DIRECT_QUESTION_MAX &&
	       send(n->person_fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

static int take_ask(const struct direct_network *n, int fd, json_t *asked)
{
	json_int_t id = json_integer_value(json_object_get(asked, "id"));
	bool over = json_is_true(json_object_get(asked, "end"));

	if (id < 1 || (over && n->person_fd < 0))
		return 0;
	if (n->person_fd < 0)
		return deny(fd, id, "there is nobody to ask without a daemon");
	if (tell_person(n, json_pack("{s:I, s:O}", "worker", (json_int_t)n->workers, "ask", asked)))
		return 0;
	return over ? 0 : deny(fd, id, "too much waits for an answer");
}

/* Returns whether the worker takes it. */
static bool pass_answer(const struct direct_network *n, int fd, const char *text)
{
	json_t *answer = json_tree_stored(text), *line = NULL;
	json_int_t worker = json_integer_value(json_object_get(answer, "worker"));
	_cleanup_free_ char *out = NULL;
	int r = 0;

	if (answer && worker == (json_int_t)n->workers) {
		line = json_pack("{s:O}", "ask", json_object_get(answer, "ask"));
		out = line ? json_dumps(line, JSON_COMPACT) : NULL;
		r = out ? fd_send_full(fd, out, strlen(out)) : -ENOMEM;
		r = r ? r : fd_send_full(fd, "\n", 1);
	}
	json_decref(line);
	json_decref(answer);
	return r == 0;
}

static void take_answer(struct direct_network *n, int fd)
{
	char text[ANSWER_MAX + 1];
	ssize_t got = recv(n->person_fd, text, ANSWER_MAX, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		cleanup_close_p(&n->person_fd);
		n->person_fd = -1;
		return;
	}
	text[got] = '\0';
	if (!pass_answer(n, fd, text))
		log_warn("an answer does not reach the worker of the sandbox's network");
}

static void take_line(struct direct_network *n, struct worker *w, const char *line)
{
	json_t *said = json_tree_stored(line);
	json_t *names = json_object_get(said, "names");
	const char *error = json_string_value(json_object_get(said, "error"));

	if (json_is_object(names)) {
		json_decref(n->names);
		n->names = json_incref(names);
	}
	if (error) {
		log_warn("the worker of the sandbox's network refuses its policy: %s", error);
		w->failed = true;
	}
	if (json_is_true(json_object_get(said, "idle")))
		w->failed = false;
	if (take_ask(n, w->fd, json_object_get(said, "ask")) < 0)
		log_warn(
			"cannot answer a flow of the sandbox that waits: its worker does not read");
	json_decref(said);
}

/* Reads what the socket has. Returns whether more may come. */
static bool take_lines(struct direct_network *n, struct worker *w)
{
	uint8_t *p = buf_reserve(&w->in, READ_BYTES), *end;
	ssize_t got = p ? recv(w->fd, p, READ_BYTES, MSG_DONTWAIT) : -1;

	if (p && got < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (got <= 0)
		return false;
	buf_commit(&w->in, (size_t)got);
	while ((end = memchr(buf_head(&w->in), '\n', buf_len(&w->in)))) {
		*end = '\0';
		take_line(n, w, (const char *)buf_head(&w->in));
		buf_consume(&w->in, (size_t)(end + 1 - buf_head(&w->in)));
	}
	return buf_len(&w->in) < LINE_MAX_BYTES - READ_BYTES;
}

/* Waits for one of two descriptors. Returns false when the thread is to end. */
static bool await(const struct direct_network *n, int fd, int ms)
{
	struct pollfd p[2] = {{.fd = n->stop_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

	while (poll(p, 2, ms) < 0 && errno == EINTR)
		;
	return !p[0].revents;
}

/* The same for a worker. An answer of somebody is taken, and it waits on. */
static bool await_worker(struct direct_network *n, const struct worker *w)
{
	struct pollfd p[3];

	do {
		p[0] = (struct pollfd){.fd = n->stop_fd, .events = POLLIN};
		p[1] = (struct pollfd){.fd = w->fd, .events = POLLIN};
		p[2] = (struct pollfd){.fd = n->person_fd, .events = POLLIN};
		if (poll(p, ARRAY_SIZE(p), -1) < 0)
			p[0].revents = p[1].revents = p[2].revents = 0; /* interrupted */
		if (p[2].revents)
			take_answer(n, w->fd);
	} while (!p[0].revents && !p[1].revents);
	return !p[0].revents;
}

static void end_worker(struct worker *w)
{
	if (w->pid > 0)
		(void)kill(w->pid, SIGKILL); /* it is not waited for yet, so the pid is its own */
	while (w->pid > 0 && waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	cleanup_close_p(&w->fd);
	buf_done(&w->in);
}

static int begin_worker(struct direct_network *n, struct worker *w, struct error *e)
{
	const char *roots = n->floors.all ? n->floors.all->roots : NULL;
	int r = egress_spawn(n->dirfd, n->far_fd, roots, &w->pid, e);

	n->workers++;
	if (r < 0)
		return r;
	w->fd = fd_unix_connect(n->dirfd, "egress.sock", SOCK_STREAM);
	r = w->fd < 0 ? w->fd : tell_policy(n, w->fd);
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "it cannot be told its policy") : 0;
}

/* Returns whether another one may follow. */
static bool serve(struct direct_network *n)
{
	struct worker w = {.fd = -1, .in = BUF_INIT(LINE_MAX_BYTES), .failed = true};
	struct error e = {0};
	bool on = true;

	if (begin_worker(n, &w, &e) < 0)
		log_warn("the sandbox has no network: mayfly-egress: %s", e.message);
	else
		while ((on = await_worker(n, &w)) && take_lines(n, &w))
			;
	end_worker(&w);
	if (n->person_fd >= 0) /* if it is full, what waits there is answered in vain */
		(void)tell_person(
			n, json_pack("{s:I, s:b}", "worker", (json_int_t)n->workers, "gone", 1));
	return on && (!w.failed || await(n, -1, REST_MS));
}

/* Whether a stream waits; the worker will read it. At the channel's end the microVM is gone. */
static bool has_stream(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

static void *run(void *arg)
{
	struct direct_network *n = arg;

	while (await(n, n->far_fd, -1) && has_stream(n->far_fd) && serve(n))
		;
	return NULL;
}

/* --- beginning and end --- */

/* As the body of a creation has it. */
static int take_network(struct direct_network *n, const json_t *network, struct error *e)
{
	static const char name[] = "allow_internet_access";

	n->network = json_copy((json_t *)network);
	if (!n->network)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	n->no_internet = json_is_false(json_object_get(n->network, name));
	(void)json_object_del(n->network, name); /* it may be absent */
	return network_check(n->network, n->no_internet, n->floors.all, e);
}

int direct_network_open(const struct network_floors *floors, const json_t *network,
	struct direct_network **ret, int *ret_vmm_fd, struct error *e)
{
	struct direct_network *n = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	n->far_fd = n->dirfd = n->stop_fd = n->person_fd = -1;
	n->floors = *floors;
	r = take_network(n, network, e);
	if (r == 0)
		r = egress_channel(ret_vmm_fd, &n->far_fd, e);
	if (r < 0) {
		direct_network_close(n);
		return r;
	}
	*ret = n;
	return 0;
}

int direct_network_answer(struct direct_network *n, int *ret_fd, struct error *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "the sandbox's network");
	n->person_fd = pair[0];
	*ret_fd = pair[1];
	return 0;
}

/* Signals are the main thread's. */
static int start_thread(struct direct_network *n)
{
	sigset_t all, before;
	int r;

	(void)sigfillset(&all); /* these cannot fail */
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&n->thread, NULL, run, n);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

int direct_network_start(struct direct_network *n, int dirfd, const char *floor, struct error *e)
{
	int r;

	n->dirfd = dirfd;
	n->floors.template = floor;
	r = make_intercept(n, e);
	if (r < 0)
		return r;
	n->stop_fd = eventfd(0, EFD_CLOEXEC);
	r = n->stop_fd < 0 ? errno : start_thread(n);
	if (r)
		return error_set_errno(e, ERROR_NO_SPACE, r, "the sandbox's network");
	n->started = true;
	return 0;
}

void direct_network_close(struct direct_network *n)
{
	const uint64_t one = 1;

	if (!n)
		return;
	if (n->started) {
		(void)!write(n->stop_fd, &one, sizeof(one)); /* cannot fail for an empty one */
		(void)pthread_join(n->thread, NULL);	     /* our own thread */
	}
	cleanup_close_p(&n->stop_fd);
	cleanup_close_p(&n->far_fd);
	cleanup_close_p(&n->person_fd);
	intercept_wipe(n->intercept);
	json_decref(n->intercept);
	json_decref(n->network);
	json_decref(n->names);
	free(n);
}
