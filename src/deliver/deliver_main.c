/* mayfly-deliver [CA]: sends deliveries to webhooks. The daemon asks for them over a socket, stdin
 * (deliver_wire.h), and starts the program in a jail (daemon/deliverer.h). Receivers are strangers,
 * and tenants choose them. Whatever they do to libcurl and OpenSSL, they do it here, where there
 * are no keys, no database and no other work. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "deliver/request.h"

enum {
	FAILED = 1,
	PAUSE_MS = 1000,
	NICE = 10,
	STACK_BYTES = 512 * 1024, /* of a thread that resolves a name */
	MEMORY_MAX = 512 << 20,
};

static struct {
	CURLM *multi;
	const char *ca;
	unsigned running;
} here;

static int say(const struct deliver_said *said)
{
	return fd_send_full(STDIN_FILENO, said, sizeof(*said));
}

/* False: the daemon is gone, or says what it may not. */
static bool take_packet(void)
{
	static char packet[DELIVER_ASK_MAX];
	ssize_t n = recv(STDIN_FILENO, packet, sizeof(packet), MSG_DONTWAIT);
	struct request *r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0 || here.running == DELIVER_AT_ONCE_MAX)
		return false;
	r = request_new(packet, (size_t)n, here.ca);
	if (!r)
		return false;
	here.running++;
	return curl_multi_add_handle(here.multi, request_handle(r)) == CURLM_OK;
}

static int take_result(CURLMsg *m)
{
	struct deliver_said said;
	CURLcode result = m->data.result;
	struct request *r;

	(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
	request_conclude(r, result, &said);
	(void)curl_multi_remove_handle(here.multi, request_handle(r)); /* it is in it */
	request_free(r);
	here.running--;
	return say(&said);
}

static bool take_results(void)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(here.multi, &left)))
		if (m->msg == CURLMSG_DONE && take_result(m) < 0)
			return false;
	return true;
}

static void serve(void)
{
	struct curl_waitfd daemon = {.fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN};
	int running;

	for (;;) {
		if (curl_multi_perform(here.multi, &running) != CURLM_OK || !take_results())
			return;
		daemon.revents = 0;
		if (curl_multi_poll(here.multi, &daemon, 1, PAUSE_MS, NULL) != CURLM_OK)
			return;
		if (daemon.revents && !take_packet())
			return;
	}
}

/* Of this process. The daemon does without the program if it reaches them. */
static void limit(void)
{
	pthread_attr_t small;

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	(void)setrlimit(RLIMIT_DATA, &(struct rlimit){MEMORY_MAX, MEMORY_MAX});
	(void)setpriority(PRIO_PROCESS, 0, NICE);
	(void)signal(SIGPIPE, SIG_IGN);
	if (pthread_attr_init(&small) == 0) {
		(void)pthread_attr_setstacksize(&small, STACK_BYTES);
		(void)pthread_setattr_default_np(&small);
		(void)pthread_attr_destroy(&small); /* always 0 */
	}
}

int main(int argc, char **argv)
{
	int kind;

	if (argc > 2 || getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &kind,
				&(socklen_t){sizeof(kind)}) < 0) {
		(void)fprintf(stderr, "mayfly runs this program itself\n");
		return FAILED;
	}
	limit();
	here.ca = argc == 2 ? argv[1] : NULL;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || !(here.multi = curl_multi_init())) {
		(void)fprintf(stderr, "libcurl cannot be prepared\n");
		return FAILED;
	}
	serve();
	return 0; /* its memory goes with the process */
}
