/* virtio-entropy (virtio 1.2 section 5.4): random bytes of the host kernel for the guest.
 *
 * The device has one queue. A request gets at most RNG_REQUEST_MAX bytes from getrandom(2); the
 * driver asks again for more. */
#ifndef VMM_RNG_H
#define VMM_RNG_H

#include "vmm/virtio.h"

enum { RNG_REQUEST_MAX = 65536 };

/* Released with virtio_destroy. */
int rng_create(const struct guest_memory *memory, void (*raise_irq)(void *), void *irq_opaque,
	struct virtio_device **ret, struct error *e);

#endif
