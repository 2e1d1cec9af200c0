/* Netlink messages, to configure the network in the guest's kernel. A batch of messages is built in
 * a fixed buffer. If something does not fit, sending the batch fails as a whole. */
#ifndef AGENT_NETLINK_H
#define AGENT_NETLINK_H

#include <stddef.h>
#include <stdint.h>

#include <linux/netlink.h>

enum { NETLINK_BATCH_MAX = 4096, NETLINK_READ_MAX = 16384 };

struct netlink {
	uint8_t data[NETLINK_BATCH_MAX] __attribute__((aligned(NLMSG_ALIGNTO)));
	size_t len;
	size_t message; /* where the last message begins */
	int err;	/* the first failure of building, negative */
};

/* Begins a message. `head` is what stands before the attributes. */
void netlink_begin(
	struct netlink *n, unsigned type, unsigned flags, const void *head, size_t head_len);
void netlink_put(struct netlink *n, unsigned type, const void *data, size_t len);
void netlink_put_be16(struct netlink *n, unsigned type, unsigned v);
void netlink_put_be32(struct netlink *n, unsigned type, uint32_t v);
void netlink_put_u32(struct netlink *n, unsigned type, uint32_t v);
void netlink_put_string(struct netlink *n, unsigned type, const char *s);

/* Begins an attribute that contains the attributes put until netlink_nest_end(). */
size_t netlink_nest(struct netlink *n, unsigned type);
void netlink_nest_end(struct netlink *n, size_t nest);

/* A non-blocking socket of the protocol (NETLINK_ROUTE), or -errno. */
int netlink_open(int protocol, uint32_t groups);

/* Sends and empties the batch. Does not wait for an answer. 0 or -errno. */
int netlink_send(int fd, struct netlink *n);

/* Sends the batch and returns the first error that the kernel answers; at least one message must
 * ask for an acknowledgement. The kernel has answered when the send returns. 0 or -errno. */
int netlink_ask(int fd, struct netlink *n);

/* Calls `each` for the messages of one read, NETLINK_READ_MAX bytes at most; cut ones are left
 * out. 1: there were some; 0: nothing to read; or -errno. */
int netlink_read(int fd, void (*each)(const struct nlmsghdr *m));

/* Finds an attribute of a received message. The attributes begin after `skip` bytes of payload.
 * Returns the content of the first of that type with at least `min` bytes, and its length; else
 * NULL. */
const void *netlink_find(
	const struct nlmsghdr *m, size_t skip, unsigned type, size_t min, size_t *ret_len);

#endif
