/* Long polling: a request that waits for news. A callback looks whenever there may be some, until
 * it has answered. */
#ifndef API_CONSENT_FOLLOW_H
#define API_CONSENT_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "http/request.h"
#include "network/watch.h"

enum { FOLLOW_S = 30 }; /* then the request is answered without news */

/* The first member of the waiter's own struct, which was malloc'ed. The struct is freed with the
 * request. */
struct follow {
	struct request *request;
	struct watch **list;
	struct watch watch;
	uv_timer_t tick;
	unsigned seconds;
	/* Answers if there is news, or if `late`. Also called once a second. */
	void (*look)(struct follow *f, bool late);
};

/* Starts to wait. The caller has set f->request, list, look, and about and owner of the watch.
 * what: as for watch_add(). Returns false if it answered the request; the caller then frees f. */
bool follow_begin(struct follow *f, const char *what);

/* Read members of the query. An empty one counts as missing. They return false if they answered the
 * request. */

/* `follow`: true or false, 1 or 0; false without it. */
bool follow_take(struct request *r, bool *ret);

/* `cursor`: that of an earlier answer; 0 without it. */
bool follow_take_cursor(struct request *r, uint64_t *ret);

/* A list of words, separated by commas. bit_of: finds a word's bit, or returns less than 0. *ret
 * gets the bits; it stays as it is if the member is missing. words: all words, for the message. */
bool follow_take_words(struct request *r, const char *name,
	int (*bit_of)(const char *word, uint32_t *ret_bit), const char *words, uint32_t *ret);

#endif
