#include "intercept/gunzip.h"

#include <stdint.h>
#include <stdlib.h>
#include <strings.h>
#include <zlib.h>

#include "base/cleanup.h"

enum { PIECE = 8 << 10, ANY_FORMAT = 32 }; /* of inflateInit2: gzip or zlib, as the bytes say */

/*	GOES	more may come. To BETWEEN or WRONG
 *	BETWEEN a member of gzip has ended, and another one may follow. To GOES
 *	WRONG	nothing comes out any more */
enum state { GOES, BETWEEN, WRONG };

struct gunzip {
	z_stream z;
	enum state state;
	uint64_t bytes; /* that came out */
	uint8_t piece[PIECE];
};

static bool is_known(const char *coding)
{
	static const char *const known[] = {"gzip", "x-gzip", "deflate"};

	for (unsigned i = 0; coding && i < ARRAY_SIZE(known); i++)
		if (strcasecmp(coding, known[i]) == 0)
			return true;
	return false;
}

struct gunzip *gunzip_new(const char *coding)
{
	struct gunzip *u = is_known(coding) ? calloc(1, sizeof(*u)) : NULL;

	if (u && inflateInit2(&u->z, MAX_WBITS + ANY_FORMAT) != Z_OK) {
		free(u);
		return NULL;
	}
	return u;
}

void gunzip_free(struct gunzip *u)
{
	if (!u)
		return;
	(void)inflateEnd(&u->z); /* fails for a broken structure only */
	free(u);
}

/* One piece. Returns how many bytes came out. */
static size_t step(struct gunzip *u)
{
	int r;

	if (u->state == BETWEEN)
		u->state = inflateReset(&u->z) == Z_OK ? GOES : WRONG;
	u->z.next_out = u->piece;
	u->z.avail_out = PIECE;
	r = inflate(&u->z, Z_NO_FLUSH);
	if (r == Z_STREAM_END)
		u->state = BETWEEN;
	else if (r != Z_OK && r != Z_BUF_ERROR)
		u->state = WRONG;
	return PIECE - u->z.avail_out;
}

void gunzip_feed(struct gunzip *u, const void *data, size_t n,
	void (*take)(void *arg, const void *data, size_t n), void *arg)
{
	size_t out = PIECE;

	u->z.next_in = (uint8_t *)data; /* which zlib does not change */
	u->z.avail_in = (uInt)n;	/* of a record of TLS, or a frame */
	while (u->state != WRONG && (u->z.avail_in || (out == PIECE && u->state == GOES))) {
		out = step(u);
		u->bytes += out;
		if (u->bytes > GUNZIP_MAX)
			u->state = WRONG;
		else if (out)
			take(arg, u->piece, out);
	}
}

bool gunzip_is_whole(const struct gunzip *u)
{
	return u->state == BETWEEN;
}
