/* Unpacks a compressed answer while it passes, for those who read along: gzip and zlib ("deflate"),
 * RFC 1950 to 1952. Bytes come out in pieces, so memory is constant: GUNZIP_BYTES at most. */
#ifndef INTERCEPT_GUNZIP_H
#define INTERCEPT_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>

enum {
	GUNZIP_MAX = 32 << 20,	 /* bytes that come out of one answer, which takes 0.1 s or so */
	GUNZIP_BYTES = 64 << 10, /* memory of one */
};

struct gunzip;

/* coding: of the header Content-Encoding. Returns NULL if it is another one, or when out of
 * memory. */
struct gunzip *gunzip_new(const char *coding);
void gunzip_free(struct gunzip *u); /* NULL is fine */

/* Gives what comes out to take(), perhaps in several pieces. Once the bytes are wrong, or more than
 * GUNZIP_MAX came out, nothing does. */
void gunzip_feed(struct gunzip *u, const void *data, size_t n,
	void (*take)(void *arg, const void *data, size_t n), void *arg);

/* Whether all of it came out: the bytes ended where the coding does. */
bool gunzip_is_whole(const struct gunzip *u);

#endif
