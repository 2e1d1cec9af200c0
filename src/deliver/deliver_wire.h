/* What the daemon and mayfly-deliver say to each other over a SEQPACKET socket, the program's
 * stdin. Each message is one packet.
 *
 *	daemon -> program   deliver_ask, then the URL, the header's fields and the body. The URL and
 *			    each field ("Name: value") end with a NUL.
 *	program -> daemon   one deliver_said for each
 *
 * The program ends at the end of its stdin. Both usually come from the same build. After an upgrade
 * a daemon may meet a newer program: DELIVER_VERSION tells, and the program refuses to start. */
#ifndef DELIVER_DELIVER_WIRE_H
#define DELIVER_DELIVER_WIRE_H

#include <stdint.h>

enum {
	DELIVER_VERSION = 1,
	DELIVER_ASK_MAX = 80 * 1024, /* bytes of a message */
	DELIVER_FIELDS_MAX = 16,
	DELIVER_AT_ONCE_MAX = 256,	/* that are asked for and not said */
	DELIVER_ATTEMPT_S = 10,		/* for a request and its whole answer */
	DELIVER_ANSWER_MAX = 64 * 1024, /* bytes of an answer to read */
	DELIVER_WHY_MAX = 256,
};

struct deliver_ask {
	uint32_t version, public_only; /* only to public addresses, and none of this host's own */
	uint64_t id;
	uint32_t url_bytes, fields_bytes, body_bytes, zero;
};

enum deliver_end {
	DELIVER_ANSWERED,   /* status says with what */
	DELIVER_NOT_PUBLIC, /* the address of the receiver */
	DELIVER_LARGE_KEY,  /* in its certificate (tls_limits.h) */
	DELIVER_FAILED,	    /* why says it */
	DELIVER_ENDS_
};

struct deliver_said {
	uint64_t id;
	uint32_t end;		   /* enum deliver_end */
	uint32_t status;	   /* of HTTP */
	char why[DELIVER_WHY_MAX]; /* ends with a NUL */
};

#endif
