/* Removes secrets from a server's answer. Each secret that may have been sent to the host is
 * replaced by its placeholder, even if it comes in pieces. A secret that only a rule uses has no
 * placeholder and becomes asterisks.
 *
 * Lengths never change, so Content-Length stays right: a placeholder is cut to the secret's length,
 * or padded with asterisks. Bytes pass at once, except those that may begin a secret. They wait for
 * more. If nothing follows, the owner releases them. Released bytes still count as the beginning,
 * so the rest of the secret is found.
 *
 * What this cannot find:
 * - a secret that the server has changed, by JSON escapes for example. Base64 is found only as
 *   credentials were sent;
 * - compressed bytes. Whoever uses this asks for none and accepts none;
 * - values below INTERCEPT_SCRUB_MIN bytes. */
#ifndef INTERCEPT_SCRUB_H
#define INTERCEPT_SCRUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "intercept/intercept.h"
#include "intercept/secret.h"

enum {
	SCRUB_ADDED_MAX = 4,
	SCRUB_BEGINS_MAX = 8, /* pairs of bytes that secrets begin with, for the fast search */
};

struct scrub_pattern;

struct scrub {
	struct intercept *intercept; /* a reference */
	struct scrub_pattern *patterns;
	unsigned count;
	uint8_t first[32]; /* a bit for each byte that a secret begins with */
	uint8_t begins[SCRUB_BEGINS_MAX][2];
	unsigned begin_count; /* if larger than SCRUB_BEGINS_MAX, `begins` is not complete */
	struct buf held;      /* bytes that may begin a secret */
	size_t told;	      /* how many of them were released */
	struct secret added[SCRUB_ADDED_MAX];
	unsigned added_count;
};

/* Prepares for answers of a host to requests with these rules. Returns 0, or -ENOMEM and leaves s
 * as after scrub_done(). */
int scrub_init(struct scrub *s, struct intercept *intercept, const char *host);
void scrub_done(struct scrub *s);

/* Adds a text that becomes asterisks, such as credentials made from a secret. Ignores texts below
 * INTERCEPT_SCRUB_MIN bytes and texts that were added before. Call it before the first bytes of the
 * answer. Returns 0, -ENOMEM, or -E2BIG if the text has more than INTERCEPT_SECRET_MAX bytes or
 * SCRUB_ADDED_MAX texts were added. Such a text would not be found, so it must not be sent. */
int scrub_add(struct scrub *s, const char *text, size_t bytes);

/* Whether there is anything to look for. */
static inline bool scrub_active(const struct scrub *s)
{
	return s->count > 0;
}

/* Returns how many bytes of memory s takes, without held bytes. */
size_t scrub_memory(const struct scrub *s);

/* Takes n bytes and appends what may pass to out: at most the held bytes and n more. Returns 0,
 * -EMSGSIZE or -ENOMEM. */
int scrub_bytes(struct scrub *s, const uint8_t *data, size_t n, struct buf *out);

/* How many bytes wait. */
static inline size_t scrub_waiting(const struct scrub *s)
{
	return buf_len(&s->held) - s->told;
}

/* Call it if nothing has followed for a while. Appends the waiting bytes if they reveal little of
 * the secret: fewer than INTERCEPT_SCRUB_MIN bytes, and at most half of it. Otherwise, and only if
 * `all`, appends what stands for the secret. Returns 0, -EMSGSIZE or -ENOMEM. */
int scrub_release(struct scrub *s, bool all, struct buf *out);

/* The answer has ended: appends what was held. */
int scrub_end(struct scrub *s, struct buf *out);

/* Forgets what was held. */
void scrub_drop(struct scrub *s);

/* Scrubs a whole text in place. */
void scrub_text(const struct scrub *s, char *text, size_t n);

#endif
