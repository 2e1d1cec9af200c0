/* What was denied last, for the sandbox's own programs (why.h): what they asked for, the rule and
 * the reason. Holds DENIALS_MAX, newest last. The same again counts up, and is the newest then.
 *
 * Another worker of the sandbox takes over from this one, by way of the daemon, as JSON. */
#ifndef EGRESS_DENIALS_H
#define EGRESS_DENIALS_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"

enum { DENIALS_MAX = 20, DENIALS_TEXT_MAX = 64 << 10 };

struct denial {
	uint64_t at_ms; /* since 1970 */
	uint64_t times;
	uint32_t address; /* 0: none, as of a question for a name */
	uint16_t port;
	char proto[4];
	char name[254]; /* "" without */
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

/* Takes over an earlier worker's, as older than what is there. 0, or -EINVAL: nothing was taken. */
int denials_restore(struct denials *d, const json_t *list);

#endif
