/* Two exchanges that have secrets of equal lengths and kinds, and nothing else apart. Both get the
 * same bytes, and after each step the program must have the same of both: the same bytes, and the
 * same of them not yet. For tests and fuzz targets of what answers tell of secrets. */
#ifndef TESTS_TWINS_H
#define TESTS_TWINS_H

#include <stdarg.h>

#include "exchange_fixture.h"
#include "intercept/exchange_internal.h"

enum { TWINS_MANY = 12 };

struct twins {
	struct fixture f[2];
	bool deaf;	 /* the program reads nothing */
	size_t compared; /* bytes that the program has */
};

/* Guesses are made of those of the first. */
static const struct twins_secrets {
	const char *held, *rule, *text;
} twins_secrets[2] = {
	{"sk-real-5up3r5ecret", "rule-5ecret-value", "two words \"quoted\" {x}"},
	{"sk-1776-aBcDeFgHiJk", "VALUE_another.one", "zwo Worte, ohne Zahl 7"},
};

/* Hosts: api.test has a placeholder and a rule, held.test a placeholder, text.test a secret that is
 * no token, many.test so many that they are searched for otherwise. */
static inline struct intercept *twins_rules(const struct twins_secrets *s, char first)
{
	struct buf b = BUF_INIT(64 << 10);
	struct intercept *i;
	json_t *text = json_string(s->text);
	char *quoted = json_dumps(text, JSON_ENCODE_ANY);

	(void)buf_printf(&b,
		"{\"ca\": {\"certificate\": \"c\", \"key\": \"k\"}, \"hosts\": [{\"host\": "
		"\"api.test\","
		" \"headers\": [{\"name\": \"x\", \"value\": \"${e2b.secrets.rule}\"}]},"
		" {\"host\": \"text.test\", \"headers\": [{\"name\": \"x\", \"value\":"
		" \"${e2b.secrets.text}\"}]}], \"secrets\": [{\"name\": \"held\", \"value\": "
		"\"%s\"},"
		" {\"name\": \"rule\", \"value\": \"%s\"}, {\"name\": \"text\", \"value\": %s}",
		s->held, s->rule, quoted);
	for (unsigned n = 0; n < TWINS_MANY; n++)
		(void)buf_printf(&b, ", {\"name\": \"n%u\", \"value\": \"number-%u-%c%c%c%c%c%c\"}",
			n, n % 10, first, first + 1, first + 2, first + 3, first + 4, first + 5);
	(void)buf_printf(&b, "], \"placeholders\": [{\"text\": \"" PLACEHOLDER
			     "\", \"secret\": \"held\", \"hosts\": [\"held.test\", \"api.test\"]}");
	for (unsigned n = 0; n < TWINS_MANY; n++)
		(void)buf_printf(&b,
			", {\"text\": \"placeholder-no-%02u-x\", \"secret\": \"n%u\","
			" \"hosts\": [\"many.test\"]}",
			n, n);
	(void)buf_add(&b, "]}", 3);
	i = fixture_intercept((const char *)buf_head(&b));
	free(quoted);
	json_decref(text);
	buf_done(&b);
	return i;
}

/* False when out of memory. */
static inline bool twins_open(struct twins *t, enum exchange_protocol protocol, const char *host)
{
	bool made = true;

	*t = (struct twins){.compared = 0};
	for (unsigned n = 0; n < 2; n++) {
		struct intercept *i = twins_rules(&twins_secrets[n], n ? 'P' : 'a');

		made = fixture_open(&t->f[n], protocol, host, 443) && i && made;
		if (made)
			exchange_set_intercept(t->f[n].x, i);
		intercept_unref(i);
	}
	return made;
}

static inline void twins_close(struct twins *t)
{
	fixture_close(&t->f[0]);
	fixture_close(&t->f[1]);
}

/* Whether an answer had a whole secret. It tells the twins apart, as it must. */
static inline bool twins_said(const struct twins *t)
{
	return t->f[0].x->said || t->f[1].x->said;
}

static inline void twins_drain(const struct twins *t, struct fixture *f)
{
	size_t n = 1;

	if (!t->deaf) {
		fixture_drain(f);
		return;
	}
	while (n) {
		const uint8_t *p = exchange_output(f->x, EXCHANGE_SERVER, &n);

		if (n)
			(void)buf_add(&f->out[EXCHANGE_SERVER], p, n);
		exchange_sent(f->x, EXCHANGE_SERVER, n);
	}
}

static inline size_t twins_take(const struct twins *t, struct fixture *f, enum exchange_side from,
	const void *data, size_t n)
{
	size_t done = 0, took = 1;

	twins_drain(t, f);
	while (done < n && took && exchange_wants(f->x, from)) {
		took = exchange_receive(f->x, from, (const uint8_t *)data + done, n - done);
		done += took;
		twins_drain(t, f);
	}
	return done;
}

/* Whether the program, and whoever feeds the exchange, can tell the twins apart. */
static inline bool twins_are_equal(struct twins *t)
{
	struct fixture *a = &t->f[0], *b = &t->f[1];
	size_t m, n, from = t->compared, bytes = buf_len(&a->out[EXCHANGE_GUEST]);
	const uint8_t *p = exchange_output(a->x, EXCHANGE_GUEST, &m),
		      *q = exchange_output(b->x, EXCHANGE_GUEST, &n);

	t->compared = bytes;
	return bytes == buf_len(&b->out[EXCHANGE_GUEST]) &&
	       (bytes == from ||
		       memcmp(buf_head(&a->out[EXCHANGE_GUEST]) + from,
			       buf_head(&b->out[EXCHANGE_GUEST]) + from, bytes - from) == 0) &&
	       m == n && (m == 0 || memcmp(p, q, m) == 0) &&
	       exchange_state(a->x) == exchange_state(b->x) &&
	       exchange_wants(a->x, EXCHANGE_GUEST) == exchange_wants(b->x, EXCHANGE_GUEST) &&
	       exchange_wants(a->x, EXCHANGE_SERVER) == exchange_wants(b->x, EXCHANGE_SERVER);
}

/* A step: bytes of one side. Returns whether they are still equal, and took as much. */
static inline bool twins_feed(struct twins *t, enum exchange_side from, const void *data, size_t n)
{
	size_t a = twins_take(t, &t->f[0], from, data, n),
	       b = twins_take(t, &t->f[1], from, data, n);

	return twins_are_equal(t) && a == b;
}

/* One side has ended. */
static inline bool twins_end(struct twins *t, enum exchange_side from)
{
	for (unsigned n = 0; n < 2; n++) {
		exchange_receive_end(t->f[n].x, from);
		twins_drain(t, &t->f[n]);
	}
	return twins_are_equal(t);
}

#endif
