/* Who waits for news of one thing: a list of requests that are told when there is some. */
#ifndef NETWORK_WATCH_H
#define NETWORK_WATCH_H

#include "base/error.h"

enum { WATCHES_MAX = 64 }; /* of an owner in a list */

/* The watcher keeps it, and removes it. */
struct watch {
	struct watch *next;
	const char *about;	 /* borrowed: the id that it waits for; NULL: any */
	const char *owner;	 /* borrowed: whose request it is */
	void (*news)(void *arg); /* may remove this watch, and no other */
	void *arg;
};

/* ERROR_TOO_MANY: the owner has WATCHES_MAX. what: what they wait for, for the message. */
int watch_add(struct watch **list, struct watch *w, const char *what, struct error *e);
/* One that is in no list is fine. */
void watch_remove(struct watch **list, struct watch *w);
/* There is news of `about`. */
void watch_tell(struct watch *list, const char *about);

#endif
