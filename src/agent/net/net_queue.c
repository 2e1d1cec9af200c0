#include "agent/net/net_queue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <string.h>

#include "agent/loop.h"
#include "agent/net/net_rules.h"
#include "agent/netlink.h"

enum {
	COPY_BYTES = 128, /* of a packet: IP and TCP headers are 120 at most */
	READS_PER_ROUND = 16,
	QUEUE_TYPE = NFNL_SUBSYS_QUEUE << 8,
};

static struct source queue = {.fd = -1};
static void (*packet_arrived)(uint32_t, const uint8_t *, size_t);

static void begin(struct netlink *n, unsigned type, unsigned flags)
{
	struct nfgenmsg g = {
		.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NET_QUEUE)};

	netlink_begin(n, QUEUE_TYPE | type, flags, &g, sizeof(g));
}

static int configure(int fd)
{
	static const struct nfqnl_msg_config_cmd bind_queue = {.command = NFQNL_CFG_CMD_BIND};
	const struct nfqnl_msg_config_params copy = {
		.copy_range = htonl(COPY_BYTES), .copy_mode = NFQNL_COPY_PACKET};
	struct netlink n = {0};
	int r;

	begin(&n, NFQNL_MSG_CONFIG, NLM_F_ACK);
	netlink_put(&n, NFQA_CFG_CMD, &bind_queue, sizeof(bind_queue));
	r = netlink_ask(fd, &n);
	if (r < 0)
		return r;
	begin(&n, NFQNL_MSG_CONFIG, NLM_F_ACK);
	netlink_put(&n, NFQA_CFG_PARAMS, &copy, sizeof(copy));
	return netlink_ask(fd, &n);
}

static void take(const struct nlmsghdr *m)
{
	const struct nfqnl_msg_packet_hdr *head;
	const uint8_t *packet;
	size_t n, len;

	if (m->nlmsg_type != (QUEUE_TYPE | NFQNL_MSG_PACKET))
		return;
	head = netlink_find(m, sizeof(struct nfgenmsg), NFQA_PACKET_HDR, sizeof(*head), &n);
	packet = netlink_find(m, sizeof(struct nfgenmsg), NFQA_PAYLOAD, 1, &len);
	if (head && packet)
		packet_arrived(ntohl(head->packet_id), packet, len);
	else if (head)
		net_queue_give(ntohl(head->packet_id), NET_FORGET);
}

/* The kernel drops packets that the socket cannot hold, and sends them again later. */
static void queue_ready(struct source *s, uint32_t events)
{
	for (int i = 0; i < READS_PER_ROUND; i++)
		if (netlink_read(s->fd, take) <= 0)
			return;
}

int net_queue_open(void (*arrived)(uint32_t id, const uint8_t *packet, size_t len))
{
	int fd = netlink_open(NETLINK_NETFILTER, 0), r;

	if (fd < 0)
		return fd;
	packet_arrived = arrived;
	source_open(&queue, fd, queue_ready);
	r = configure(fd);
	if (r == 0)
		r = source_wait(&queue, EPOLLIN);
	if (r < 0)
		source_close(&queue);
	return r;
}

void net_queue_give(uint32_t id, enum net_verdict v)
{
	static const uint32_t marks[] = {[NET_REFUSED] = NET_MARK_RESET,
		[NET_HOST] = NET_MARK_HOST,
		[NET_NET] = NET_MARK_NET,
		[NET_PROHIBITED] = NET_MARK_PROHIBITED};
	const struct nfqnl_msg_verdict_hdr verdict = {
		.verdict = htonl(v == NET_FORGET ? NF_DROP : NF_ACCEPT), .id = htonl(id)};
	static struct netlink n; /* empty again after each send */

	begin(&n, NFQNL_MSG_VERDICT, 0);
	netlink_put(&n, NFQA_VERDICT_HDR, &verdict, sizeof(verdict));
	if (marks[v])
		netlink_put_be32(&n, NFQA_MARK, marks[v]);
	(void)netlink_send(queue.fd, &n); /* fails if the packet is gone, or the queue */
}
