/* Writes text of a guest or a tenant so that a person sees what is in it, in a terminal, on a page
 * or in a message.
 *
 * Printable ASCII stays, and so do letters of other scripts, if all letters of their word are of
 * one script and do not all look like Latin ones. Everything else is written as \u{200b}:
 * characters that show nothing or move others (U+00AD, 200B-200F, 202A-202E, 2060-2069, FEFF,
 * E0000-E007F), combining marks, look-alikes, and letters of scripts that run from right to left,
 * as they move what stands beside them. A byte that is no UTF-8 is written as \x{ff}.
 *
 * What is written is written again as it is. */
#ifndef PROTO_SHOWN_TEXT_H
#define PROTO_SHOWN_TEXT_H

#include <stddef.h>

#include "base/buf.h"

enum {
	SHOWN_TEXT_LINES = 1,  /* line ends and tabs stay; else they are \n and \t */
	SHOWN_TEXT_QUOTED = 2, /* for a JSON string: \" and \\ */
};

/* Appends n bytes of text, character by character, while there is room for them and a NUL behind
 * them. Returns 0, -EMSGSIZE if there is no more room, or -ENOMEM. */
int shown_text_add(struct buf *out, const void *text, size_t n, unsigned how);

/* Returns a text so written, at most max bytes and a NUL, which the caller frees; NULL: out of
 * memory. */
char *shown_text_make(const char *text, size_t n, size_t max, unsigned how);

#endif
