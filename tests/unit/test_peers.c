/* Addresses that limits go by. */
#include "test.h"

#include "base/clock.h"
#include "http/peers.h"

static struct peers *peers;

static int open_peers(void **state)
{
	peers = peers_new();
	return peers ? 0 : -1;
}

static int close_peers(void **state)
{
	peers_free(peers);
	return 0;
}

static void connections_of_an_address(void **state)
{
	struct peer *a = peers_join(peers, "192.0.2.1"), *b = peers_join(peers, "192.0.2.2");

	assert_ptr_not_equal(a, b);
	assert_ptr_equal(peers_join(peers, "192.0.2.1"), a);
	assert_ptr_equal(peers_join(peers, "::ffff:192.0.2.1"), a); /* of a socket for both */
	assert_int_equal(a->connections, 3);
	assert_false(a->trusted);
	peers_leave(peers, a);
	assert_int_equal(a->connections, 2);
	peers_leave(peers, b);
	peers_leave(peers, NULL);
}

static void networks_of_customers(void **state)
{
	struct peer *a = peers_join(peers, "2001:db8:1:2::1");

	assert_ptr_equal(peers_join(peers, "2001:db8:1:2:ffff::9"), a);
	assert_ptr_not_equal(peers_join(peers, "2001:db8:1:3::1"), a);
}

static void proxies(void **state)
{
	struct error e = {0};

	assert_true(peers_join(peers, "127.0.0.1")->trusted);
	assert_true(peers_join(peers, "127.9.9.9")->trusted);
	assert_true(peers_join(peers, "::1")->trusted);
	assert_true(peers_join(peers, "")->trusted);
	assert_false(peers_join(peers, "192.0.2.1")->trusted);
	assert_int_equal(peers_trust(peers, "192.0.2.1", &e), 0);
	assert_int_equal(peers_trust(peers, "2001:db8::7", &e), 0);
	assert_true(peers_join(peers, "192.0.2.1")->trusted); /* from now on */
	assert_true(peers_join(peers, "2001:db8::7")->trusted);
	assert_false(peers_join(peers, "2001:db8::8")->trusted);
	assert_true(peers_trust(peers, "example.com", &e) < 0);
	assert_int_equal(e.code, ERROR_USAGE);
}

/* How many guesses in a row are let through at that time. */
static unsigned guesses(const struct peer *peer, const char *forwarded, uint64_t now_ns)
{
	unsigned n = 0;

	for (; n < 1000 && peers_may_guess(peers, peer, forwarded, now_ns); n++)
		peers_note_guess(peers, peer, forwarded, now_ns);
	return n;
}

static void guesses_of_an_address(void **state)
{
	struct peer *a = peers_join(peers, "192.0.2.1"), *b = peers_join(peers, "192.0.2.2");
	uint64_t now_ns = 1000 * NS_PER_S;

	assert_int_equal(guesses(a, NULL, now_ns), PEERS_GUESSES);
	assert_int_equal(guesses(a, "198.51.100.1", now_ns), 0); /* it says what it likes */
	assert_int_equal(guesses(a, NULL, now_ns + NS_PER_S), PEERS_GUESSES_A_SECOND);
	assert_int_equal(guesses(b, NULL, now_ns), PEERS_GUESSES);
	assert_int_equal(guesses(a, NULL, now_ns + 100 * NS_PER_S), PEERS_GUESSES);
}

static void guesses_behind_a_proxy(void **state)
{
	struct peer *proxy = peers_join(peers, "127.0.0.1");
	uint64_t now_ns = 1000 * NS_PER_S;

	assert_int_equal(guesses(proxy, NULL, now_ns), 1000); /* this host's own users */
	assert_int_equal(guesses(proxy, "198.51.100.1", now_ns), PEERS_GUESSES);
	assert_int_equal(guesses(proxy, "10.0.0.1, 198.51.100.1", now_ns), 0);
	assert_int_equal(guesses(proxy, "198.51.100.1, 198.51.100.2", now_ns), PEERS_GUESSES);
	assert_int_equal(guesses(proxy, "nonsense", now_ns), 1000);
}

#define PEERS_TEST(f) cmocka_unit_test_setup_teardown(f, open_peers, close_peers)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PEERS_TEST(connections_of_an_address),
		PEERS_TEST(networks_of_customers),
		PEERS_TEST(proxies),
		PEERS_TEST(guesses_of_an_address),
		PEERS_TEST(guesses_behind_a_proxy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
