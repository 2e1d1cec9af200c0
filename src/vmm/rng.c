#include "vmm/rng.h"

/* #calls vcpu: getrandom */

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

/* Fills n bytes; returns how many it filled. */
static size_t fill(uint8_t *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = getrandom(p + done, n - done, 0);

		if (r < 0 && errno != EINTR)
			break;
		if (r > 0)
			done += (size_t)r;
	}
	return done;
}

static uint32_t answer(const struct virtio_chain *c)
{
	uint32_t done = 0;

	for (unsigned i = 0; i < c->in_count && done < RNG_REQUEST_MAX; i++) {
		uint32_t want = c->in[i].bytes, got;

		if (want > RNG_REQUEST_MAX - done)
			want = RNG_REQUEST_MAX - done;
		got = (uint32_t)fill(c->in[i].host, want);
		done += got;
		if (got < want)
			break;
	}
	return done;
}

static void rng_notify(struct virtio_device *d, unsigned queue)
{
	struct virtio_chain c;

	while (virtio_queue_pop(d, queue, &c) > 0)
		virtio_queue_push(d, queue, c.head, answer(&c));
	virtio_queue_interrupt(d, queue);
}

static uint64_t rng_features(struct virtio_device *d)
{
	return 0;
}

static void rng_reset(struct virtio_device *d)
{
	/* no state between requests */
}

static size_t rng_config(struct virtio_device *d, uint8_t *out, size_t max)
{
	return 0;
}

static void rng_destroy(struct virtio_device *d)
{
	virtio_done(d);
	free(d);
}

static const struct virtio_ops rng_ops = {
	.id = VIRTIO_ID_RNG,
	.name = "rng",
	.queue_count = 1,
	.queue_size_max = {64},
	.features = rng_features,
	.notify = rng_notify,
	.reset = rng_reset,
	.config = rng_config,
	.destroy = rng_destroy,
};

int rng_create(const struct guest_memory *memory, void (*raise_irq)(void *), void *irq_opaque,
	struct virtio_device **ret, struct error *e)
{
	struct virtio_device *d = malloc(sizeof(*d));

	if (!d)
		return error_set_errno(
			e, ERROR_NO_SPACE, ENOMEM, "cannot create the entropy device");
	virtio_init(d, &rng_ops, memory, raise_irq, irq_opaque);
	*ret = d;
	return 0;
}
