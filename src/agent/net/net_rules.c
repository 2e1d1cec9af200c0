#include "agent/net/net_rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "agent/netlink.h"
#include "base/cleanup.h"
#include "base/fd.h"

enum {
	ICMP_CODE_NET = 0, /* RFC 792, RFC 1812: codes of "destination unreachable" */
	ICMP_CODE_HOST = 1,
	ICMP_CODE_PROHIBITED = 13,
	ICMP_ECHO_REQUEST = 8,
	TCP_FLAGS_AT = 13,
	TCP_SYN_ACK = 0x12,
	TCP_SYN = 0x02,
	IP_DESTINATION_AT = 16,
	NFT_TYPE = NFNL_SUBSYS_NFTABLES << 8,
};

static const char table[] = "mayfly";

static void begin(struct netlink *n, unsigned type, unsigned flags)
{
	struct nfgenmsg g = {.nfgen_family = NFPROTO_IPV4, .version = NFNETLINK_V0};

	netlink_begin(n, NFT_TYPE | type, flags, &g, sizeof(g));
}

static void mark_batch(struct netlink *n, unsigned type)
{
	struct nfgenmsg g = {.nfgen_family = AF_UNSPEC,
		.version = NFNETLINK_V0,
		.res_id = htons(NFNL_SUBSYS_NFTABLES)};

	netlink_begin(n, type, 0, &g, sizeof(g));
}

/* --- expressions of a rule --- */

/* An expression is a list element with a name and data. */
struct expression {
	size_t element, data;
};

static struct expression expression(struct netlink *n, const char *name)
{
	struct expression e = {.element = netlink_nest(n, NFTA_LIST_ELEM)};

	netlink_put_string(n, NFTA_EXPR_NAME, name);
	e.data = netlink_nest(n, NFTA_EXPR_DATA);
	return e;
}

static void expression_end(struct netlink *n, struct expression e)
{
	netlink_nest_end(n, e.data);
	netlink_nest_end(n, e.element);
}

static void put_value(struct netlink *n, unsigned type, const void *value, size_t len)
{
	size_t nest = netlink_nest(n, type);

	netlink_put(n, NFTA_DATA_VALUE, value, len);
	netlink_nest_end(n, nest);
}

static void load_payload(struct netlink *n, unsigned base, unsigned offset, unsigned len)
{
	struct expression e = expression(n, "payload");

	netlink_put_be32(n, NFTA_PAYLOAD_DREG, NFT_REG_1);
	netlink_put_be32(n, NFTA_PAYLOAD_BASE, base);
	netlink_put_be32(n, NFTA_PAYLOAD_OFFSET, offset);
	netlink_put_be32(n, NFTA_PAYLOAD_LEN, len);
	expression_end(n, e);
}

static void load_meta(struct netlink *n, unsigned key)
{
	struct expression e = expression(n, "meta");

	netlink_put_be32(n, NFTA_META_DREG, NFT_REG_1);
	netlink_put_be32(n, NFTA_META_KEY, key);
	expression_end(n, e);
}

static void mask(struct netlink *n, const void *bits, size_t len)
{
	static const uint8_t zero[4];
	struct expression e = expression(n, "bitwise");

	netlink_put_be32(n, NFTA_BITWISE_SREG, NFT_REG_1);
	netlink_put_be32(n, NFTA_BITWISE_DREG, NFT_REG_1);
	netlink_put_be32(n, NFTA_BITWISE_LEN, (uint32_t)len);
	put_value(n, NFTA_BITWISE_MASK, bits, len);
	put_value(n, NFTA_BITWISE_XOR, zero, len);
	expression_end(n, e);
}

static void compare(struct netlink *n, unsigned op, const void *value, size_t len)
{
	struct expression e = expression(n, "cmp");

	netlink_put_be32(n, NFTA_CMP_SREG, NFT_REG_1);
	netlink_put_be32(n, NFTA_CMP_OP, op);
	put_value(n, NFTA_CMP_DATA, value, len);
	expression_end(n, e);
}

static void queue(struct netlink *n)
{
	struct expression e = expression(n, "queue");

	netlink_put_be16(n, NFTA_QUEUE_NUM, NET_QUEUE);
	netlink_put_be16(n, NFTA_QUEUE_TOTAL, 1);
	netlink_put_be16(n, NFTA_QUEUE_FLAGS, NFT_QUEUE_FLAG_BYPASS); /* nobody listens: pass */
	expression_end(n, e);
}

/* --- the chains --- */

static void add_chain(struct netlink *n, const char *name, uint32_t priority)
{
	size_t hook;

	begin(n, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	netlink_put_string(n, NFTA_CHAIN_TABLE, table);
	netlink_put_string(n, NFTA_CHAIN_NAME, name);
	hook = netlink_nest(n, NFTA_CHAIN_HOOK);
	netlink_put_be32(n, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_IN);
	netlink_put_be32(n, NFTA_HOOK_PRIORITY, priority);
	netlink_nest_end(n, hook);
	netlink_put_be32(n, NFTA_CHAIN_POLICY, NF_ACCEPT);
	netlink_put_string(n, NFTA_CHAIN_TYPE, "filter");
}

static size_t rule(struct netlink *n, const char *chain)
{
	begin(n, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK);
	netlink_put_string(n, NFTA_RULE_TABLE, table);
	netlink_put_string(n, NFTA_RULE_CHAIN, chain);
	return netlink_nest(n, NFTA_RULE_EXPRESSIONS);
}

/* meta l4proto PROTOCOL ip daddr != 127.0.0.0/8 */
static void match(struct netlink *n, uint8_t protocol)
{
	static const uint8_t all[4] = {255}, loopback[4] = {127};

	load_meta(n, NFT_META_L4PROTO);
	compare(n, NFT_CMP_EQ, &protocol, sizeof(protocol));
	load_payload(n, NFT_PAYLOAD_NETWORK_HEADER, IP_DESTINATION_AT, 4);
	mask(n, all, sizeof(all));
	compare(n, NFT_CMP_NEQ, loopback, sizeof(loopback));
}

static void hold_syn(struct netlink *n)
{
	static const uint8_t flags = TCP_SYN_ACK, syn = TCP_SYN;
	size_t nest = rule(n, "hold");

	match(n, IPPROTO_TCP);
	load_payload(n, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS_AT, 1);
	mask(n, &flags, sizeof(flags));
	compare(n, NFT_CMP_EQ, &syn, sizeof(syn));
	queue(n);
	netlink_nest_end(n, nest);
}

static void hold_echo(struct netlink *n)
{
	static const uint8_t request = ICMP_ECHO_REQUEST;
	size_t nest = rule(n, "hold");

	match(n, IPPROTO_ICMP);
	load_payload(n, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1);
	compare(n, NFT_CMP_EQ, &request, sizeof(request));
	queue(n);
	netlink_nest_end(n, nest);
}

/* Rejects what has the mark: by a TCP reset, or by an ICMP code. */
static void refuse(struct netlink *n, uint32_t mark, unsigned type, uint8_t code)
{
	size_t nest = rule(n, "refuse");
	struct expression e;

	load_meta(n, NFT_META_MARK);
	compare(n, NFT_CMP_EQ, &mark, sizeof(mark));
	e = expression(n, "reject");
	netlink_put_be32(n, NFTA_REJECT_TYPE, type);
	netlink_put(n, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
	expression_end(n, e);
	netlink_nest_end(n, nest);
}

int net_rules_install(void)
{
	struct netlink n = {0};
	_cleanup_close_ int fd = netlink_open(NETLINK_NETFILTER, 0);

	if (fd < 0)
		return fd;
	mark_batch(&n, NFNL_MSG_BATCH_BEGIN);
	begin(&n, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	netlink_put_string(&n, NFTA_TABLE_NAME, table);
	add_chain(&n, "hold", 0);
	add_chain(&n, "refuse", 5);
	hold_syn(&n);
	hold_echo(&n);
	refuse(&n, NET_MARK_RESET, NFT_REJECT_TCP_RST, 0);
	refuse(&n, NET_MARK_HOST, NFT_REJECT_ICMP_UNREACH, ICMP_CODE_HOST);
	refuse(&n, NET_MARK_NET, NFT_REJECT_ICMP_UNREACH, ICMP_CODE_NET);
	refuse(&n, NET_MARK_PROHIBITED, NFT_REJECT_ICMP_UNREACH, ICMP_CODE_PROHIBITED);
	mark_batch(&n, NFNL_MSG_BATCH_END);
	return netlink_ask(fd, &n);
}
