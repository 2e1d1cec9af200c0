/* A list of requests that wait for news of something. */
#ifndef NETWORK_WATCH_H
#define NETWORK_WATCH_H

#include "base/error.h"

enum { WATCHES_MAX = 64 }; /* of one owner in a list */

/* It lies in the watcher's own struct. The watcher removes it. */
struct watch {
	struct watch *next;
	const char *about;	 /* borrowed: the id that it waits for; NULL: any */
	const char *owner;	 /* borrowed: whose request it is */
	void (*news)(void *arg); /* may remove this watch, and no other */
	void *arg;
};

/* Adds a watch. what: names the awaited thing in the error's message. Fails with ERROR_TOO_MANY if
 * the owner has WATCHES_MAX in this list. */
int watch_add(struct watch **list, struct watch *w, const char *what, struct error *e);
/* Does nothing if w is in no list. */
void watch_remove(struct watch **list, struct watch *w);
/* Tells the watches of `about` that there is news. */
void watch_tell(struct watch *list, const char *about);

#endif
