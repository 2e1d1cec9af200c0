/* The protocol for flows (TCP connections and UDP datagrams) out of a sandbox, as bytes: no
 * sockets, no state machines. docs/egress-protocol.md is the specification; this header is its form
 * in C.
 *
 * A flow is a byte stream from the guest's agent to the host's worker. It begins with a header
 * (struct egress_open). The worker answers (struct egress_answer). After EGRESS_OK, the bytes of a
 * TCP connection go both ways, and each direction ends on its own. One UDP flow carries all
 * datagrams of the guest. They go both ways as records (struct egress_datagram).
 *
 * Integers are little-endian, addresses IPv4 in network order. The worker treats the guest as
 * hostile, and the agent checks the worker's bytes, too. Decoders return the bytes that they used,
 * 0 (more bytes are needed), or -EBADMSG; they check all that they return, and results borrow from
 * the data. Encoders append to a buffer and return 0, -EINVAL (a field exceeds its maximum), or
 * what the buffer returns. */
#ifndef PROTO_EGRESS_WIRE_H
#define PROTO_EGRESS_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	EGRESS_PORT = 1025, /* vsock port on the host */
	EGRESS_VERSION = 1,

	EGRESS_NAME_MAX = 31,	 /* of a process */
	EGRESS_REASON_MAX = 200, /* of a verdict */
	EGRESS_OPEN_HEADER = 20,
	EGRESS_OPEN_MAX = EGRESS_OPEN_HEADER + EGRESS_NAME_MAX,
	EGRESS_ANSWER_HEADER = 8,
	EGRESS_ANSWER_MAX = EGRESS_ANSWER_HEADER + EGRESS_REASON_MAX,
	EGRESS_DATAGRAM_HEADER = 16,
	EGRESS_DATAGRAM_MAX = 65507, /* bytes of one, without its header */
};

enum egress_kind { EGRESS_TCP = 1, EGRESS_UDP = 2 };

/* A destination or a source. */
struct egress_endpoint {
	uint8_t address[4];
	uint16_t port;
};

/* u8 version, u8 kind, u8 length of the name, u8 zero, destination, source, u32 pid, the name. An
 * endpoint is 4 bytes and a u16 port. A UDP flow has zeros for all but version and kind. */
struct egress_open {
	enum egress_kind kind;
	struct egress_endpoint to, from;
	uint32_t pid;			/* the process that connects, by the guest's own word; 0:
					 * unknown */
	char name[EGRESS_NAME_MAX + 1]; /* of that process; may hold any bytes but NUL */
};

/* What becomes of a flow. All but EGRESS_WAITING come once and are the last answer. */
enum egress_verdict {
	EGRESS_OK = 0,	    /* connected */
	EGRESS_FAILED = 1,  /* could not connect: err */
	EGRESS_DENIED = 2,  /* by the policy, or by a limit: reason. err is what the program gets */
	EGRESS_WAITING = 3, /* a person is asked; another answer follows, perhaps much later */
};

/* u8 version, u8 verdict, u16 error, u8 length of the reason, u8 zero, u16 zero, the reason. The
 * error is a number of Linux: one of ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, EACCES. */
struct egress_answer {
	enum egress_verdict verdict;
	int err;			    /* positive; 0 for OK and WAITING */
	char reason[EGRESS_REASON_MAX + 1]; /* for people; printable ASCII */
};

/* u16 length of the data, u16 zero, endpoint of the guest's program, endpoint of the remote, then
 * the data. */
struct egress_datagram {
	struct egress_endpoint guest, remote;
	const void *data;
	size_t len;
};

int egress_put_open(struct buf *b, const struct egress_open *o);
int egress_get_open(const void *data, size_t n, struct egress_open *ret);

int egress_put_answer(struct buf *b, const struct egress_answer *a);
int egress_get_answer(const void *data, size_t n, struct egress_answer *ret);

int egress_put_datagram(struct buf *b, const struct egress_datagram *d);
int egress_get_datagram(const void *data, size_t n, struct egress_datagram *ret);

#endif
