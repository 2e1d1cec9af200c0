/* Encodes and decodes messages of the Jupyter messaging protocol 5.3 as frames of a ZeroMQ message:
 *
 *	[identities...] "<IDS|MSG>" signature header parent_header metadata content [buffers...]
 *
 * The signature is the HMAC-SHA256 of the four JSON frames, in hexadecimal. The sender is a process
 * that runs unknown code. So frames are counted and bounded, the signature is checked before
 * anything is parsed, and the JSON may be anything. No I/O, no threads. */
#ifndef INTERPRETER_MESSAGE_H
#define INTERPRETER_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum {
	MESSAGE_FRAMES_MAX = 64,    /* with identities and buffers */
	MESSAGE_FRAMES_SENT = 6,    /* of ours, without identities */
	MESSAGE_KEY_BYTES = 33,	    /* 32 characters and a NUL */
	MESSAGE_TYPE_BYTES = 64,    /* nobody uses longer types */
	MESSAGE_ID_BYTES = 80,	    /* for our own ids; others' are compared, not kept */
	MESSAGE_HEADER_MAX = 65536, /* bytes of a header */
	MESSAGE_SIGNATURE_CHARS = 64,
};

struct frame {
	const void *data;
	size_t n;
};

/* A received message. type and parent_id are copies; content borrows from the frames. */
struct message {
	char type[MESSAGE_TYPE_BYTES];
	char parent_id[MESSAGE_ID_BYTES]; /* "" when there is none, or none of ours */
	struct frame content;
};

/* Returns 0; -EBADMSG: not the format; -EPERM: the signature is wrong. */
int message_decode(const struct frame *frames, size_t count, const char *key, struct message *ret);

/* Returns the content as an object, or NULL if it is none. Bytes that are not UTF-8 (Python's
 * surrogate escapes) become '?'. */
json_t *message_content(const struct message *m);

/* A message to be sent: six frames that borrow from this struct. */
struct message_out {
	struct buf header;
	char signature[MESSAGE_SIGNATURE_CHARS + 1];
	struct frame frames[MESSAGE_FRAMES_SENT];
};

/* content: JSON text, borrowed. id and session: our own, of plain characters. Returns 0 or
 * -ENOMEM. */
int message_encode(struct message_out *out, const char *type, const char *id, const char *session,
	const void *content, size_t n, const char *key);
void message_out_done(struct message_out *out);

#endif
