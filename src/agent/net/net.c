#include "agent/net/net.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "agent/guest.h"
#include "agent/net/net_flow.h"
#include "agent/net/net_local.h"
#include "agent/net/net_lookup.h"
#include "agent/net/net_queue.h"
#include "agent/net/net_rules.h"
#include "agent/net/net_setup.h"
#include "agent/net/net_udp.h"
#include "base/cleanup.h"

static const char *step; /* what is being done */

static int open_relays(void)
{
	_cleanup_close_ int tcp = -1, udp = -1;
	int r;

	step = "SK_LOOKUP";
	r = net_lookup_open(&tcp, &udp);
	if (r < 0)
		return r;
	step = "the sockets for programs";
	r = net_flow_open(TAKE_FD(tcp));
	return r < 0 ? r : net_udp_open(TAKE_FD(udp));
}

static int open_all(void)
{
	int r;

	step = "eth0 (module dummy)";
	r = net_setup_interface();
	if (r == 0)
		r = open_relays();
	if (r < 0)
		return r;
	step = "the guest's addresses";
	r = net_local_open();
	if (r < 0)
		return r;
	step = "the route";
	return net_setup_route();
}

void net_open(void)
{
	int r = open_all();

	if (r < 0) {
		console("no network: %s: %s", step, strerror(-r));
		return;
	}
	guest.facts |= AGENT_FACT_NETWORK;
	r = net_queue_open(net_flow_packet);
	if (r == 0)
		r = net_rules_install();
	if (r < 0)
		console("network: connections are accepted before the host has answered, and reset "
			"if it refuses them: no %s: %s",
			"nftables with nft_queue, nfnetlink_queue and nft_reject_ipv4",
			strerror(-r));
	else
		guest.facts |= AGENT_FACT_NETWORK_WAITS;
}
