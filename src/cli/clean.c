#include "cli/clean.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* The first byte of C1 in UTF-8; the second is 0x80 to 0x9f. */
enum { C1_FIRST = 0xc2 };

static bool is_c1(const char *p)
{
	return (unsigned char)p[0] == C1_FIRST && (unsigned char)p[1] >= 0x80 &&
	       (unsigned char)p[1] < 0xa0;
}

void clean_text(char *text, const char *keep)
{
	for (char *p = text; *p; p++)
		if (is_c1(p)) {
			*p++ = '?';
			*p = '?';
		} else if (((unsigned char)*p < ' ' || *p == 0x7f) && !strchr(keep, *p)) {
			*p = '?';
		}
}

static void put(struct clean_stream *s, FILE *to, unsigned char c)
{
	bool is_second = s->held && c >= 0x80 && c < 0xa0;

	if (s->held)
		(void)fputc(is_second ? '?' : C1_FIRST, to);
	s->held = c == C1_FIRST;
	if (s->held)
		return;
	if (c == '\r')
		c = '\n';
	(void)fputc(is_second || (c < ' ' && c != '\n' && c != '\t') || c == 0x7f ? '?' : c, to);
}

void clean_write(struct clean_stream *s, FILE *to, const void *data, size_t n)
{
	for (const unsigned char *p = data, *end = p + n; p < end; p++)
		put(s, to, *p);
}

void clean_print_error(const char *prefix, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	if (copy)
		clean_text(copy, "\n\t");
	(void)fprintf(stderr, "%s%s\n", prefix, copy ? copy : "out of memory");
}
