/* The client's side of SOCKS5 (RFC 1928, RFC 1929), CONNECT only. Works on bytes, without sockets.
 *
 * The proxy is not trusted. No byte behind its last answer is read, because those belong to the
 * flow. */
#ifndef EGRESS_SOCKS_H
#define EGRESS_SOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "egress/proxy.h"

enum {
	SOCKS_OUT_MAX = 3 + 2 * (PROXY_CREDENTIAL_MAX + 1), /* bytes of a message of ours */
	SOCKS_IN_MAX = 4 + 1 + 255 + 2,			    /* of an answer */
};

enum socks_state { SOCKS_METHOD, SOCKS_LOGIN, SOCKS_REPLY, SOCKS_CONNECTED };

struct socks {
	enum socks_state state; /* the answer that comes next */
	const struct proxy *proxy;
	const char *name; /* NULL: use the address */
	uint32_t address;
	uint16_t port;
	uint8_t in[SOCKS_IN_MAX];
	size_t in_bytes;
};

/* Begins, and appends the first message to out. Borrows p and name. name has at most 255 bytes.
 * Returns 0 or the buffer's error. */
int socks_begin(struct socks *s, const struct proxy *p, const char *name, uint32_t address,
	uint16_t port, struct buf *out);

/* Returns how many bytes to read next, to s->in + s->in_bytes. At least 1 until SOCKS_CONNECTED. */
size_t socks_wants(const struct socks *s);

/* Takes n bytes that were read, and appends what is to be sent. Returns 0, -EPROTO if the proxy
 * does not speak SOCKS, -EACCES if it refuses the login, or an -errno for the program if the proxy
 * cannot reach the target. */
int socks_take(struct socks *s, size_t n, struct buf *out);

#endif
