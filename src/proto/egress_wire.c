#include "proto/egress_wire.h"

#include <errno.h>
#include <string.h>

#include "base/reader.h"

static const int errors[] = {ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, EACCES};

static void put_endpoint(uint8_t *p, const struct egress_endpoint *e)
{
	memcpy(p, e->address, sizeof(e->address));
	put_le16(p + sizeof(e->address), e->port);
}

static struct egress_endpoint get_endpoint(struct reader *r)
{
	struct egress_endpoint e;

	reader_copy(r, e.address, sizeof(e.address));
	e.port = reader_le16(r);
	return e;
}

static int put(struct buf *b, const void *head, size_t head_len, const void *rest, size_t len)
{
	uint8_t *p = buf_reserve(b, head_len + len);

	if (!p)
		return -EMSGSIZE;
	memcpy(p, head, head_len);
	if (len)
		memcpy(p + head_len, rest, len);
	buf_commit(b, head_len + len);
	return 0;
}

/* --- the header of a flow --- */

int egress_put_open(struct buf *b, const struct egress_open *o)
{
	uint8_t head[EGRESS_OPEN_HEADER] = {EGRESS_VERSION, (uint8_t)o->kind};
	size_t len = strnlen(o->name, sizeof(o->name));

	if (len > EGRESS_NAME_MAX || (o->kind != EGRESS_TCP && o->kind != EGRESS_UDP))
		return -EINVAL;
	head[2] = (uint8_t)len;
	put_endpoint(head + 4, &o->to);
	put_endpoint(head + 10, &o->from);
	put_le32(head + 16, o->pid);
	return put(b, head, sizeof(head), o->name, len);
}

int egress_get_open(const void *data, size_t n, struct egress_open *ret)
{
	struct reader r = reader_of(data, n);
	struct egress_open o = {0};
	unsigned version = reader_u8(&r), kind = reader_u8(&r), len = reader_u8(&r),
		 zero = reader_u8(&r);

	o.to = get_endpoint(&r);
	o.from = get_endpoint(&r);
	o.pid = reader_le32(&r);
	if (n >= 1 && version != EGRESS_VERSION)
		return -EBADMSG;
	if (len > EGRESS_NAME_MAX)
		return -EBADMSG;
	reader_copy(&r, o.name, len);
	if (r.bad)
		return 0;
	if ((kind != EGRESS_TCP && kind != EGRESS_UDP) || zero || strnlen(o.name, len) != len)
		return -EBADMSG;
	o.kind = kind;
	*ret = o;
	return (int)(EGRESS_OPEN_HEADER + len);
}

/* --- the answer --- */

static int is_error(int err)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i] == err)
			return 1;
	return 0;
}

static int is_sound(unsigned verdict, int err, const char *reason, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (reason[i] < ' ' || reason[i] > '~')
			return 0;
	if (verdict == EGRESS_OK || verdict == EGRESS_WAITING)
		return err == 0;
	return (verdict == EGRESS_FAILED || verdict == EGRESS_DENIED) && is_error(err);
}

int egress_put_answer(struct buf *b, const struct egress_answer *a)
{
	uint8_t head[EGRESS_ANSWER_HEADER] = {EGRESS_VERSION, (uint8_t)a->verdict};
	size_t len = strnlen(a->reason, sizeof(a->reason));

	if (len > EGRESS_REASON_MAX || !is_sound(a->verdict, a->err, a->reason, len))
		return -EINVAL;
	put_le16(head + 2, (uint16_t)a->err);
	head[4] = (uint8_t)len;
	return put(b, head, sizeof(head), a->reason, len);
}

int egress_get_answer(const void *data, size_t n, struct egress_answer *ret)
{
	struct reader r = reader_of(data, n);
	struct egress_answer a = {0};
	unsigned version = reader_u8(&r), verdict = reader_u8(&r), len, zero;

	a.err = reader_le16(&r);
	len = reader_u8(&r);
	zero = reader_u8(&r);
	zero |= reader_le16(&r);
	if ((n >= 1 && version != EGRESS_VERSION) || len > EGRESS_REASON_MAX)
		return -EBADMSG;
	reader_copy(&r, a.reason, len);
	if (r.bad)
		return 0;
	if (zero || !is_sound(verdict, a.err, a.reason, len))
		return -EBADMSG;
	a.verdict = verdict;
	*ret = a;
	return (int)(EGRESS_ANSWER_HEADER + len);
}

/* --- datagrams --- */

int egress_put_datagram(struct buf *b, const struct egress_datagram *d)
{
	uint8_t head[EGRESS_DATAGRAM_HEADER] = {0};

	if (d->len > EGRESS_DATAGRAM_MAX)
		return -EINVAL;
	put_le16(head, (uint16_t)d->len);
	put_endpoint(head + 4, &d->guest);
	put_endpoint(head + 10, &d->remote);
	return put(b, head, sizeof(head), d->data, d->len);
}

int egress_get_datagram(const void *data, size_t n, struct egress_datagram *ret)
{
	struct reader r = reader_of(data, n);
	struct egress_datagram d;
	unsigned zero;

	d.len = reader_le16(&r);
	zero = reader_le16(&r);
	d.guest = get_endpoint(&r);
	d.remote = get_endpoint(&r);
	if (d.len > EGRESS_DATAGRAM_MAX || zero)
		return -EBADMSG;
	d.data = reader_bytes(&r, d.len);
	if (r.bad)
		return 0;
	*ret = d;
	return (int)(EGRESS_DATAGRAM_HEADER + d.len);
}
