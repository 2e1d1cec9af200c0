#include "network/watch.h"

#include <errno.h>
#include <string.h>

int watch_add(struct watch **list, struct watch *w, const char *what, struct error *e)
{
	unsigned count = 0;

	for (const struct watch *o = *list; o; o = o->next)
		count += strcmp(o->owner, w->owner) == 0;
	if (count >= WATCHES_MAX)
		return error_set(e, ERROR_TOO_MANY, EAGAIN,
			"this API key has %d requests that wait for %s: ask without follow, or "
			"when one is answered",
			WATCHES_MAX, what);
	w->next = *list;
	*list = w;
	return 0;
}

void watch_remove(struct watch **list, struct watch *w)
{
	struct watch **p = list;

	while (*p && *p != w)
		p = &(*p)->next;
	if (*p)
		*p = w->next;
}

void watch_tell(struct watch *list, const char *about)
{
	for (struct watch *w = list, *next; w; w = next) {
		next = w->next;
		if (!w->about || strcmp(w->about, about) == 0)
			w->news(w->arg);
	}
}
