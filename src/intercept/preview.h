/* Shows a request to a person: texts of it, and its body (docs/consent.md#previews).
 *
 * Everything is written as shown_text.h says. Secrets and placeholders of the sandbox, values of
 * secret names (secret_name.h) and words that look like keys are hidden; "[32 bytes hidden]" stands
 * in their place. That helps people, but it is no protection: a guest may encode a secret in many
 * ways. More important is that a guest cannot hide anything else.
 *
 * So a body that is JSON is parsed, and shown in its compact form. Only the value of a member with
 * a secret name is hidden, and of other strings only secrets of the sandbox and words that begin as
 * keys do. A member that stands twice, perhaps in another spelling, means something else to
 * each server: then nobody can be asked. Other bodies are shown as text, with long rows of blanks
 * cut. There a secret name hides the one word behind it. */
#ifndef INTERCEPT_PREVIEW_H
#define INTERCEPT_PREVIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "intercept/intercept.h"

enum {
	PREVIEW_MAX = 2048, /* bytes of a text that are read */
	PREVIEW_NAMES_MAX = 8,
	PREVIEW_NAME_MAX = 64,
	PREVIEW_MEMBERS_MAX = 1 << 17, /* of JSON; nobody can be asked about more */
};

/* What there is to know of a preview. */
struct preview {
	size_t bytes;	   /* of all names and values that it is made of */
	size_t hidden;	   /* of these, that are hidden */
	bool cut;	   /* there is more than it shows */
	const char *wrong; /* static: why nobody can be asked about the body; NULL: nothing */
	/* Names whose values are hidden; the first ones, perhaps cut. */
	char names[PREVIEW_NAMES_MAX][PREVIEW_NAME_MAX + 1];
	unsigned name_count;
};

/* Appends a text of n bytes and a NUL, cut to PREVIEW_MAX bytes and to out's room. i may be NULL.
 * Returns 0, 1 if it was cut, or -ENOMEM. */
int preview_write(const void *data, size_t n, const struct intercept *i, struct buf *out);

/* Appends the preview of a body and a NUL, cut to out's room. more: it goes on behind these n
 * bytes. Returns 0 or -ENOMEM. */
int preview_write_body(const void *data, size_t n, bool more, const struct intercept *i,
	struct buf *out, struct preview *ret);

#endif
