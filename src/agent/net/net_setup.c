#include "agent/net/net_setup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/netlink.h"
#include "base/cleanup.h"
#include "base/fd.h"

enum { PREFIX = 24 };

static const char interface[] = "eth0";

static int interface_up(int fd, const char *name)
{
	struct ifreq r = {0};

	strcpy(r.ifr_name, name); /* "lo", "eth0" */
	if (ioctl(fd, SIOCGIFFLAGS, &r) < 0)
		return -errno;
	r.ifr_flags |= IFF_UP | IFF_RUNNING;
	return ioctl(fd, SIOCSIFFLAGS, &r) < 0 ? -errno : 0;
}

/* The module makes one device, in the first network namespace. */
static int make_dummy(int fd)
{
	struct ifreq r = {.ifr_name = "dummy0"};
	struct ifinfomsg head = {0};
	struct netlink n = {0};
	_cleanup_close_ int nl = -1;
	size_t info;

	strcpy(r.ifr_newname, interface); /* fits */
	if (if_nametoindex(interface))
		return 0;
	if (ioctl(fd, SIOCSIFNAME, &r) == 0)
		return 0;
	nl = netlink_open(NETLINK_ROUTE, 0);
	if (nl < 0)
		return nl;
	netlink_begin(&n, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &head, sizeof(head));
	netlink_put_string(&n, IFLA_IFNAME, interface);
	info = netlink_nest(&n, IFLA_LINKINFO);
	netlink_put_string(&n, IFLA_INFO_KIND, "dummy");
	netlink_nest_end(&n, info);
	return netlink_ask(nl, &n);
}

/* Adds the address without a route for its prefix: the kernel would look for neighbours there, and
 * none answers. */
static int add_address(void)
{
	struct ifaddrmsg head = {.ifa_family = AF_INET,
		.ifa_prefixlen = PREFIX,
		.ifa_scope = RT_SCOPE_UNIVERSE,
		.ifa_index = if_nametoindex(interface)};
	in_addr_t address = inet_addr(NET_ADDRESS);
	_cleanup_close_ int fd = netlink_open(NETLINK_ROUTE, 0);
	struct netlink n = {0};
	int r;

	if (fd < 0)
		return fd;
	netlink_begin(&n, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &head, sizeof(head));
	netlink_put(&n, IFA_LOCAL, &address, sizeof(address));
	netlink_put(&n, IFA_ADDRESS, &address, sizeof(address));
	netlink_put_u32(&n, IFA_FLAGS, IFA_F_PERMANENT | IFA_F_NOPREFIXROUTE);
	r = netlink_ask(fd, &n);
	return r == -EEXIST ? 0 : r;
}

/* No address of IPv6 either: with one, resolvers would ask for addresses that cannot be reached. */
static void no_ipv6(void)
{
	int fd = open("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;		  /* a kernel without IPv6 */
	(void)!write(fd, "1", 1); /* it is only nicer */
	(void)close(fd);	  /* likewise */
}

/* When "lo" comes up, the kernel gives it 127.0.0.1/8 and ::1. */
int net_setup_loopback(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : interface_up(fd, "lo");
}

int net_setup_interface(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r = fd < 0 ? -errno : make_dummy(fd);

	if (r < 0)
		return r == -EOPNOTSUPP ? -ENODEV : r;
	no_ipv6();
	r = add_address();
	return r < 0 ? r : interface_up(fd, interface);
}

int net_setup_route(void)
{
	struct rtmsg head = {.rtm_family = AF_INET,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = RT_SCOPE_HOST,
		.rtm_type = RTN_LOCAL};
	in_addr_t source = inet_addr(NET_ADDRESS);
	_cleanup_close_ int fd = netlink_open(NETLINK_ROUTE, 0);
	struct netlink n = {0};

	if (fd < 0)
		return fd;
	netlink_begin(&n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &head, sizeof(head));
	netlink_put_u32(&n, RTA_OIF, if_nametoindex("lo"));
	netlink_put(&n, RTA_PREFSRC, &source, sizeof(source));
	return netlink_ask(fd, &n);
}
