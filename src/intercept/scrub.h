/* Takes secrets out of what a server answers: each that may have gone to a host is replaced by its
 * placeholder, also where it comes in pieces. A secret without a placeholder, which only a rule
 * uses, becomes asterisks.
 *
 * Lengths never change, so Content-Length stays right: a placeholder is cut to the secret's length,
 * or filled up with asterisks. Of what came, at most the beginning of a secret waits for more; all
 * else passes at once. If nothing follows, the owner releases it: what went out still counts as the
 * beginning, so the rest of the secret is found.
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
	SCRUB_BEGINS_MAX =
		8, /* different pairs of bytes that secrets begin with, for the fast search */
};

struct scrub_pattern;

struct scrub {
	struct intercept *intercept; /* a reference */
	struct scrub_pattern *patterns;
	unsigned count;
	uint8_t first[32]; /* a bit for each byte that a secret begins with */
	uint8_t begins[SCRUB_BEGINS_MAX][2];
	unsigned begin_count; /* more than SCRUB_BEGINS_MAX: they are not all here */
	struct buf held;      /* the beginning of a secret, perhaps */
	size_t told;	      /* bytes of it that were released */
	struct secret added[SCRUB_ADDED_MAX];
	unsigned added_count;
};

/* For answers of a host to requests with these rules. 0 or -ENOMEM; then it is as after
 * scrub_done. */
int scrub_init(struct scrub *s, struct intercept *intercept, const char *host);
void scrub_done(struct scrub *s);

/* Looks for another text, too, which becomes asterisks: credentials that were made of a secret.
 * Texts below INTERCEPT_SCRUB_MIN bytes are left out, equal ones count once. Not after the first
 * bytes. 0, -ENOMEM, or -E2BIG: it has more than INTERCEPT_SECRET_MAX bytes, or there are
 * SCRUB_ADDED_MAX; it would not be found, so it must not be sent. */
int scrub_add(struct scrub *s, const char *text, size_t bytes);

/* Whether there is anything to look for. */
static inline bool scrub_active(const struct scrub *s)
{
	return s->count > 0;
}

/* Bytes of memory that it takes of its own, without what is held. */
size_t scrub_memory(const struct scrub *s);

/* Appends to out what may pass: at most what was held and n bytes. 0, -EMSGSIZE, -ENOMEM. */
int scrub_bytes(struct scrub *s, const uint8_t *data, size_t n, struct buf *out);

/* Bytes that wait. */
static inline size_t scrub_waiting(const struct scrub *s)
{
	return buf_len(&s->held) - s->told;
}

/* Appends what waits, as nothing has followed for a while: as it is while it says little of the
 * secret (below INTERCEPT_SCRUB_MIN bytes, and at most half), else, and only if `all`, what
 * stands for it. 0, -EMSGSIZE, -ENOMEM. */
int scrub_release(struct scrub *s, bool all, struct buf *out);

/* No more comes: appends what was held. */
int scrub_end(struct scrub *s, struct buf *out);

/* Forgets what was held. */
void scrub_drop(struct scrub *s);

/* A whole text, in place. */
void scrub_text(const struct scrub *s, char *text, size_t n);

#endif
