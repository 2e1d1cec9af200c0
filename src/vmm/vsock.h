/* virtio-vsock (virtio 1.2 section 5.10): byte streams between host programs and the guest.
 *
 * The host side is a listening Unix stream socket. A client connects, sends "CONNECT <port>\n", and
 * gets "OK <host port>\n" once something in the guest accepted on that port. From then on bytes
 * flow both ways. The client may send its first bytes right behind the line, without waiting. If
 * nothing listens on the port, it gets "ERR refused\n" and the end of the stream. Other answers:
 * "ERR request" (a malformed line), "ERR timeout" (no whole line within VSOCK_HANDSHAKE_MS), "ERR
 * busy" (table full), "ERR reset" (the driver was reset or broke the protocol). Half-close works
 * both ways: shutdown(SHUT_WR) is end of file on the other side.
 *
 * If the device has an egress channel, the guest may open streams to one host port, EGRESS_PORT
 * (docs/egress-protocol.md). For each stream the device sends a message over the channel: one zero
 * byte, and a connected Unix stream socket as SCM_RIGHTS. From then on the stream is a connection
 * like the others. The device refuses a stream to any other port, and every stream if there is no
 * channel or the channel or the table is full.
 *
 * There are only streams, no datagrams. The device's memory is bounded, whatever the guest and
 * clients do. The guest may have VSOCK_BUFFER_BYTES in flight per connection, and stalls when the
 * client does not read. Nothing is buffered towards the guest: bytes stay in the Unix socket until
 * the guest has credit and a receive buffer.
 *
 * Snapshots hold the list of connections, not their bytes. After a load each of them is reset, so
 * the guest sees its streams end. Host clients of the saved VM are not affected. */
#ifndef VMM_VSOCK_H
#define VMM_VSOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/virtio.h"

enum {
	VSOCK_CONNECTIONS_MAX = 1024,
	VSOCK_GUEST_CONNECTIONS_MAX = 768, /* of these; the rest is for the host's clients */
	VSOCK_BUFFER_BYTES = 65536,	   /* per connection, guest to host */
	VSOCK_HANDSHAKE_MS = 5000,
	VSOCK_CLOSE_MS = 2000, /* for the guest to confirm a connection's end */
	VSOCK_GUEST_CID = 3,
};

/* listen_fd: a listening, bound Unix stream socket, taken over also on failure and made
 * non-blocking. virtio_destroy releases the device and closes all connections. */
int vsock_create(const struct guest_memory *memory, int listen_fd, uint32_t guest_cid,
	void (*raise_irq)(void *), void *irq_opaque, struct virtio_device **ret, struct error *e);

/* Replaces the egress channel, a SEQPACKET socket, which is taken over. -1: none. Streams that are
 * open stay so. Any thread may call this. */
void vsock_set_egress(struct virtio_device *dev, int fd);

/* A descriptor of the device, readable when vsock_poll has something to do. */
int vsock_poll_fd(const struct virtio_device *dev);

/* Serves the host side: new clients, their bytes, timeouts. Never blocks. It writes into guest
 * memory, so do not call it between saving and resuming a VM. */
void vsock_poll(struct virtio_device *dev);

/* True if no connection is open, being opened or being closed. */
bool vsock_idle(struct virtio_device *dev);

#endif
