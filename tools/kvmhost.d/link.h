/*
 * What the two ends of the emulated host's command channel share.
 *
 * kvmexec (outside) opens one TCP connection per command, or per forwarded connection, to execd
 * (inside). It starts with a struct link_hello. What follows depends on its kind:
 *
 *   LINK_EXEC    frames, both ways, as below
 *   LINK_DIAL    an enum link_dialled of a byte from inside, then the bytes of a connection to
 *                127.0.0.1:value inside; half-close is kept
 *   LINK_STATUS  a text from execd
 *   LINK_STOP    a text from execd: "stopping", or "busy" when value asks for an idle machine only
 *
 * Frames have an eight-byte header and at most LINK_PAYLOAD_MAX bytes (FRAME_START:
 * LINK_START_MAX). Both ends run on the same processor, so integers are in its byte order. Each of
 * the three streams of a command has a window: its sender has at most LINK_WINDOW bytes on the way
 * that the receiver has not credited. So both ends can always read the connection to its end, and a
 * signal never waits behind input that the command does not read.
 */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_GUEST_PORT	 1 /* on the external address inside, where nothing else listens */
#define LINK_TOKEN_SIZE	 32
#define LINK_PAYLOAD_MAX 32768
#define LINK_START_MAX	 (4 << 20)
#define LINK_WINDOW	 (512 << 10)

enum link_kind { LINK_EXEC = 1, LINK_DIAL, LINK_STATUS, LINK_STOP };
enum link_dialled { LINK_CONNECTED = 1, LINK_REFUSED };

struct link_hello {
	char token[LINK_TOKEN_SIZE];
	uint32_t kind;
	uint32_t value;
};

enum frame_type {
	FRAME_START = 1, /* out to in: struct link_start and strings; once, first */
	FRAME_STARTED,	 /* in to out: the command runs */
	FRAME_FAILED,	 /* in to out: int32 exit status, then a message; last */
	FRAME_EXIT,	 /* in to out: int32 exit status as a shell has it; last */
	FRAME_SIGNAL,	 /* out to in: int32 signal number */
	FRAME_RESIZE,	 /* out to in: struct link_size */
	FRAME_DATA,	 /* bytes of the stream; none: end of the stream */
	FRAME_CREDIT,	 /* uint32: so many bytes of the stream were consumed */
	FRAME_CLOSED,	 /* nobody reads the stream any more */
};

enum link_stream { STREAM_IN, STREAM_OUT, STREAM_ERR, STREAMS };

struct frame {
	uint8_t type;
	uint8_t stream;
	uint16_t zero;
	uint32_t length;
};

struct link_size {
	uint16_t rows;
	uint16_t columns;
};

struct link_start { /* then strings, each with its NUL: directory, arguments, environment */
	uint32_t tty;
	uint32_t umask;
	struct link_size size;
	uint32_t arguments;
	uint32_t variables;
};

struct buffer {
	uint8_t *data;
	size_t capacity, start, length;
};

void buffer_init(struct buffer *b, size_t capacity);
size_t buffer_room(struct buffer *b); /* contiguous room; moves the content to the front */
void buffer_append(struct buffer *b, const void *data, size_t length); /* must fit */
void buffer_consume(struct buffer *b, size_t length);

/* One end of a framed connection. */
struct link {
	int fd;
	struct buffer in, out;
	struct buffer pending[STREAMS]; /* received, not yet delivered */
	uint32_t uncredited[STREAMS];	/* delivered, not yet credited */
	uint32_t window[STREAMS];	/* may be sent */
};

void link_init(struct link *l, int fd);
bool link_has_room(const struct link *l); /* for a data frame and what may follow it */
void link_send(struct link *l, enum frame_type type, int stream, const void *data, size_t length);
void link_delivered(struct link *l, int stream, size_t length); /* credits now and then */

/* Reads what is there. 0, or -1 at the end of the connection. */
int link_receive(struct link *l);
/* Writes what the socket takes. 0, or -1 when the connection is broken. */
int link_flush(struct link *l);
/*
 * The next whole frame: 1 with its payload in *ret_payload until the next call, 0 none yet, -1 not
 * a frame. Handles CREDIT itself and puts DATA into pending (an empty DATA frame is handed out).
 */
int link_next(struct link *l, struct frame *ret_frame, const uint8_t **ret_payload);

int read_all(int fd, void *data, size_t length);
int write_all(int fd, const void *data, size_t length);

void close_with_reset(int fd);

/* Copies both ways until both directions have ended; closes both, with a reset after an error. */
void relay(int a, int b);

#endif
