#include "egress/socks.h"

#include <errno.h>
#include <string.h>

#include "base/net.h"

enum { VERSION = 5, LOGIN_VERSION = 1, CONNECT = 1, NONE = 0, PASSWORD = 2 };
enum { IPV4 = 1, DOMAIN = 3, IPV6 = 4 };
enum { REPLY_HEAD = 5 }; /* with the first byte of the address, which may be its length */

int socks_begin(struct socks *s, const struct proxy *p, const char *name, uint32_t address,
	uint16_t port, struct buf *out)
{
	const uint8_t hello[] = {VERSION, p->username ? 2 : 1, NONE, PASSWORD};

	*s = (struct socks){.proxy = p, .name = name, .address = address, .port = port};
	return buf_add(out, hello, p->username ? 4 : 3);
}

static size_t reply_bytes(const struct socks *s)
{
	switch (s->in[3]) {
	case IPV4:
		return 4 + 4 + 2;
	case IPV6:
		return 4 + 16 + 2;
	default: /* DOMAIN */
		return 4 + 1 + (size_t)s->in[4] + 2;
	}
}

size_t socks_wants(const struct socks *s)
{
	if (s->state != SOCKS_REPLY)
		return 2 - s->in_bytes;
	return (s->in_bytes < REPLY_HEAD ? REPLY_HEAD : reply_bytes(s)) - s->in_bytes;
}

static int add_text(struct buf *out, const char *text)
{
	uint8_t n = (uint8_t)strlen(text); /* at most 255 */
	int r = buf_add(out, &n, 1);

	return r ? r : buf_add(out, text, n);
}

static int put_login(const struct socks *s, struct buf *out)
{
	const uint8_t version = LOGIN_VERSION;
	int r = buf_add(out, &version, 1);

	r = r ? r : add_text(out, s->proxy->username);
	return r ? r : add_text(out, s->proxy->password ? s->proxy->password : "");
}

static int put_request(struct socks *s, struct buf *out)
{
	const uint8_t head[] = {VERSION, CONNECT, 0, s->name ? DOMAIN : IPV4};
	const uint8_t port[] = {(uint8_t)(s->port >> 8), (uint8_t)s->port};
	uint8_t address[4];
	int r = buf_add(out, head, sizeof(head));

	net_put(s->address, address);
	r = r ? r : s->name ? add_text(out, s->name) : buf_add(out, address, sizeof(address));
	r = r ? r : buf_add(out, port, sizeof(port));
	s->state = SOCKS_REPLY;
	return r;
}

static int take_method(struct socks *s, struct buf *out)
{
	if (s->in[0] != VERSION)
		return -EPROTO;
	if (s->in[1] == NONE)
		return put_request(s, out);
	if (s->in[1] != PASSWORD || !s->proxy->username)
		return -EACCES;
	s->state = SOCKS_LOGIN;
	return put_login(s, out);
}

static int reply_error(uint8_t code)
{
	switch (code) {
	case 3:
		return -ENETUNREACH;
	case 5:
		return -ECONNREFUSED;
	case 6: /* TTL */
		return -ETIMEDOUT;
	default: /* 1 general, 2 its rules, 4 host, 7 and 8 not supported */
		return -EHOSTUNREACH;
	}
}

static int take_reply(struct socks *s)
{
	if (s->in[0] != VERSION || s->in[2] != 0)
		return -EPROTO;
	if (s->in[1])
		return reply_error(s->in[1]);
	if (s->in[3] != IPV4 && s->in[3] != IPV6 && s->in[3] != DOMAIN)
		return -EPROTO;
	if (s->in_bytes < reply_bytes(s))
		return 0;
	s->state = SOCKS_CONNECTED;
	return 0;
}

int socks_take(struct socks *s, size_t n, struct buf *out)
{
	s->in_bytes += n;
	if (s->state == SOCKS_REPLY)
		return s->in_bytes < REPLY_HEAD ? 0 : take_reply(s);
	if (s->in_bytes < 2)
		return 0;
	s->in_bytes = 0;
	if (s->state == SOCKS_METHOD)
		return take_method(s, out);
	if (s->in[0] != LOGIN_VERSION)
		return -EPROTO;
	return s->in[1] ? -EACCES : put_request(s, out);
}
