#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

void buf_init(struct buf *b, size_t max_bytes)
{
	*b = (struct buf)BUF_INIT(max_bytes);
}

void buf_init_secret(struct buf *b, size_t max_bytes)
{
	buf_init(b, max_bytes);
	b->secret = true;
}

void buf_done(struct buf *b)
{
	if (b->secret && b->data)
		explicit_bzero(b->data, b->capacity);
	free(b->data);
	*b = (struct buf){.max = b->max, .secret = b->secret};
}

void buf_clear(struct buf *b)
{
	b->start = b->end = 0;
}

/* realloc, which leaves no copy of a secret behind. */
static uint8_t *resize(struct buf *b, size_t want)
{
	uint8_t *p;

	if (!b->secret)
		return realloc(b->data, want);
	p = malloc(want);
	if (p && b->data) {
		memcpy(p, b->data, b->end);
		explicit_bzero(b->data, b->capacity);
		free(b->data);
	}
	return p;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
	size_t len = buf_len(b), want;
	uint8_t *p;

	if (n > b->max - len) {
		errno = EMSGSIZE;
		return NULL;
	}
	if (b->capacity - b->end >= n && b->data)
		return b->data + b->end;
	if (b->start) {
		memmove(b->data, b->data + b->start, len);
		b->start = 0;
		b->end = len;
	}
	if (b->capacity - len < n || !b->data) {
		want = b->capacity ? b->capacity * 2 : 256;
		if (want < len + n)
			want = len + n;
		if (want > b->max)
			want = b->max;
		p = resize(b, want);
		if (!p) {
			errno = ENOMEM;
			return NULL;
		}
		b->data = p;
		b->capacity = want;
	}
	return b->data + b->end;
}

void buf_commit(struct buf *b, size_t n)
{
	assert(n <= b->capacity - b->end);
	b->end += n;
}

int buf_add(struct buf *b, const void *data, size_t n)
{
	uint8_t *p;

	if (!n)
		return 0;
	p = buf_reserve(b, n);
	if (!p)
		return -errno;
	memcpy(p, data, n);
	buf_commit(b, n);
	return 0;
}

int buf_add_last(struct buf *b, const void *data, size_t n)
{
	const uint8_t *end = (const uint8_t *)data + n;
	size_t have = buf_len(b);

	if (n > b->max)
		n = b->max;
	if (have > b->max - n)
		buf_consume(b, have - (b->max - n));
	return buf_add(b, end - n, n);
}

int buf_add_str(struct buf *b, const char *s)
{
	return buf_add(b, s, strlen(s));
}

int buf_add_u8(struct buf *b, uint8_t v)
{
	return buf_add(b, &v, 1);
}

int buf_add_le16(struct buf *b, uint16_t v)
{
	uint8_t t[2];

	put_le16(t, v);
	return buf_add(b, t, sizeof(t));
}

int buf_add_le32(struct buf *b, uint32_t v)
{
	uint8_t t[4];

	put_le32(t, v);
	return buf_add(b, t, sizeof(t));
}

int buf_add_le64(struct buf *b, uint64_t v)
{
	uint8_t t[8];

	put_le64(t, v);
	return buf_add(b, t, sizeof(t));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	uint8_t *p;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	p = buf_reserve(b, (size_t)n + 1);
	if (!p)
		return -errno;
	va_start(ap, fmt);
	(void)vsnprintf((char *)p, (size_t)n + 1, fmt, ap); /* measured above */
	va_end(ap);
	buf_commit(b, (size_t)n);
	return 0;
}

void buf_consume(struct buf *b, size_t n)
{
	assert(n <= buf_len(b));
	b->start += n;
	if (b->start == b->end)
		b->start = b->end = 0;
}
