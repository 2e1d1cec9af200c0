/* The last DENIALS_MAX denials, for the sandbox's own programs (why.h): what they asked for, the
 * rule and the reason. The newest is last. A repeated denial increases its count and becomes the
 * newest.
 *
 * The daemon passes the list to the sandbox's next worker, as JSON. */
#ifndef EGRESS_DENIALS_H
#define EGRESS_DENIALS_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"

enum { DENIALS_MAX = 20, DENIALS_TEXT_MAX = 64 << 10 };

struct denial {
	uint64_t at_ms; /* since 1970 */
	uint64_t times;
	uint32_t address; /* 0: none, as for a DNS question */
	uint16_t port;
	char proto[4];
	char name[254]; /* may be "" */
	char rule[65];
	char reason[161];
};

struct denials {
	struct denial list[DENIALS_MAX]; /* the first `count` */
	unsigned count;
	uint64_t changes; /* grows with each denial */
};

/* Text that is too long is cut. */
void denials_note(struct denials *d, const struct denial *one);

/* Appends [{...}, ...], newest first. 0 or the buffer's error. */
int denials_json(const struct denials *d, struct buf *out);
/* Appends a line for each, newest first, or one that says that there is none. */
int denials_text(const struct denials *d, struct buf *out);

/* Takes over the list of an earlier worker; its denials are older than the present ones. Returns 0,
 * or -EINVAL and takes nothing. */
int denials_restore(struct denials *d, const json_t *list);

#endif
