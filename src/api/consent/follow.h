/* A request that waits for news: it is asked again whenever there is some, until it is answered. */
#ifndef API_CONSENT_FOLLOW_H
#define API_CONSENT_FOLLOW_H

#include <stdbool.h>
#include <uv.h>

#include "http/request.h"
#include "network/watch.h"

enum { FOLLOW_S = 30 }; /* then it is answered without news */

/* The first member of what the request waits with, which was malloc'ed and goes with it. */
struct follow {
	struct request *request;
	struct watch **list;
	struct watch watch;
	uv_timer_t tick;
	unsigned seconds;
	/* Answers if there is something to say, or it is `late`. Called once a second as well. */
	void (*look)(struct follow *f, bool late);
};

/* f->request, list, look and the watch's about and owner are set. what: as for watch_add. False:
 * answered, and the caller frees it. */
bool follow_begin(struct follow *f, const char *what);

#endif
