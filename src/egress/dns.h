/* DNS messages (RFC 1035, EDNS of RFC 6891) as bytes: the guest's questions and our answers, our
 * questions to a resolver and its answers. No sockets.
 *
 * Both sides are hostile. A guest's message must be one standard question and at most one OPT
 * record, without compression and with nothing behind it. Of a resolver's answer only A records
 * count, and only those of the name or of the name that its CNAMEs lead to. */
#ifndef EGRESS_DNS_H
#define EGRESS_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	DNS_PORT = 53,
	DNS_NAME_BYTES = 254, /* text with its NUL, without a dot at the end */
	DNS_MESSAGE_MAX = 65535,
	DNS_ADDRESSES_MAX = 16,
	DNS_UDP_BYTES = 1232, /* largest message that we accept and send */
};

enum dns_type { DNS_A = 1, DNS_NS = 2, DNS_CNAME = 5, DNS_PTR = 12, DNS_AAAA = 28, DNS_OPT = 41 };

enum dns_rcode {
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
};

struct dns_question {
	uint16_t id, type;
	bool recursion; /* desired */
	bool edns;
	bool plain;		   /* the name has letters, digits, - and _ only */
	uint16_t room;		   /* largest answer by UDP, in bytes */
	char name[DNS_NAME_BYTES]; /* lower case; "" is the root */
	uint8_t raw[255 + 4];	   /* as received, for the answer */
	uint16_t raw_bytes;
};

/* Reads a guest's question. Returns DNS_NOERROR; another code to answer with (ret has what the
 * answer needs); or -EBADMSG: no answer. */
int dns_get_question(const void *data, size_t n, struct dns_question *ret);

struct dns_answer {
	enum dns_rcode rcode;
	uint32_t addresses[DNS_ADDRESSES_MAX]; /* of A */
	unsigned count;
	uint32_t ttl_s;
	const char *name; /* of PTR, or NULL */
};

/* Appends the answer. An answer of more than `room` bytes is sent without records, marked as
 * truncated. Returns 0 or the buffer's error. */
int dns_put_answer(
	struct buf *b, const struct dns_question *q, const struct dns_answer *a, size_t room);

/* Appends a question for A of a name (policy_is_host). Bit i of `upper` makes the i-th letter upper
 * case, for the first 32 letters. An answer must repeat this. */
int dns_put_query(struct buf *b, uint16_t id, uint32_t upper, const char *name);

/* Reads a resolver's answer to a query. *ret_cut: it was truncated, so ask again by TCP. Returns 0,
 * or -EBADMSG if it is no answer to this query. */
int dns_get_answer(const void *data, size_t n, const void *query, size_t query_bytes,
	struct dns_answer *ret, bool *ret_cut);

/* Reads the address from a name like 4.3.2.1.in-addr.arpa. Returns 0 or -EINVAL. */
int dns_parse_reverse(const char *name, uint32_t *ret);

#endif
