/* The packets of the guest that its agent sees, by nftables. In the table `mayfly`, chain `hold`:
 * the first packet of each TCP connection, and ICMP echo requests, to all but 127.0.0.0/8 wait in a
 * queue (net_queue.h). Chain `refuse`: what becomes of one that comes back with a mark.
 *
 * Without these rules, connections are accepted at once, and reset if the host refuses them. */
#ifndef AGENT_NET_RULES_H
#define AGENT_NET_RULES_H

enum {
	NET_QUEUE = 7,

	/* Marks; others pass. Other users of marks in the guest are unlikely to choose these. */
	NET_MARK = 0x4d660000,
	NET_MARK_RESET = NET_MARK + 1,	    /* ECONNREFUSED */
	NET_MARK_HOST = NET_MARK + 2,	    /* EHOSTUNREACH */
	NET_MARK_NET = NET_MARK + 3,	    /* ENETUNREACH */
	NET_MARK_PROHIBITED = NET_MARK + 4, /* EHOSTUNREACH; ping says "prohibited" */
};

/* Installs them in this network namespace, all or none. 0 or -errno; ENOENT if the kernel lacks
 * nft_queue or nft_reject. */
int net_rules_install(void);

#endif
