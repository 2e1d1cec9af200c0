#include "intercept/client_hello.h"

#include <string.h>

enum {
	RECORD_HEAD = 5,
	RECORD_MAX = 16384,
	FIRST_TYPE = 20, /* of records: change_cipher_spec */
	HANDSHAKE = 22,
	LAST_TYPE = 24,	     /* heartbeat */
	MAJOR_ENOUGH = 0x10, /* some servers accept every lower major version as TLS */
	CLIENT_HELLO = 1,
	MESSAGE_HEAD = 4,
	VERSION_MAJOR = 3,
	RANDOM_BYTES = 32,
	SESSION_ID_MAX = 32,
	SSL2_HEAD = 11,
	SSL2_LONG = 0x80, /* of the first byte: a head without padding */
};

enum { SERVER_NAME = 0, ALPN = 16, EARLY_DATA = 42, ENCRYPTED_CLIENT_HELLO = 0xfe0d };

/* The rest of a piece of the message. Reading too far sets `bad` and returns zeros. */
struct view {
	const uint8_t *at;
	size_t n;
	bool bad;
};

static const uint8_t *take(struct view *v, size_t n)
{
	static const uint8_t nothing[RANDOM_BYTES];
	const uint8_t *p = v->at;

	if (n > v->n)
		*v = (struct view){.bad = true};
	if (!n || v->bad)
		return nothing; /* a bad one is nowhere */
	v->at += n;
	v->n -= n;
	return p;
}

static unsigned take_number(struct view *v, unsigned bytes)
{
	const uint8_t *p = take(v, bytes);
	unsigned number = 0;

	for (unsigned i = 0; i < bytes; i++)
		number = number << 8 | p[i];
	return number;
}

/* A piece with its length before it, in so many bytes. */
static struct view take_piece(struct view *v, unsigned length_bytes)
{
	size_t n = take_number(v, length_bytes);
	const uint8_t *p = take(v, n);

	return v->bad ? (struct view){.bad = true} : (struct view){.at = p, .n = n};
}

/* --- extensions --- */

/* One name of host_name, and nothing else. */
static const char *take_name(struct view v, struct client_hello *h)
{
	static const char why[] = "its server_name is malformed";
	struct view list = take_piece(&v, 2), name;
	unsigned type = take_number(&list, 1);

	name = take_piece(&list, 2);
	if (v.bad || v.n || list.bad || list.n || name.bad || type != 0 || name.n == 0 ||
		name.n >= sizeof(h->name))
		return why;
	for (size_t i = 0; i < name.n; i++) {
		uint8_t c = name.at[i];

		if (c <= ' ' || c >= 0x7f)
			return why;
		h->name[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
	}
	h->name[name.n] = '\0';
	return NULL;
}

static bool is_protocol(const struct view *p, const char *name)
{
	return p->n == strlen(name) && memcmp(p->at, name, p->n) == 0;
}

static const char *take_protocols(struct view v, struct client_hello *h)
{
	struct view list = take_piece(&v, 2);
	bool bad = v.bad || v.n || list.bad || list.n == 0;

	h->alpn = true;
	while (!bad && list.n) {
		struct view p = take_piece(&list, 1);

		bad = list.bad || p.n == 0;
		h->h2 |= is_protocol(&p, "h2");
		h->http1 |= is_protocol(&p, "http/1.1");
	}
	return bad ? "its list of protocols is malformed" : NULL;
}

static const char *take_extension(unsigned type, struct view v, struct client_hello *h)
{
	if (type == ENCRYPTED_CLIENT_HELLO)
		h->encrypted = true;
	if (type == EARLY_DATA)
		h->early_data = true;
	if (type == SERVER_NAME)
		return h->name[0] ? "it has two server_name extensions" : take_name(v, h);
	if (type == ALPN)
		return h->alpn ? "it has two lists of protocols" : take_protocols(v, h);
	return NULL;
}

static const char *take_extensions(struct view v, struct client_hello *h)
{
	const char *why = NULL;

	while (v.n && !why) {
		unsigned type = take_number(&v, 2);
		struct view data = take_piece(&v, 2);

		why = v.bad ? "its extensions are malformed" : take_extension(type, data, h);
	}
	return why;
}

/* --- the message --- */

/* Without its head. Returns why it is refused, or NULL. */
static const char *take_message(struct view v, struct client_hello *h)
{
	static const char why[] = "its hello is malformed";
	unsigned major = take_number(&v, 1);
	struct view session, ciphers, compressions, extensions;

	(void)take(&v, 1 + RANDOM_BYTES); /* minor version */
	session = take_piece(&v, 1);
	ciphers = take_piece(&v, 2);
	compressions = take_piece(&v, 1);
	if (v.bad || major != VERSION_MAJOR || session.n > SESSION_ID_MAX || ciphers.n == 0 ||
		ciphers.n % 2 || compressions.n == 0)
		return why;
	if (v.n == 0)
		return NULL; /* before extensions were */
	extensions = take_piece(&v, 2);
	return v.bad || v.n ? why : take_extensions(extensions, h);
}

/* --- records --- */

enum { WALK_MORE = -1, WALK_BAD = -2 };

/* The next record at *at. Returns its length without the head, or WALK_*. */
static int next_record(const uint8_t *data, size_t n, size_t at)
{
	size_t length;

	if (at + RECORD_HEAD > n)
		return at < n && data[at] != HANDSHAKE ? WALK_BAD : WALK_MORE;
	length = (size_t)data[at + 3] << 8 | data[at + 4];
	if (data[at] != HANDSHAKE || data[at + 1] != VERSION_MAJOR || length == 0 ||
		length > RECORD_MAX)
		return WALK_BAD;
	return at + RECORD_HEAD + length > n ? WALK_MORE : (int)length;
}

/* Joins the message's records in `to`, which has CLIENT_HELLO_MAX bytes; if to is NULL, only
 * counts. Returns the message's length with its head, or WALK_*. *ret_bytes: the length of its
 * records. */
static int join(const uint8_t *data, size_t n, uint8_t *to, size_t *ret_bytes)
{
	size_t have = 0, wanted = MESSAGE_HEAD, at = 0;
	uint8_t head[MESSAGE_HEAD] = {0};

	while (have < wanted) {
		int length = next_record(data, n, at);
		const uint8_t *p = data + at + RECORD_HEAD;

		if (length < 0)
			return length;
		if (to)
			memcpy(to + have, p, (size_t)length); /* less than came */
		for (size_t i = 0; i < (size_t)length && have + i < MESSAGE_HEAD; i++)
			head[have + i] = p[i];
		have += (size_t)length;
		at += RECORD_HEAD + (size_t)length;
		wanted = MESSAGE_HEAD + ((size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3]);
		if (head[0] != CLIENT_HELLO)
			return WALK_BAD;
		wanted = have < MESSAGE_HEAD ? MESSAGE_HEAD : wanted;
	}
	*ret_bytes = at;
	return have == wanted ? (int)wanted : WALK_BAD; /* nothing else may be in its records */
}

static enum client_hello_result bad(const char *text, const char **ret_why)
{
	*ret_why = text;
	return CLIENT_HELLO_BAD;
}

static enum client_hello_result parse_records(
	const uint8_t *data, size_t n, struct client_hello *ret, const char **ret_why)
{
	struct client_hello h = {0};
	uint8_t message[CLIENT_HELLO_MAX];
	size_t bytes = n < CLIENT_HELLO_MAX ? n : CLIENT_HELLO_MAX;
	int length = join(data, bytes, NULL, &h.bytes);
	const char *why;

	if (length == WALK_MORE)
		return n < CLIENT_HELLO_MAX ? CLIENT_HELLO_MORE
					    : bad("its hello is longer than 16 KiB", ret_why);
	if (length == WALK_BAD)
		return bad("its records are malformed", ret_why);
	(void)join(data, bytes, message, &h.bytes); /* as before */
	why = take_message(
		(struct view){.at = message + MESSAGE_HEAD, .n = (size_t)length - MESSAGE_HEAD},
		&h);
	if (why)
		return bad(why, ret_why);
	*ret = h;
	return CLIENT_HELLO_OK;
}

/* --- the first bytes --- */

/* Whether the bytes may begin a hello of SSL 2. Other protocols begin like that only by chance. */
static bool may_be_ssl2(const uint8_t *d, size_t n)
{
	unsigned length, ciphers, session, challenge;

	if (!(d[0] & SSL2_LONG) || (n > 2 && d[2] != CLIENT_HELLO) ||
		(n > 3 && d[3] != VERSION_MAJOR && d[3] != 0))
		return false;
	if (n < SSL2_HEAD)
		return true;
	length = ((unsigned)d[0] & 0x7f) << 8 | d[1];
	ciphers = (unsigned)d[5] << 8 | d[6];
	session = (unsigned)d[7] << 8 | d[8];
	challenge = (unsigned)d[9] << 8 | d[10];
	return ciphers && ciphers % 3 == 0 && challenge &&
	       length == SSL2_HEAD - 2 + ciphers + session + challenge;
}

/* Whether a server may accept the bytes as a TLS record. Some servers skip an alert before the
 * hello, and some accept any version in the first record. */
static bool may_be_record(const uint8_t *d, size_t n)
{
	return d[0] >= FIRST_TYPE && d[0] <= LAST_TYPE && (n == 1 || d[1] < MAJOR_ENOUGH);
}

enum client_hello_result client_hello_parse(
	const uint8_t *data, size_t n, struct client_hello *ret, const char **ret_why)
{
	if (n == 0)
		return CLIENT_HELLO_MORE;
	if (may_be_record(data, n)) {
		if (data[0] == HANDSHAKE)
			return parse_records(data, n, ret, ret_why);
		return n == 1 ? CLIENT_HELLO_MORE
			      : bad("it begins with a TLS record that is no hello", ret_why);
	}
	if (!may_be_ssl2(data, n))
		return CLIENT_HELLO_NOT_TLS;
	return n < SSL2_HEAD ? CLIENT_HELLO_MORE
			     : bad("it begins with a hello of SSL 2, which has no name", ret_why);
}
