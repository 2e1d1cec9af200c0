/* Shared by preview.c and preview_json.c. */
#ifndef INTERCEPT_PREVIEW_INTERNAL_H
#define INTERCEPT_PREVIEW_INTERNAL_H

#include "intercept/preview.h"

/* How a text is written: SHOWN_TEXT_LINES, SHOWN_TEXT_QUOTED, and: */
enum {
	PREVIEW_STRICT = 4, /* hides no more than secrets and words that begin as keys do */
	PREVIEW_CUT = 8,    /* the text goes on, so its last word may be the beginning of a key */
};

/* Appends at most PREVIEW_MAX bytes of a text, without a NUL. Adds to p->hidden, and the names. 0,
 * -EMSGSIZE or -ENOMEM. */
int preview_put(struct buf *out, const void *data, size_t n, unsigned how,
	const struct intercept *i, struct preview *p);
/* "[32 bytes hidden]" */
int preview_put_hidden(struct buf *out, size_t n);
void preview_note_name(struct preview *p, const char *name, size_t n);

/* preview_json.c: appends the compact form of JSON without a NUL. Returns 0, -EINVAL if it is no
 * object or array of strict JSON, or -ENOMEM. */
int preview_put_json(
	struct buf *out, const void *data, size_t n, const struct intercept *i, struct preview *p);

#endif
