/* The ZeroMQ sockets of kernels, inside a libuv loop.
 *
 * A kernel has five: DEALERs to its shell, control, stdin and heartbeat sockets, a SUB to its iopub
 * socket. ZeroMQ's descriptors are edge-triggered and say only that something may have happened, so
 * they do no more than wake the loop; before every wait of the loop the hub looks at all sockets
 * and delivers what is there, a bounded number of messages of each in turn.
 *
 * Memory is bounded by high-water marks in ZeroMQ and by channels_pause: while paused, nothing is
 * taken from iopub, and a kernel that has filled the marks and the TCP buffers waits or, if it
 * chooses to, drops. A message of more than CHANNELS_MESSAGE_MAX ends the kernel's connection for good;
 * so that is more than a kernel can have, and what is too large for a client is refused when it is here.
 *
 * Single-threaded (but for ZeroMQ's I/O thread). */
#ifndef INTERPRETER_CHANNELS_H
#define INTERPRETER_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "interpreter/message.h"

enum {
	CHANNELS_HIGH_WATER = 64, /* messages that wait in ZeroMQ */
	CHANNELS_BURST = 32,	  /* messages of one socket in one turn */
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
	/* A message with a right signature; valid until the function returns, which may call
	 * channels_close. */
	void (*message)(void *opaque, enum channel channel, const struct message *m);
	void (*beat)(void *opaque); /* the heartbeat came back */
};

struct channel_hub *channel_hub_new(uv_loop_t *loop);
void channel_hub_free(struct channel_hub *hub); /* all channels are closed and the loop is over */
void channel_hub_stop(struct channel_hub *hub); /* lets go of the loop */

/* Connects to 127.0.0.1; a kernel that does not listen yet is found when it does. The key is
 * copied. NULL: out of memory or descriptors. */
struct channels *channels_open(struct channel_hub *hub, const uint16_t ports[CHANNEL_COUNT],
	const char *key, const struct channels_ops *ops, void *opaque);
void channels_close(struct channels *c); /* NULL is fine; no callback follows */

/* Sends without waiting: 0, -EAGAIN (the kernel takes nothing), -ENOMEM. content is JSON text; the
 * id that answers carry as their parent's goes to ret_id (or NULL). */
int channels_send(struct channels *c, enum channel channel, const char *type, const void *content,
	size_t n, char ret_id[MESSAGE_ID_BYTES]);
int channels_beat(struct channels *c);

void channels_pause(struct channels *c, bool paused);

#endif
