/* What fuzz targets share. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* libFuzzer's entry, and replay_main.c's. Always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An invariant of ours, whatever the input is. */
#define check(good) ((good) ? (void)0 : check_failed(__FILE__, __LINE__, #good))

_Noreturn static inline void check_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not true: %s\n", file, line, what);
	abort();
}

static inline bool same(const struct buf *a, const struct buf *b)
{
	return buf_len(a) == buf_len(b) &&
	       (!buf_len(a) || memcmp(buf_head(a), buf_head(b), buf_len(a)) == 0);
}

/* The input as text; what lies behind a NUL in it is cut off by its readers. Free it. */
static inline char *text_of(const uint8_t *data, size_t n)
{
	char *text = calloc(1, n + 1);

	check(text);
	if (n)
		memcpy(text, data, n);
	return text;
}

#endif
