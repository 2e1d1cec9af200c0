/* A value that is never printed, and is wiped when it is freed. */
#ifndef INTERCEPT_SECRET_H
#define INTERCEPT_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct secret {
	char *hidden; /* NUL-terminated; owned. Only senders and searches may read it */
	size_t bytes;
};

/* Of which bytes a value is. Like its length, this is no secret (scrub.c).
 *
 *	TOKEN	letters, digits, and ! # $ % & ' * + - . / : = ? @ ^ _ ` | ~
 *	TEXT	others, too, all of which a header can hold
 *	OTHER	some that no header can hold, so it is never sent */
enum secret_kind { SECRET_TOKEN, SECRET_TEXT, SECRET_OTHER };

static inline bool secret_is_token_byte(uint8_t c)
{
	/* A bit for each ASCII character. */
	static const uint64_t bits[2] = {0xa7ffecfa00000000, 0x57ffffffc7ffffff};

	return c < 128 && bits[c / 64] >> c % 64 & 1;
}

static inline bool secret_is_text_byte(uint8_t c)
{
	return (c >= 0x20 && c != 0x7f) || c == '\t';
}

static inline enum secret_kind secret_kind(const struct secret *s)
{
	enum secret_kind kind = SECRET_TOKEN;

	for (size_t i = 0; i < s->bytes; i++) {
		if (!secret_is_text_byte((uint8_t)s->hidden[i]))
			return SECRET_OTHER;
		if (!secret_is_token_byte((uint8_t)s->hidden[i]))
			kind = SECRET_TEXT;
	}
	return kind;
}

/* Returns 0, or -1 when out of memory. */
static inline int secret_make(struct secret *s, const char *text)
{
	s->bytes = strlen(text);
	s->hidden = strdup(text);
	return s->hidden ? 0 : -1;
}

static inline void secret_wipe(struct secret *s)
{
	if (s->hidden)
		explicit_bzero(s->hidden, s->bytes);
	free(s->hidden);
	*s = (struct secret){0};
}

#endif
