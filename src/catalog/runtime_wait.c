#include "catalog/runtime_wait.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 200 };

static void look(struct runtime_wait *w);

static void on_look(uv_timer_t *t)
{
	look((struct runtime_wait *)(void *)t);
}

/* Percents would be a line each. */
static void say(struct runtime_wait *w, struct runtime_status s)
{
	char text[RUNTIME_WORDS_MAX];

	s.percent = -1;
	runtime_say_coming(&w->runtime, &s, text);
	if (strcmp(text, w->said) == 0)
		return;
	memcpy(w->said, text, sizeof(text));
	w->ops->said(w->arg, text);
}

static void look(struct runtime_wait *w)
{
	char text[RUNTIME_WORDS_MAX];
	struct runtime_status s;

	runtime_builds_want(w->fleet, &w->runtime, &s);
	switch (s.state) {
	case RUNTIME_READY:
		w->ops->over(w->arg, NULL);
		return;
	case RUNTIME_MISSING:
		runtime_say_missing(w->fleet, &w->runtime, text);
		w->ops->over(w->arg, text);
		return;
	case RUNTIME_FAILED:
		runtime_say_failed(&w->runtime, &s, text);
		w->ops->over(w->arg, text);
		return;
	default:
		say(w, s);
		(void)uv_timer_start(&w->timer, on_look, LOOK_MS, 0); /* cannot fail */
	}
}

void runtime_wait_begin(struct runtime_wait *w)
{
	w->said[0] = '\0';
	look(w);
}
