/* Questions in the terminal of `mayfly run` without a microVM: the network of one, as run_direct.c
 * has it, and a session with a command that this program plays.
 *
 *	ask-tool DIRECTORY HOSTS POLICY
 *
 * DIRECTORY: for the worker. HOSTS: as --egress-hosts. POLICY: a file. The VMM's end of the channel
 * is descriptor CHANNEL_FD, where the test takes it. The command says what it is sent: its input in
 * brackets, signals by number, and `held` or `released` when it is; an X ends it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "cli/remote/session.h"
#include "cli/sandbox/run_ask.h"
#include "io/jailed.h"
#include "network/direct_network.h"
#include "policy/network_document.h"
#include "policy/network_floor.h"

enum { CHANNEL_FD = 8, SAID_MAX = 64 * 1024, ROOM = 1024 };

struct command {
	struct buf says;
	bool started, ended, taken;
};

static int next(void *peer, struct session_event *ret, struct error *e)
{
	struct command *c = peer;

	*ret = (struct session_event){.type = SESSION_STARTED};
	if (!c->started)
		return c->started = true;
	if (c->taken)
		buf_clear(&c->says);
	c->taken = false;
	if (buf_len(&c->says)) {
		*ret = (struct session_event){
			SESSION_OUT, buf_head(&c->says), buf_len(&c->says), 0};
		return c->taken = true;
	}
	*ret = (struct session_event){.type = SESSION_EXIT};
	return c->ended;
}

static int check(void *peer, struct error *e)
{
	return 0;
}

static void poll_nothing(void *peer, bool hold, struct pollfd fds[SESSION_PEER_FDS])
{
}

static uint64_t deadline_ns(void *peer)
{
	return UINT64_MAX;
}

static size_t input_room(void *peer)
{
	return ROOM;
}

static bool send_input(void *peer, const void *data, size_t n)
{
	struct command *c = peer;

	c->ended = c->ended || memchr(data, 'X', n);
	return buf_printf(&c->says, "[%.*s]\n", (int)n, (const char *)data) == 0;
}

static void end_input(void *peer)
{
}

static void send_signal(void *peer, int signo)
{
	(void)buf_printf(&((struct command *)peer)->says, "signal %d\n", signo);
}

static void send_size(void *peer, unsigned cols, unsigned rows)
{
}

static const struct session_peer_ops ops = {next, check, poll_nothing, deadline_ns, input_room,
	send_input, end_input, send_signal, send_size};

static void hold(void *arg, bool on)
{
	(void)buf_printf(&((struct command *)arg)->says, "%s\n", on ? "held" : "released");
}

static int begin(char **argv, const struct network_floors *floors, const json_t *network,
	struct direct_network **ret, int *ret_person, struct error *e)
{
	int vmm_fd, dirfd = open(argv[1], O_DIRECTORY | O_CLOEXEC);
	int r = direct_network_open(floors, network, ret, &vmm_fd, e);

	if (r == 0 && (dirfd < 0 || dup2(vmm_fd, CHANNEL_FD) < 0))
		r = error_set(e, ERROR_INTERNAL, EBADF, "the directory or the channel");
	if (r == 0)
		r = direct_network_answer(*ret, ret_person, e);
	return r ? r : direct_network_start(*ret, dirfd, NULL, e);
}

static int run(char **argv, struct error *e)
{
	const struct network_words words = {.hosts = argv[2]};
	struct command command = {.says = BUF_INIT(SAID_MAX)};
	struct session_options so = {.ops = &ops, .peer = &command};
	struct run_ask_options o = {.hold = hold, .arg = &command};
	struct direct_network *n = NULL;
	struct network_floor *floor = NULL;
	struct run_ask *ask = NULL;
	struct session_result result;
	json_t *policy = NULL, *network = NULL;
	int r = network_document_read(argv[3], "POLICY", &policy, NULL, e);

	if (r == 0)
		r = network_floor_make(&words, &floor, e);
	o.policy = policy;
	network = json_pack("{s:O}", "policy", policy);
	if (r == 0)
		r = begin(argv, &(struct network_floors){.all = floor}, network, &n, &o.fd, e);
	r = r ? r : run_ask_open(&o, &ask, e);
	if (r == 0) {
		so.prompt = run_ask_prompt(ask);
		puts("ready");
		fflush(stdout);
		r = session_run(&so, &result, e);
	}
	run_ask_close(ask);
	direct_network_close(n);
	network_floor_free(floor);
	json_decref(network);
	json_decref(policy);
	buf_done(&command.says);
	return r;
}

int main(int argc, char **argv)
{
	struct error e = {0};
	int r = argc == 4 ? jailed_configure("on", &e) : -EINVAL;

	r = r ? r : jailed_prepare(NULL, &e);
	r = r ? r : run(argv, &e);
	if (r < 0)
		fprintf(stderr, "ask-tool: %s\n", e.message);
	return r < 0;
}
