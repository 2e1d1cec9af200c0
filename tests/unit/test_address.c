/* Addresses that a stranger may make the daemon connect to. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/address.h"
#include "base/cleanup.h"
#include "test.h"

static bool is_public(const char *text)
{
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
		return address_is_public((struct sockaddr *)&four);
	assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
	return address_is_public((struct sockaddr *)&six);
}

static void test_public(void **state)
{
	static const char *const good[] = {"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255",
		"100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "172.15.255.255",
		"172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
		"223.255.255.255", "2001:4860:4860::8888", "2606:4700::1111", "3fff::1"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (!is_public(good[i]))
			fail_msg("%s is public", good[i]);
}

static void test_not_public(void **state)
{
	static const char *const bad[] = {"0.0.0.0", "0.255.255.255", "10.0.0.1", "100.64.0.0",
		"100.127.255.255", "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.0",
		"172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.255.255",
		"198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
		"240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:8.8.8.8", "::8.8.8.8",
		"64:ff9b::1.1.1.1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "fc00::1",
		"fdff::1", "fe80::1", "fec0::1", "ff02::1", "1fff::1", "4000::1"};
	const struct sockaddr unix_socket = {.sa_family = AF_UNIX};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (is_public(bad[i]))
			fail_msg("%s is not public", bad[i]);
	assert_false(address_is_public(&unix_socket));
}

static struct sockaddr_in four(const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET};

	assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
	return a;
}

/* In a network of its own, whose loopback interface gets a public address. */
static void test_own(void **state)
{
	struct sockaddr_in a = four("8.8.4.4"), b = four("8.8.8.8");
	struct ifreq r = {.ifr_name = "lo"};
	int fd;

	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		skip();
	assert_false(address_is_own((struct sockaddr *)&a));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	memcpy(&r.ifr_addr, &a, sizeof(a));
	assert_int_equal(ioctl(fd, SIOCSIFADDR, &r), 0);
	close(fd);
	assert_true(address_is_public((struct sockaddr *)&a));
	assert_true(address_is_own((struct sockaddr *)&a));
	assert_false(address_is_own((struct sockaddr *)&b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_public),
		cmocka_unit_test(test_not_public),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
