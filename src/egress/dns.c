#include "egress/dns.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "base/net.h"

enum {
	HEADER_BYTES = 12,
	LABEL_MAX = 63,
	WIRE_NAME_MAX = 255,
	CLASS_IN = 1,
	FLAG_RESPONSE = 0x8000,
	FLAG_OPCODE = 0x7800,
	FLAG_CUT = 0x0200,
	FLAG_RECURSION = 0x0100,
	FLAG_AVAILABLE = 0x0080,
	POINTER = 0xc0,
	CHAIN_MAX = 12,	   /* CNAMEs followed */
	RECORDS_MAX = 256, /* looked at in an answer */
	UDP_LEAST = 512,
};

/* A cursor with the whole message, as names may point back. */
struct cursor {
	const uint8_t *data;
	size_t n, at;
	bool bad;
};

static unsigned take_u8(struct cursor *c)
{
	if (c->bad || c->at >= c->n) {
		c->bad = true;
		return 0;
	}
	return c->data[c->at++];
}

static uint16_t take_u16(struct cursor *c)
{
	unsigned high = take_u8(c);

	return (uint16_t)(high << 8 | take_u8(c));
}

static uint32_t take_u32(struct cursor *c)
{
	uint32_t high = take_u16(c);

	return high << 16 | take_u16(c);
}

static void skip(struct cursor *c, size_t bytes)
{
	if (c->bad || bytes > c->n - c->at)
		c->bad = true;
	else
		c->at += bytes;
}

struct header {
	uint16_t id, flags, questions, answers, authorities, additional;
};

static struct header take_header(struct cursor *c)
{
	struct header h;

	h.id = take_u16(c);
	h.flags = take_u16(c);
	h.questions = take_u16(c);
	h.answers = take_u16(c);
	h.authorities = take_u16(c);
	h.additional = take_u16(c);
	return h;
}

/* --- names --- */

static bool is_plain(unsigned c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

struct name {
	char text[DNS_NAME_BYTES];
	size_t bytes;
	bool plain;
};

static void take_label(struct cursor *c, unsigned len, struct name *to)
{
	if (to->bytes + (to->bytes > 0) + len >= sizeof(to->text)) {
		c->bad = true;
		return;
	}
	if (to->bytes)
		to->text[to->bytes++] = '.';
	for (unsigned i = 0; i < len; i++) {
		unsigned b = take_u8(c);

		if (b >= 'A' && b <= 'Z')
			b |= 0x20;
		to->plain = to->plain && is_plain(b);
		to->text[to->bytes++] = is_plain(b) ? (char)b : '?';
	}
}

/* Reads a name. Each pointer must lead further back than the last one, so the loop ends. */
static void take_name(struct cursor *c, bool pointers, struct name *to)
{
	size_t after = 0, limit = c->at;
	unsigned len;

	*to = (struct name){.plain = true};
	while ((len = take_u8(c)) != 0 && !c->bad) {
		if (len <= LABEL_MAX) {
			take_label(c, len, to);
			continue;
		}
		len = (len & ~(unsigned)POINTER) << 8 | take_u8(c);
		if (!pointers || c->data[c->at - 2] < POINTER || len >= limit ||
			len < HEADER_BYTES) {
			c->bad = true;
			break;
		}
		if (!after)
			after = c->at;
		c->at = limit = len;
	}
	to->text[to->bytes] = '\0';
	if (after)
		c->at = after;
}

/* --- the guest's question --- */

/* The record of EDNS is all that may follow a question. */
static void take_options(struct cursor *c, struct dns_question *q)
{
	unsigned type, room;

	if (take_u8(c) != 0) /* the root's name */
		c->bad = true;
	type = take_u16(c);
	room = take_u16(c);
	skip(c, 4); /* extended code, version, flags */
	skip(c, take_u16(c));
	if (type != DNS_OPT)
		c->bad = true;
	q->edns = true;
	q->room = (uint16_t)(room < UDP_LEAST	    ? UDP_LEAST
			     : room > DNS_UDP_BYTES ? DNS_UDP_BYTES
						    : room);
}

static int check_question(
	struct cursor *c, const struct header *h, struct dns_question *q, unsigned class)
{
	if (h->additional)
		take_options(c, q);
	if (c->bad || c->at != c->n || class != CLASS_IN)
		return DNS_FORMERR;
	return DNS_NOERROR;
}

int dns_get_question(const void *data, size_t n, struct dns_question *ret)
{
	struct cursor c = {.data = data, .n = n};
	struct header h = take_header(&c);
	struct name name;
	unsigned class;

	memset(ret, 0, sizeof(*ret));
	if (c.bad || h.flags & FLAG_RESPONSE)
		return -EBADMSG;
	ret->id = h.id;
	ret->room = UDP_LEAST;
	ret->recursion = h.flags & FLAG_RECURSION;
	if (h.flags & FLAG_OPCODE)
		return DNS_NOTIMP;
	if (h.questions != 1 || h.answers || h.authorities || h.additional > 1 ||
		h.flags & FLAG_CUT)
		return DNS_FORMERR;
	take_name(&c, false, &name);
	ret->type = take_u16(&c);
	class = take_u16(&c);
	if (c.bad || c.at - HEADER_BYTES > sizeof(ret->raw))
		return DNS_FORMERR;
	ret->raw_bytes = (uint16_t)(c.at - HEADER_BYTES);
	memcpy(ret->raw, c.data + HEADER_BYTES, ret->raw_bytes);
	memcpy(ret->name, name.text, name.bytes + 1);
	ret->plain = name.plain;
	return check_question(&c, &h, ret, class);
}

/* --- our answer --- */

static int put_u16(struct buf *b, unsigned v)
{
	const uint8_t bytes[] = {(uint8_t)(v >> 8), (uint8_t)v};

	return buf_add(b, bytes, sizeof(bytes));
}

static int put_header(struct buf *b, const struct header *h)
{
	const uint16_t fields[] = {
		h->id, h->flags, h->questions, h->answers, h->authorities, h->additional};
	int r = 0;

	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]) && r == 0; i++)
		r = put_u16(b, fields[i]);
	return r;
}

/* Bit i of `upper` is for the i-th letter. */
static int put_name(struct buf *b, const char *name, uint32_t upper)
{
	uint8_t wire[WIRE_NAME_MAX], *length = wire, *p = wire + 1;
	unsigned letters = 0;

	if (strlen(name) > sizeof(wire) - 2)
		return -EINVAL;
	for (; *name; name++) {
		if (*name == '.') {
			*length = (uint8_t)(p - length - 1);
			length = p++;
		} else if (*name >= 'a' && *name <= 'z') {
			*p++ = (uint8_t)(*name - (letters < 32 && upper >> letters & 1 ? 0x20 : 0));
			letters++;
		} else {
			*p++ = (uint8_t)*name;
		}
	}
	*length = (uint8_t)(p - length - 1);
	if (*length)
		*p++ = 0;
	return buf_add(b, wire, (size_t)(p - wire));
}

/* A record of the question's name. */
static int put_record_head(struct buf *b, unsigned type, uint32_t ttl)
{
	int r = put_u16(b, POINTER << 8 | HEADER_BYTES);

	r = r ? r : put_u16(b, type);
	r = r ? r : put_u16(b, CLASS_IN);
	r = r ? r : put_u16(b, ttl >> 16);
	return r ? r : put_u16(b, ttl & 0xffff);
}

static int put_records(struct buf *b, const struct dns_answer *a)
{
	int r = 0;

	for (unsigned i = 0; i < a->count && r == 0; i++) {
		uint8_t address[4];

		net_put(a->addresses[i], address);
		r = put_record_head(b, DNS_A, a->ttl_s);
		r = r ? r : put_u16(b, sizeof(address));
		r = r ? r : buf_add(b, address, sizeof(address));
	}
	if (a->name && r == 0) {
		r = put_record_head(b, DNS_PTR, a->ttl_s);
		r = r ? r : put_u16(b, (unsigned)strlen(a->name) + 2);
		r = r ? r : put_name(b, a->name, 0);
	}
	return r;
}

static int put_options(struct buf *b)
{
	static const uint8_t options[] = {
		0, 0, DNS_OPT, DNS_UDP_BYTES >> 8, DNS_UDP_BYTES & 0xff, 0, 0, 0, 0, 0, 0};

	return buf_add(b, options, sizeof(options));
}

static int put_message(
	struct buf *b, const struct dns_question *q, const struct dns_answer *a, bool cut)
{
	struct header h = {.id = q->id,
		.flags = (uint16_t)(FLAG_RESPONSE | FLAG_AVAILABLE | a->rcode |
				    (q->recursion ? FLAG_RECURSION : 0) | (cut ? FLAG_CUT : 0)),
		.questions = q->raw_bytes > 0,
		.answers = (uint16_t)(cut ? 0 : a->count + (a->name != NULL)),
		.additional = q->edns};
	int r = put_header(b, &h);

	r = r ? r : buf_add(b, q->raw, q->raw_bytes);
	if (r == 0 && !cut)
		r = put_records(b, a);
	if (r == 0 && q->edns)
		r = put_options(b);
	return r;
}

int dns_put_answer(
	struct buf *b, const struct dns_question *q, const struct dns_answer *a, size_t room)
{
	size_t before = buf_len(b);
	int r = put_message(b, q, a, false);

	if (r == 0 && buf_len(b) - before <= room)
		return 0;
	b->end -= buf_len(b) - before;
	return r ? r : put_message(b, q, a, true);
}

/* --- a resolver --- */

int dns_put_query(struct buf *b, uint16_t id, uint32_t upper, const char *name)
{
	struct header h = {.id = id, .flags = FLAG_RECURSION, .questions = 1, .additional = 1};
	int r = put_header(b, &h);

	r = r ? r : put_name(b, name, upper);
	r = r ? r : put_u16(b, DNS_A);
	r = r ? r : put_u16(b, CLASS_IN);
	return r ? r : put_options(b);
}

static void add_address(struct dns_answer *a, uint32_t address)
{
	for (unsigned i = 0; i < a->count; i++)
		if (a->addresses[i] == address)
			return;
	if (a->count < DNS_ADDRESSES_MAX)
		a->addresses[a->count++] = address;
}

/* Reads all records of `owner` with the right class: takes its addresses, and the name that it is
 * an alias of. Returns 1 if it is an alias, else 0, or -EBADMSG. */
static int look_for(struct cursor c, unsigned records, const char *owner, struct dns_answer *a,
	struct name *alias)
{
	int found = 0;

	for (unsigned i = 0; i < records && i < RECORDS_MAX; i++) {
		struct name name;
		unsigned type, class, bytes;
		uint32_t ttl;
		size_t data;

		take_name(&c, true, &name);
		type = take_u16(&c);
		class = take_u16(&c);
		ttl = take_u32(&c);
		bytes = take_u16(&c);
		data = c.at;
		skip(&c, bytes);
		if (c.bad)
			return -EBADMSG;
		if (class != CLASS_IN || !name.plain || strcmp(name.text, owner) != 0)
			continue;
		if (type == DNS_A && bytes == 4) {
			add_address(a, net_get(c.data + data));
		} else if (type == DNS_CNAME) {
			struct cursor at = {.data = c.data, .n = data + bytes, .at = data};

			take_name(&at, true, alias);
			if (at.bad)
				return -EBADMSG;
			found = alias->plain;
		} else {
			continue;
		}
		a->ttl_s = ttl < a->ttl_s ? ttl : a->ttl_s;
	}
	return found;
}

static int follow(
	const struct cursor *c, unsigned records, struct name *owner, struct dns_answer *a)
{
	for (unsigned i = 0; i < CHAIN_MAX && a->count == 0; i++) {
		struct name alias = {0};
		int r = look_for(*c, records, owner->text, a, &alias);

		if (r <= 0)
			return r;
		*owner = alias;
	}
	return 0;
}

int dns_get_answer(const void *data, size_t n, const void *query, size_t query_bytes,
	struct dns_answer *ret, bool *ret_cut)
{
	struct cursor c = {.data = data, .n = n}, sent = {.data = query, .n = query_bytes};
	struct header h = take_header(&c), asked = take_header(&sent);
	struct dns_answer a = {.ttl_s = INT32_MAX};
	struct name name;

	take_name(&sent, false, &name);
	skip(&sent, 4); /* type, class */
	if (c.bad || sent.bad || h.id != asked.id || !(h.flags & FLAG_RESPONSE) ||
		h.flags & FLAG_OPCODE || h.questions != 1 || n < sent.at ||
		memcmp(c.data + c.at, sent.data + c.at, sent.at - c.at) != 0)
		return -EBADMSG;
	c.at = sent.at;
	a.rcode = h.flags & 15;
	*ret_cut = h.flags & FLAG_CUT;
	if (!*ret_cut && a.rcode == DNS_NOERROR && follow(&c, h.answers, &name, &a) < 0)
		return -EBADMSG;
	*ret = a;
	return 0;
}

/* --- reverse names --- */

int dns_parse_reverse(const char *name, uint32_t *ret)
{
	static const char suffix[] = ".in-addr.arpa";
	size_t n = strlen(name);
	char text[NET_TEXT_BYTES] = "";
	uint32_t v;

	if (!str_ends_with(name, suffix) || n - strlen(suffix) >= sizeof(text))
		return -EINVAL;
	memcpy(text, name, n - strlen(suffix));
	if (net_parse_address(text, &v) < 0)
		return -EINVAL;
	*ret = __builtin_bswap32(v);
	return 0;
}
