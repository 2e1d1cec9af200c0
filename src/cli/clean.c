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

void clean_print_error(const char *prefix, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	if (copy)
		clean_text(copy, "\n");
	(void)fprintf(stderr, "%s%s\n", prefix, copy ? copy : "out of memory");
}
