/* Removes secrets from a server's answer. Each secret that may have been sent to the host is
 * replaced by its placeholder, even if it comes in pieces. A secret that only a rule uses has no
 * placeholder and becomes asterisks. Lengths never change, so Content-Length stays right: a
 * placeholder is cut to the secret's length, or padded with asterisks.
 *
 * A guest must learn nothing of a secret from what it gets, and from when it gets it. scrub.c says
 * how that is done. What a guest can still tell: whether a text of its own choice is the whole
 * secret, if a server sends that text.
 *
 * What this cannot find:
 * - a secret that the server has changed, by JSON escapes for example. Base64 is found only as
 *   credentials were sent;
 * - a secret that comes in two answers, or in two messages of a websocket or of gRPC;
 * - compressed bytes. Whoever uses this asks for none and accepts none;
 * - values below INTERCEPT_SCRUB_MIN bytes, and those that no header can hold. */
#ifndef INTERCEPT_SCRUB_H
#define INTERCEPT_SCRUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "intercept/frames.h"
#include "intercept/intercept.h"
#include "intercept/secret.h"

enum { SCRUB_ADDED_MAX = 4 };

struct scrub_pattern;

struct scrub {
	struct intercept *intercept; /* a reference */
	struct scrub_pattern *patterns;
	unsigned count;
	unsigned *said;	      /* counts secrets that were replaced; or NULL. Borrowed */
	size_t longest[2];    /* of patterns of each kind; 0: there is none */
	size_t run[2];	      /* so many of the last bytes may belong to a secret of each kind */
	struct buf held;      /* bytes that wait */
	size_t settled;	      /* of these, so many at the front belong to a secret before them */
	struct frames frames; /* of the answer */
	uint64_t hash_key;
	uint64_t *hashes; /* a bit for each hash of a pattern, if they are many; or NULL */
	struct secret added[SCRUB_ADDED_MAX];
	unsigned added_count;
};

/* Prepares for answers of a host to requests with these rules. Returns 0, or -ENOMEM and leaves s
 * as after scrub_done(). */
int scrub_init(struct scrub *s, struct intercept *intercept, const char *host);
void scrub_done(struct scrub *s);

/* Adds a secret that becomes asterisks. Call these before the first bytes of the answer. They
 * ignore secrets that are never found, and those that were added before. They return 0, -ENOMEM, or
 * -E2BIG if SCRUB_ADDED_MAX were added, or if base64 of it has more than INTERCEPT_SECRET_MAX
 * bytes. Such a secret would come back unseen, so it must not be sent. */
int scrub_add(struct scrub *s, unsigned secret);

/* The same, for base64 of a text in which the secret begins at this place. Only characters that
 * have bits of the secret are looked for, so nothing depends on the rest of the text. */
int scrub_add_base64(struct scrub *s, unsigned secret, size_t place);

/* Whether there is anything to look for. */
static inline bool scrub_active(const struct scrub *s)
{
	return s->count > 0;
}

/* Returns how many bytes of memory s takes, with the most that it may hold. */
size_t scrub_memory(const struct scrub *s);

/* The answer begins: its bytes may be messages. */
void scrub_begin(struct scrub *s, unsigned status, const struct http_headers *headers);

/* Takes n bytes and appends what may pass to out: at most the held bytes and n more. Returns 0,
 * -EMSGSIZE, -ENOMEM, or -ENOTSUP if a message is compressed. */
int scrub_bytes(struct scrub *s, const uint8_t *data, size_t n, struct buf *out);

/* How many bytes wait. */
static inline size_t scrub_waiting(const struct scrub *s)
{
	return buf_len(&s->held);
}

/* The answer has ended: appends what was held. Returns 0, -EMSGSIZE or -ENOMEM. */
int scrub_end(struct scrub *s, struct buf *out);

/* Forgets what was held. */
void scrub_drop(struct scrub *s);

/* Scrubs a whole text in place. */
void scrub_text(const struct scrub *s, char *text, size_t n);

#endif
