/* A bounds-checked cursor over untrusted bytes: from a guest, a file or a peer.
 *
 * A read past the end sets `bad` and returns zeros; so do all later reads. A parser can read all
 * its fields and check once. Little-endian. The bytes must not change while they are read. */
#ifndef BASE_READER_H
#define BASE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct reader {
	const uint8_t *p;
	const uint8_t *end;
	bool bad;
};

static inline struct reader reader_of(const void *data, size_t n)
{
	const uint8_t *p = data;

	return (struct reader){.p = p, .end = n ? p + n : p}; /* NULL + 0 is undefined in C */
}

static inline size_t reader_left(const struct reader *r)
{
	return (size_t)(r->end - r->p);
}

/* The next n bytes in place, or NULL (and bad) when fewer are left. */
static inline const uint8_t *reader_bytes(struct reader *r, size_t n)
{
	const uint8_t *p = r->p;

	if (r->bad || n > reader_left(r)) {
		r->bad = true;
		return NULL;
	}
	if (n)
		r->p += n;
	return p;
}

static inline void reader_copy(struct reader *r, void *out, size_t n)
{
	const uint8_t *p = reader_bytes(r, n);

	if (p)
		memcpy(out, p, n);
	else
		memset(out, 0, n);
}

static inline uint8_t reader_u8(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 1);

	return p ? *p : 0;
}

static inline uint16_t reader_le16(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 2);

	return p ? get_le16(p) : 0;
}

static inline uint32_t reader_le32(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 4);

	return p ? get_le32(p) : 0;
}

static inline uint64_t reader_le64(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 8);

	return p ? get_le64(p) : 0;
}

/* True when no read failed and no bytes are left. */
static inline bool reader_finished(const struct reader *r)
{
	return !r->bad && r->p == r->end;
}

#endif
