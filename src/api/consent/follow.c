#include "api/consent/follow.h"

#include <stdlib.h>

#include "api/api.h"
#include "http/reply.h"

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

static void on_done(struct request *r, bool complete)
{
	struct follow *f = r->data;

	watch_remove(f->list, &f->watch);
	uv_close((uv_handle_t *)&f->tick, on_closed);
}

static void on_news(void *arg)
{
	struct follow *f = arg;

	f->look(f, false);
}

static void on_tick(uv_timer_t *t)
{
	struct follow *f = t->data;

	f->look(f, ++f->seconds >= FOLLOW_S);
}

bool follow_begin(struct follow *f, const char *what)
{
	static const struct request_ops ops = {.done = on_done};
	struct error e = {0};

	f->watch.news = on_news;
	f->watch.arg = f;
	if (watch_add(f->list, &f->watch, what, &e) < 0) {
		reply_failure(f->request, &e);
		return false;
	}
	(void)uv_timer_init(request_loop(f->request), &f->tick); /* these cannot fail */
	f->tick.data = f;
	(void)uv_timer_start(&f->tick, on_tick, 1000, 1000);
	request_set_ops(f->request, &ops, f);
	return true;
}
