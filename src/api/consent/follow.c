#include "api/consent/follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "http/reply.h"
#include "proto/uri.h"

enum { WORDS_MAX = 128 }; /* bytes of a list */

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

bool follow_take(struct request *r, bool *ret)
{
	int err;

	*ret = false;
	err = uri_query_flag(r->head->query, "follow", ret);
	if (err == 0 || err == -ENOENT || err == -ENODATA)
		return true;
	reply_error(r, 400, "follow must be true or false");
	return false;
}

bool follow_take_cursor(struct request *r, uint64_t *ret)
{
	unsigned long long cursor = 0;
	bool good = api_take_number(
		r, "cursor", "cursor must be that of an earlier answer", INT64_MAX, &cursor);

	*ret = cursor;
	return good;
}

bool follow_take_words(struct request *r, const char *name,
	int (*bit_of)(const char *word, uint32_t *ret_bit), const char *words, uint32_t *ret)
{
	char text[WORDS_MAX], *save = NULL;
	int n = uri_query_get(r->head->query, name, text, sizeof(text));
	uint32_t bit, all = 0;

	if (n == -ENOENT || n == 0)
		return true;
	for (char *word = n < 0 ? NULL : strtok_r(text, ",", &save); word && n >= 0;
		word = strtok_r(NULL, ",", &save)) {
		if (bit_of(word, &bit) < 0)
			n = -EINVAL;
		else
			all |= bit;
	}
	if (n < 0 || all == 0) {
		reply_error(r, 400, "%s must be %s, or several with commas", name, words);
		return false;
	}
	*ret = all;
	return true;
}
