/* A growable byte buffer with a hard maximum. Bytes are appended at the end and consumed from the
 * front. Functions that add return 0, -ENOMEM, or -EMSGSIZE when the result would exceed the
 * maximum; on failure the buffer is unchanged. Not thread-safe. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data; /* owned */
	size_t start;  /* first unread byte */
	size_t end;    /* one past the last byte */
	size_t capacity;
	size_t max;  /* bytes the buffer may ever hold */
	bool secret; /* memory is wiped before it is given back */
};

#define BUF_INIT(max_bytes)                                                                        \
	{                                                                                          \
		.max = (max_bytes)                                                                 \
	}

void buf_init(struct buf *b, size_t max_bytes);
void buf_init_secret(struct buf *b, size_t max_bytes);
void buf_done(struct buf *b);  /* frees; the buffer may be used again */
void buf_clear(struct buf *b); /* empties, keeps the memory */

static inline size_t buf_len(const struct buf *b)
{
	return b->end - b->start;
}

static inline const uint8_t *buf_head(const struct buf *b)
{
	return b->data ? b->data + b->start : NULL; /* NULL + 0 is undefined */
}

/* Makes room for n more bytes and returns where to write them, or NULL. buf_commit adds what was
 * written to the buffer. */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);

int buf_add(struct buf *b, const void *data, size_t n);
/* Adds the data, or its end, and drops what came first, so that at most max bytes stay. */
int buf_add_last(struct buf *b, const void *data, size_t n);
int buf_add_str(struct buf *b, const char *s);
int buf_add_u8(struct buf *b, uint8_t v);
int buf_add_le16(struct buf *b, uint16_t v);
int buf_add_le32(struct buf *b, uint32_t v);
int buf_add_le64(struct buf *b, uint64_t v);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *b, size_t n); /* n <= buf_len */

#endif
