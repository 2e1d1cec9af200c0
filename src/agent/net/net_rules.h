/* The nftables rules that show packets of the guest to its agent, in the table `mayfly`. Chain
 * `hold` puts the first packet of each TCP connection, and ICMP echo requests, into a queue
 * (net_queue.h), except for destinations in 127.0.0.0/8. Chain `refuse` rejects a packet that the
 * agent gives back with a mark.
 *
 * Without these rules, the guest's kernel accepts connections at once, and the agent resets them if
 * the host refuses. */
#ifndef AGENT_NET_RULES_H
#define AGENT_NET_RULES_H

enum {
	NET_QUEUE = 7,

	/* Marks that reject a packet; others let it pass. Programs in the guest are unlikely to use
	 * the same marks. */
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
