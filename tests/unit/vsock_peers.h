/* The two sides of a vsock device under test: a fake guest, whose driver is fake_driver.h, and Unix
 * socket clients. */
#ifndef TESTS_VSOCK_PEERS_H
#define TESTS_VSOCK_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fake_driver.h"
#include "vmm/vsock.h"

enum {
	VSOCK_RX = VIRTIO_VSOCK_RX_QUEUE,
	VSOCK_TX = VIRTIO_VSOCK_TX_QUEUE,
	VSOCK_RX_BUFFER = 4096,
	VSOCK_RX_AREA = FAKE_HEAP,
	VSOCK_TX_AREA = FAKE_HEAP + 0x100000,
	GUEST_BUFFER = 256 * 1024, /* what the fake guest advertises */
	GUEST_PORT = 1000,
};

extern struct fake_driver fake;
extern uint32_t guest_consumed; /* bytes of the host's that the fake guest says it has taken */

/* For cmocka: memory and device; with a started driver and receive buffers; the end of both. */
int peers_setup_bare(void **state);
int peers_setup(void **state);
int peers_teardown(void **state);
void peers_make_device(void);
/* An established connection: the client's descriptor. */
int peers_connect(uint32_t *ret_host_port);

bool device_wants_poll(void);
void poll_device(void); /* as an event loop would; fails when it stays readable for no reason */

/* --- the host's side --- */

int client_open(void);
void client_send(int fd, const char *s);
/* Everything that is there, at most n bytes; -1 for "nothing, and not the end". */
ssize_t client_recv(int fd, void *p, size_t n);
void client_expect(int fd, const char *s);
void client_expect_end(int fd);

/* --- the guest's side --- */

struct guest_packet {
	struct virtio_vsock_hdr h;
	uint8_t data[VSOCK_RX_BUFFER];
};

void guest_give_buffers(unsigned n);
/* The next packet from the device; false: there is none. */
bool guest_recv(struct guest_packet *p);
void guest_expect(struct guest_packet *p, uint16_t op);
void guest_expect_nothing(void);
uint32_t guest_expect_request(void); /* the host's port */
struct virtio_vsock_hdr guest_header(uint32_t host_port, uint16_t op);
/* Header and payload in descriptors of their own. */
void guest_send_raw(const struct virtio_vsock_hdr *h, const void *data, uint32_t n);
void guest_send(uint32_t host_port, uint16_t op, const void *data, uint32_t n);
void guest_shutdown(uint32_t host_port, uint32_t flags);

#endif
