/* The Connect protocol with JSON, as far as the E2B SDKs use it (docs/envd.md): unary calls with
 * bare JSON, server and client streams in envelopes.
 *
 * An envelope is a byte of flags, a big-endian 32-bit length, and the payload. A stream always ends
 * with one envelope of flag END, with or without an error; its HTTP status never shows an error.
 * Encoders return 0, -EMSGSIZE or -ENOMEM. On failure the buffer is unchanged. */
#ifndef PROTO_CONNECT_H
#define PROTO_CONNECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proto/http.h"

enum {
	CONNECT_COMPRESSED = 0x01,
	CONNECT_END = 0x02,

	CONNECT_ENVELOPE_BYTES = 5,
	/* Size of one message from a client. The SDKs send input in pieces of at most 64 KiB, so
	 * this bounds arguments and environment. The hard maximum bounds what a caller may
	 * configure. */
	CONNECT_MESSAGE_DEFAULT = 4 * 1024 * 1024,
	CONNECT_MESSAGE_HARD_MAX = 16 * 1024 * 1024,
};

/* ---- codes ---- */

enum connect_code {
	CONNECT_OK,
	CONNECT_CANCELED,
	CONNECT_UNKNOWN,
	CONNECT_INVALID_ARGUMENT,
	CONNECT_DEADLINE_EXCEEDED,
	CONNECT_NOT_FOUND,
	CONNECT_ALREADY_EXISTS,
	CONNECT_PERMISSION_DENIED,
	CONNECT_RESOURCE_EXHAUSTED,
	CONNECT_FAILED_PRECONDITION,
	CONNECT_ABORTED,
	CONNECT_OUT_OF_RANGE,
	CONNECT_UNIMPLEMENTED,
	CONNECT_INTERNAL,
	CONNECT_UNAVAILABLE,
	CONNECT_DATA_LOSS,
	CONNECT_UNAUTHENTICATED,
	CONNECT_CODES /* number of codes, not a code */
};

const char *connect_code_name(enum connect_code code);	   /* "not_found"; "" for CONNECT_OK */
unsigned connect_code_http_status(enum connect_code code); /* 404; 200 for CONNECT_OK */

/* ---- reading envelopes ---- */

enum connect_event {
	CONNECT_EVENT_MORE,    /* all consumed */
	CONNECT_EVENT_MESSAGE, /* connect_decoder_message */
	CONNECT_EVENT_END,     /* likewise, for the payload of the envelope that ends a response */
	CONNECT_EVENT_ERROR,   /* final; d->error and d->reason */
};

/* HEADER gathers the five header bytes. PAYLOAD gathers an envelope that arrived in pieces. ENDED
 * and BROKEN accept no more bytes. */
enum connect_decoder_state {
	CONNECT_STATE_HEADER,
	CONNECT_STATE_PAYLOAD,
	CONNECT_STATE_ENDED,
	CONNECT_STATE_BROKEN,
};

struct connect_decoder {
	enum connect_decoder_state state;
	bool response; /* END envelopes are legal */
	uint8_t header[CONNECT_ENVELOPE_BYTES];
	size_t header_len;
	size_t message_max;
	size_t length;	   /* of the current payload */
	struct buf buffer; /* a payload that came in pieces */
	const uint8_t *message;
	enum connect_code error;
	const char *reason;
};

/* max 0 means CONNECT_MESSAGE_DEFAULT. */
void connect_decoder_init(struct connect_decoder *d, size_t max, bool response);
void connect_decoder_done(struct connect_decoder *d);

enum connect_event connect_decoder_next(
	struct connect_decoder *d, const void *data, size_t n, size_t *consumed);

/* The payload of the last MESSAGE or END event. Borrowed from the decoder or from the caller's
 * bytes, until the next call. */
const uint8_t *connect_decoder_message(const struct connect_decoder *d, size_t *ret_n);

/* True when the bytes ended between two envelopes (or after END). */
bool connect_decoder_at_boundary(const struct connect_decoder *d);

/* ---- writing envelopes ---- */

int connect_envelope(struct buf *out, uint8_t flags, const void *payload, size_t n);

/* Call these before and after writing a payload straight into the buffer. connect_envelope_end
 * fills in the length. If err is not 0, it removes the whole envelope instead and returns err. */
int connect_envelope_begin(struct buf *out, uint8_t flags, size_t *ret_mark);
int connect_envelope_end(struct buf *out, size_t mark, int err);

int connect_end_ok(struct buf *out);
int connect_end_error(struct buf *out, enum connect_code code, const char *message);

/* Writes {"code":"not_found","message":"..."}, the body of a failed unary call. */
int connect_unary_error(struct buf *out, enum connect_code code, const char *message);

/* ---- messages of process.Process and filesystem.Filesystem that are sent often ---- */

enum connect_channel { CONNECT_STDOUT, CONNECT_STDERR, CONNECT_PTY };

struct connect_process_end {
	int32_t exit_code;
	bool exited;
	const char *status; /* "exit status 0" */
	const char *error;  /* NULL: absent */
};

/* Each appends one whole envelope. */
int connect_process_start(struct buf *out, uint32_t pid);
int connect_process_data(struct buf *out, enum connect_channel channel, const void *data, size_t n);
int connect_process_end(struct buf *out, const struct connect_process_end *end);
int connect_process_keepalive(struct buf *out);
int connect_watch_start(struct buf *out);
int connect_watch_keepalive(struct buf *out);

/* Bytes that connect_process_data appends for n bytes. */
size_t connect_process_data_len(enum connect_channel channel, size_t n);

/* Makes the `end` event of a process from its wait status (waitpid(2)). ret->status is text;
 * ret->error is NULL or text. */
void connect_process_end_of(int wait_status, char text[64], struct connect_process_end *ret);
/* The signal that such a status text names; 0: the process exited by itself. */
int connect_process_signal(const char *status);

/* ---- requests ---- */

enum connect_kind {
	CONNECT_KIND_UNARY,  /* application/json */
	CONNECT_KIND_STREAM, /* application/connect+json */
};

enum { CONNECT_USER_MAX = 255, CONNECT_KEEPALIVE_DEFAULT_S = 90 };

struct connect_request {
	enum connect_kind kind;
	uint64_t timeout_ms; /* UINT64_MAX: none */
	uint32_t keepalive_s;
	bool has_user;
	char user[CONNECT_USER_MAX + 1];
};

/* Reads the headers of a call. 0; -EOPNOTSUPP: not POST (answer 405); -EPROTONOSUPPORT: a content
 * type that is not served (415). -EINVAL: send *ret_code and *ret_reason as an error, in the form
 * of ret->kind, which is then set. */
int connect_request_parse(const struct http_head *head, struct connect_request *ret,
	enum connect_code *ret_code, const char **ret_reason);

/* The user of "Basic base64(user:password)". 1 when there is one. 0 when the header is absent, has
 * another scheme, or the name is empty. -EINVAL when it is malformed. */
int connect_basic_user(const char *authorization, char out[CONNECT_USER_MAX + 1]);

/* Content types of answers. */
#define CONNECT_TYPE_UNARY  "application/json"
#define CONNECT_TYPE_STREAM "application/connect+json"

#endif
