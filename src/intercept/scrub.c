#include "intercept/scrub.h"

#include <emmintrin.h>
#include <errno.h>
#include <string.h>

struct scrub_pattern {
	const char *secret; /* of the reference, like all here */
	size_t bytes;
	const char *stand_in; /* NULL: asterisks */
	size_t stand_in_bytes;
};

/* A secret has INTERCEPT_SCRUB_MIN bytes at least. */
static void add_begin(struct scrub *s, const uint8_t *text)
{
	for (unsigned i = 0; i < s->begin_count && i < SCRUB_BEGINS_MAX; i++)
		if (memcmp(s->begins[i], text, 2) == 0)
			return;
	if (s->begin_count < SCRUB_BEGINS_MAX)
		memcpy(s->begins[s->begin_count], text, 2);
	s->begin_count++;
}

static void add_text(
	struct scrub *s, const struct secret *text, const struct intercept_placeholder *p)
{
	uint8_t first = (uint8_t)text->hidden[0];

	s->patterns[s->count++] = (struct scrub_pattern){.secret = text->hidden,
		.bytes = text->bytes,
		.stand_in = p ? p->text : NULL,
		.stand_in_bytes = p ? p->bytes : 0};
	s->first[first / 8] |= (uint8_t)(1 << first % 8);
	add_begin(s, (const uint8_t *)text->hidden);
}

static bool has_text(const struct scrub *s, const char *text, size_t bytes)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->patterns[i].bytes == bytes &&
			memcmp(s->patterns[i].secret, text, bytes) == 0)
			return true;
	return false;
}

static void add_pattern(struct scrub *s, const struct intercept_secret *secret,
	const struct intercept_placeholder *p)
{
	const struct secret *value = &secret->value;

	if (value->bytes >= INTERCEPT_SCRUB_MIN && !has_text(s, value->hidden, value->bytes))
		add_text(s, value, p);
}

/* Those that a rule names in its values. */
static void add_of_rule(struct scrub *s, const struct intercept_host *host)
{
	static const char begin[] = "${e2b.";

	for (unsigned i = 0; i < host->header_count; i++)
		for (const char *p = host->headers[i].value; (p = strstr(p, begin));) {
			int n;

			p += sizeof(begin) - 1;
			n = intercept_reference(s->intercept, p, strcspn(p, "}"));
			if (n >= 0)
				add_pattern(s, &s->intercept->secrets[n], NULL);
		}
}

static int by_length(const void *a, const void *b)
{
	const struct scrub_pattern *x = a, *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

int scrub_init(struct scrub *s, struct intercept *intercept, const char *host)
{
	const struct intercept_host *rule = intercept_find(intercept, host);

	*s = (struct scrub){0};
	buf_init_secret(&s->held, INTERCEPT_SECRET_MAX);
	/* One for each secret, as equal ones are added once. */
	s->patterns = calloc(intercept->secret_count + SCRUB_ADDED_MAX, sizeof(s->patterns[0]));
	if (!s->patterns)
		return -ENOMEM;
	s->intercept = intercept_ref(intercept);
	for (unsigned i = 0; i < intercept->placeholder_count; i++) {
		const struct intercept_placeholder *p = &intercept->placeholders[i];

		if (intercept_placeholder_is_for(p, host))
			add_pattern(s, &intercept->secrets[p->secret], p);
	}
	if (rule)
		add_of_rule(s, rule);
	qsort(s->patterns, s->count, sizeof(s->patterns[0]), by_length);
	return 0;
}

int scrub_add(struct scrub *s, const char *text, size_t bytes)
{
	struct secret *added = &s->added[s->added_count];

	if (bytes < INTERCEPT_SCRUB_MIN || has_text(s, text, bytes))
		return 0;
	if (s->added_count == SCRUB_ADDED_MAX || bytes > INTERCEPT_SECRET_MAX)
		return -E2BIG;
	added->hidden = strndup(text, bytes);
	if (!added->hidden)
		return -ENOMEM;
	added->bytes = bytes;
	s->added_count++;
	add_text(s, added, NULL);
	qsort(s->patterns, s->count, sizeof(s->patterns[0]), by_length);
	return 0;
}

void scrub_done(struct scrub *s)
{
	for (unsigned i = 0; i < s->added_count; i++)
		secret_wipe(&s->added[i]);
	intercept_unref(s->intercept);
	free(s->patterns);
	buf_done(&s->held);
	*s = (struct scrub){0};
}

size_t scrub_memory(const struct scrub *s)
{
	size_t n = s->intercept
			   ? (s->intercept->secret_count + SCRUB_ADDED_MAX) * sizeof(s->patterns[0])
			   : 0;

	for (unsigned i = 0; i < s->added_count; i++)
		n += s->added[i].bytes;
	return n;
}

enum found { NOTHING, SECRET, BEGINNING };

/* Finds the secret that begins here. The longest one counts, so the beginning of a longer secret
 * hides a whole shorter one. */
static enum found look(
	const struct scrub *s, const uint8_t *p, size_t left, const struct scrub_pattern **ret)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct scrub_pattern *t = &s->patterns[i];

		if (*p != (uint8_t)*t->secret || (left > 1 && p[1] != (uint8_t)t->secret[1]) ||
			memcmp(p, t->secret, left < t->bytes ? left : t->bytes) != 0)
			continue; /* mostly decided by two bytes */
		*ret = t;
		return left < t->bytes ? BEGINNING : SECRET;
	}
	return NOTHING;
}

/* Whole secrets only: at the end there is no more to wait for. */
static enum found look_at_end(
	const struct scrub *s, const uint8_t *p, size_t left, const struct scrub_pattern **ret)
{
	for (unsigned i = 0; i < s->count; i++)
		if (left >= s->patterns[i].bytes &&
			memcmp(p, s->patterns[i].secret, s->patterns[i].bytes) == 0) {
			*ret = &s->patterns[i];
			return SECRET;
		}
	return NOTHING;
}

/* Checks sixteen places at a time, two bytes of each (SSE2, which every x86-64 has). Returns the
 * first place where a secret may begin, or the place from which the rest must be checked byte by
 * byte. */
static size_t skip_blocks(const struct scrub *s, const uint8_t *p, size_t from, size_t n)
{
	__m128i one[SCRUB_BEGINS_MAX], two[SCRUB_BEGINS_MAX];

	for (unsigned i = 0; i < s->begin_count; i++) {
		one[i] = _mm_set1_epi8((char)s->begins[i][0]);
		two[i] = _mm_set1_epi8((char)s->begins[i][1]);
	}
	for (; n - from > sizeof(__m128i); from += sizeof(__m128i)) {
		__m128i at, next, hits = _mm_setzero_si128();
		unsigned mask;

		memcpy(&at, p + from, sizeof(at));
		memcpy(&next, p + from + 1, sizeof(next));
		for (unsigned i = 0; i < s->begin_count; i++)
			hits = _mm_or_si128(hits, _mm_and_si128(_mm_cmpeq_epi8(at, one[i]),
							  _mm_cmpeq_epi8(next, two[i])));
		mask = (unsigned)_mm_movemask_epi8(hits);
		if (mask)
			return from + (unsigned)__builtin_ctz(mask);
	}
	return from;
}

/* The next place where a secret may begin. */
static size_t skip(const struct scrub *s, const uint8_t *p, size_t from, size_t n)
{
	if (s->begin_count <= SCRUB_BEGINS_MAX && from < n)
		from = skip_blocks(s, p, from, n);
	while (from < n && !(s->first[p[from] / 8] >> p[from] % 8 & 1))
		from++;
	return from;
}

static void write_stand_in(const struct scrub_pattern *t, uint8_t *out)
{
	size_t n = t->stand_in_bytes < t->bytes ? t->stand_in_bytes : t->bytes;

	if (n)
		memcpy(out, t->stand_in, n);
	memset(out + n, '*', t->bytes - n);
}

/* Replaces secrets in place. Returns where a possible beginning of a secret starts at the end, or
 * n. */
static size_t replace(const struct scrub *s, uint8_t *p, size_t n, bool at_end)
{
	const struct scrub_pattern *t;
	size_t i = skip(s, p, 0, n);

	while (i < n) {
		enum found found =
			at_end ? look_at_end(s, p + i, n - i, &t) : look(s, p + i, n - i, &t);

		if (found == BEGINNING)
			return i;
		if (found == SECRET)
			write_stand_in(t, p + i);
		i = skip(s, p, i + (found == SECRET ? t->bytes : 1), n);
	}
	return n;
}

void scrub_text(const struct scrub *s, char *text, size_t n)
{
	if (s->count)
		(void)replace(s, (uint8_t *)text, n, true); /* all of it, so nothing waits */
}

/* Appends what stands for p's first n bytes, without those that were released before. */
static void pass(struct scrub *s, uint8_t *p, size_t n, struct buf *out)
{
	size_t skip = s->told < n ? s->told : n;

	if (skip)
		memmove(p, p + skip, n - skip);
	s->told -= skip;
	buf_commit(out, n - skip);
}

int scrub_bytes(struct scrub *s, const uint8_t *data, size_t n, struct buf *out)
{
	size_t before = buf_len(&s->held), passed;
	uint8_t *p;
	int r;

	if (!s->count)
		return buf_add(out, data, n);
	p = buf_reserve(out, before + n);
	if (!p)
		return before + n ? -errno : 0;
	if (before)
		memcpy(p, buf_head(&s->held), before);
	if (n)
		memcpy(p + before, data, n);
	passed = replace(s, p, before + n, false);
	buf_clear(&s->held);
	/* Shorter than a secret, so it fits. */
	r = buf_add(&s->held, p + passed, before + n - passed);
	pass(s, p, passed, out);
	return r;
}

/* Of each secret that begins so. */
static bool says_little(const struct scrub *s, const uint8_t *p, size_t n)
{
	for (unsigned i = 0; i < s->count; i++)
		if (n > s->patterns[i].bytes / 2 &&
			memcmp(p, s->patterns[i].secret,
				n < s->patterns[i].bytes ? n : s->patterns[i].bytes) == 0)
			return false;
	return n < INTERCEPT_SCRUB_MIN;
}

int scrub_release(struct scrub *s, bool all, struct buf *out)
{
	size_t n = buf_len(&s->held), waiting = scrub_waiting(s);
	const struct scrub_pattern *t = NULL;
	bool little = waiting && says_little(s, buf_head(&s->held), n);
	uint8_t *p;

	if (!waiting || (!all && !little) || look(s, buf_head(&s->held), n, &t) == NOTHING)
		return 0;
	p = buf_reserve(out, waiting); /* which has no room for all of t, perhaps */
	if (!p)
		return -errno;
	for (size_t i = s->told; i < n; i++)
		*p++ = (uint8_t)(little			 ? t->secret[i]
				 : i < t->stand_in_bytes ? t->stand_in[i]
							 : '*');
	buf_commit(out, waiting);
	s->told = n;
	return 0;
}

int scrub_end(struct scrub *s, struct buf *out)
{
	size_t n = buf_len(&s->held);
	uint8_t *p;

	if (!n)
		return 0;
	p = buf_reserve(out, n);
	if (!p)
		return -errno;
	memcpy(p, buf_head(&s->held), n);
	(void)replace(s, p, n, true);
	pass(s, p, n, out);
	scrub_drop(s);
	return 0;
}

void scrub_drop(struct scrub *s)
{
	buf_done(&s->held);
	s->told = 0;
}
