/* The daemon's links with workers: what they say is taken in turns. */
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "fleet/turns.h"
#include "network/egress_link.h"

enum { LINKS = 20, LINES = 200, COST_MS = 1 };

static struct worker {
	struct egress_link *link;
	int fd; /* the worker's end */
	unsigned taken;
} workers[LINKS];

static char directory[] = "/tmp/test-egress-link.XXXXXX";
static unsigned all_taken, in_turn, most_in_turn, lost;
static uv_loop_t *loop;

/* Counts the lines between two turns of the loop. */
static void on_prepare(uv_prepare_t *h)
{
	most_in_turn = in_turn > most_in_turn ? in_turn : most_in_turn;
	in_turn = 0;
}

static void on_line(json_t *object, void *arg)
{
	uint64_t end_ns = clock_monotonic_ns() + COST_MS * NS_PER_MS;
	struct worker *w = arg;

	while (clock_monotonic_ns() < end_ns)
		;
	in_turn++;
	all_taken++;
	if (++w->taken == LINES)
		(void)close(w->fd);
	if (all_taken == 3 && LINKS > 1 && w != &workers[1]) { /* a callback may close any */
		(void)close(workers[1].fd);
		egress_link_close(workers[1].link);
		workers[1].link = NULL;
	}
}

static void on_lost(const char *why, void *arg)
{
	struct worker *w = arg;

	assert_string_equal(why, "it has ended");
	assert_int_equal(w->taken, LINES); /* of what it said last, nothing is lost */
	egress_link_close(w->link);
	w->link = NULL;
	if (++lost == LINKS - 1)
		uv_stop(loop);
}

static void open_worker(struct worker *w, int dirfd)
{
	static const struct egress_link_ops ops = {on_line, on_lost};
	static const char line[] = "{\"flow\":{}}\n";
	struct error e = {0};
	int listener;

	(void)unlinkat(dirfd, "egress.sock", 0);
	listener = fd_unix_listen(dirfd, "egress.sock", SOCK_STREAM, 1);
	assert_true(listener >= 0);
	assert_int_equal(egress_link_open(loop, dirfd, &ops, w, &w->link, &e), 0);
	w->fd = accept(listener, NULL, NULL);
	assert_true(w->fd >= 0);
	for (unsigned i = 0; i < LINES; i++)
		assert_int_equal(write(w->fd, line, sizeof(line) - 1), sizeof(line) - 1);
	(void)close(listener);
}

/* However many workers talk, and however much a line costs, the loop goes on to others. */
static void test_floods_take_turns(void **state)
{
	uv_prepare_t prepare;
	int dirfd;

	assert_non_null(mkdtemp(directory));
	dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	loop = uv_default_loop();
	(void)uv_prepare_init(loop, &prepare);
	(void)uv_prepare_start(&prepare, on_prepare);
	for (unsigned i = 0; i < LINKS; i++)
		open_worker(&workers[i], dirfd);
	(void)uv_run(loop, UV_RUN_DEFAULT);
	assert_int_equal(lost, LINKS - 1);
	assert_int_equal(all_taken, (LINKS - 1) * LINES + workers[1].taken);
	assert_true(most_in_turn <= TURNS_MS / COST_MS + 8); /* and one share */
	(void)unlinkat(dirfd, "egress.sock", 0);
	(void)close(dirfd);
	(void)rmdir(directory);
	uv_close((uv_handle_t *)&prepare, NULL);
	(void)uv_run(loop, UV_RUN_DEFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_floods_take_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
