/* The ZeroMQ sockets of kernels, inside a libuv loop.
 *
 * A kernel has five: DEALERs for its shell, control, stdin and heartbeat sockets, and a SUB for its
 * iopub socket. ZeroMQ's descriptors are edge-triggered and say only that something may have
 * happened, so they only wake the loop. Before every wait of the loop the hub looks at all sockets.
 * It delivers a bounded number of messages of each in turn.
 *
 * High-water marks in ZeroMQ and channels_pause bound the memory. While paused, nothing is taken
 * from iopub. A kernel that has filled the marks and the TCP buffers then waits or, if it chooses
 * to, drops. A message of more than CHANNELS_MESSAGE_MAX ends the kernel's connection for good. So
 * that limit is more than a kernel can hold, and messages too large for a client are refused after
 * they arrive.
 *
 * Single-threaded, except for ZeroMQ's I/O thread. */
#ifndef INTERPRETER_CHANNELS_H
#define INTERPRETER_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "interpreter/message.h"

enum {
	CHANNELS_HIGH_WATER = 64, /* messages that wait in ZeroMQ */
	CHANNELS_BURST = 32,	  /* messages of one socket per turn */
};

#define CHANNELS_MESSAGE_MAX (INT64_C(2) << 30) /* bytes of one frame */

enum channel {
	CHANNEL_SHELL,
	CHANNEL_IOPUB,
	CHANNEL_STDIN,
	CHANNEL_CONTROL,
	CHANNEL_HEARTBEAT,
	CHANNEL_COUNT,
};

struct channels;
struct channel_hub;

struct channels_ops {
	/* A message with a valid signature. It is valid until the function returns. The function
	 * may call channels_close. */
	void (*message)(void *opaque, enum channel channel, const struct message *m);
	void (*beat)(void *opaque); /* the heartbeat came back */
};

struct channel_hub *channel_hub_new(uv_loop_t *loop);
void channel_hub_free(struct channel_hub *hub); /* when all channels and the loop have ended */
void channel_hub_stop(struct channel_hub *hub); /* closes its handles in the loop */

/* Connects to 127.0.0.1. A kernel that does not listen yet is reached once it does. The key is
 * copied. NULL: out of memory or descriptors. */
struct channels *channels_open(struct channel_hub *hub, const uint16_t ports[CHANNEL_COUNT],
	const char *key, const struct channels_ops *ops, void *opaque);
void channels_close(struct channels *c); /* NULL is fine; no callback follows */

/* Sends without waiting: 0, -EAGAIN (the kernel takes nothing), -ENOMEM. content is JSON text.
 * ret_id (or NULL) gets the message's id, which replies carry as their parent's. */
int channels_send(struct channels *c, enum channel channel, const char *type, const void *content,
	size_t n, char ret_id[MESSAGE_ID_BYTES]);
int channels_beat(struct channels *c);

/* While paused, takes no messages from iopub, the kernel's output. */
void channels_pause(struct channels *c, bool paused);

#endif
