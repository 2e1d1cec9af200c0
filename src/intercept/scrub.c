/* Theory of operation.
 *
 * A guest may choose what a server sends: it stores a file there, or the server echoes it. So the
 * guest can let any guess pass through here. If what happens to a guess depended on how much of it
 * is right, the guest would learn a secret byte by byte. So what leaves here, and when, depends on
 * public facts only, as long as no secret is in the answer as a whole:
 *
 * - the bytes of the server, and where they were cut into pieces;
 * - the number, the lengths and the kinds of the secrets (secret.h), never their bytes.
 *
 * Bytes pass at once, except the last ones that may belong to a secret of which more follows. These
 * are not the bytes that a secret begins with, but all of the kind's: a run of token characters at
 * the end waits, up to the length of the longest secret less one. It waits for a byte of another
 * kind, for so many more bytes that it is too long, or for the end of the answer or of the message
 * (frames.h). There is no clock: bytes of an answer that stalls wait with it, however long. A
 * beginning of a secret is never replaced, so a guess that is not the whole secret always passes
 * unchanged.
 *
 * Where this costs a stream nothing: events end with an empty line, JSON lines with a line end,
 * messages of websockets and gRPC with their length. A stream of words without line ends is a word
 * late. If a secret has other characters than tokens have, all but control characters wait, so that
 * text without line ends is late by the secret's length.
 *
 * Of secrets that begin at one place the longest counts. A place is decided when every secret that
 * may begin there would be complete, so the result does not depend on how the answer was cut.
 *
 * Time. The search must not tell by its speed how much of a guess is right, because an answer may
 * repeat a guess a million times. It compares the last ANCHOR bytes of a secret at once, at each
 * place, and then all of it in constant time. So only those who guess ANCHOR bytes together see a
 * difference, and these are the last ones, which no provider publishes. With many secrets, a hash
 * of ANCHOR bytes chooses places to look at. Its key is random for each answer.
 *
 * Base64 of credentials is looked for without the characters that the guest's own text determines.
 * Else the guest would know the beginning, and choose the length. Characters that have bits of both
 * are part of the match, whatever they are, and become asterisks.
 *
 * What is left. A guess of the whole secret is replaced, so it is told. For random secrets that is
 * no help; a password that can be guessed stays one. The owner counts what is replaced. */
#include "intercept/scrub.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "proto/base64.h"

enum {
	ANCHOR = INTERCEPT_SCRUB_MIN, /* bytes; of uint64_t */
	FEW = 8,		      /* patterns that are compared one by one */
	HASH_BITS = 14,
	HASHES_BYTES = (1 << HASH_BITS) / 8,
	PLAIN = 0, /* form of a pattern; base64 has three others */
};

_Static_assert(ANCHOR == sizeof(uint64_t), "load()");

struct scrub_pattern {
	const char *text; /* borrowed */
	size_t bytes;
	uint64_t anchor;       /* its last bytes */
	uint8_t before, after; /* characters around it that have bits of it */
	uint8_t form;
	unsigned secret;
	const char *stand_in; /* NULL: asterisks */
	size_t stand_in_bytes;
};

static size_t whole(const struct scrub_pattern *t)
{
	return t->before + t->bytes + t->after;
}

static uint64_t load(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* ---- patterns ---- */

static unsigned hash(const struct scrub *s, uint64_t anchor)
{
	return (unsigned)(anchor * s->hash_key >> (64 - HASH_BITS));
}

static void add_hash(struct scrub *s, uint64_t anchor)
{
	unsigned h = hash(s, anchor);

	s->hashes[h / 64] |= UINT64_C(1) << h % 64;
}

/* Longer ones come first. The order does not depend on their bytes. */
static int by_length(const void *a, const void *b)
{
	const struct scrub_pattern *x = a, *y = b;

	if (whole(x) != whole(y))
		return whole(x) < whole(y) ? 1 : -1;
	if (x->form != y->form)
		return x->form < y->form ? -1 : 1;
	return x->secret < y->secret ? -1 : x->secret > y->secret;
}

static bool is_there(const struct scrub *s, unsigned secret, unsigned form)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->patterns[i].secret == secret && s->patterns[i].form == form)
			return true;
	return false;
}

/* After all were added. Returns 0 or -ENOMEM. */
static int prepare(struct scrub *s)
{
	qsort(s->patterns, s->count, sizeof(s->patterns[0]), by_length);
	if (s->count <= FEW)
		return 0;
	free(s->hashes);
	s->hashes = calloc(1, HASHES_BYTES);
	if (!s->hashes)
		return -ENOMEM;
	if (RAND_bytes((uint8_t *)&s->hash_key, sizeof(s->hash_key)) != 1)
		s->hash_key = (uintptr_t)s->patterns * UINT64_C(0x9e3779b97f4a7c15);
	s->hash_key |= 1;
	for (unsigned i = 0; i < s->count; i++)
		add_hash(s, s->patterns[i].anchor);
	return 0;
}

static void add_pattern(struct scrub *s, const struct scrub_pattern *new, enum secret_kind kind)
{
	struct scrub_pattern *t = &s->patterns[s->count++];

	*t = *new;
	t->anchor = load(t->text + t->bytes - ANCHOR);
	if (s->longest[kind] < whole(t))
		s->longest[kind] = whole(t);
}

static void add_secret(struct scrub *s, unsigned secret, const struct intercept_placeholder *p)
{
	const struct intercept_secret *i = &s->intercept->secrets[secret];
	struct scrub_pattern t = {.text = i->value.hidden,
		.bytes = i->value.bytes,
		.secret = secret,
		.stand_in = p ? p->text : NULL,
		.stand_in_bytes = p ? p->bytes : 0};

	if (t.bytes >= INTERCEPT_SCRUB_MIN && i->kind != SECRET_OTHER &&
		!is_there(s, secret, PLAIN))
		add_pattern(s, &t, i->kind);
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
				add_secret(s, (unsigned)n, NULL);
		}
}

int scrub_init(struct scrub *s, struct intercept *intercept, const char *host)
{
	const struct intercept_host *rule = intercept_find(intercept, host);

	*s = (struct scrub){0};
	buf_init_secret(&s->held, INTERCEPT_SECRET_MAX + 2);
	/* One for each secret, as each is added once. */
	s->patterns = calloc(intercept->secret_count + SCRUB_ADDED_MAX, sizeof(s->patterns[0]));
	if (!s->patterns)
		return -ENOMEM;
	s->intercept = intercept_ref(intercept);
	for (unsigned i = 0; i < intercept->placeholder_count; i++) {
		const struct intercept_placeholder *p = &intercept->placeholders[i];

		if (intercept_placeholder_is_for(p, host))
			add_secret(s, p->secret, p);
	}
	if (rule)
		add_of_rule(s, rule);
	if (prepare(s) == 0)
		return 0;
	scrub_done(s);
	return -ENOMEM;
}

/* Whether one may be added. Returns 1, 0 if it is there or never found, or -E2BIG. */
static int may_add(const struct scrub *s, unsigned secret, unsigned form)
{
	const struct intercept_secret *i = &s->intercept->secrets[secret];

	if (i->value.bytes < INTERCEPT_SCRUB_MIN || i->kind == SECRET_OTHER ||
		is_there(s, secret, form))
		return 0;
	return s->added_count < SCRUB_ADDED_MAX ? 1 : -E2BIG;
}

int scrub_add(struct scrub *s, unsigned secret)
{
	int r = may_add(s, secret, PLAIN);

	if (r <= 0)
		return r;
	s->added[s->added_count++] = (struct secret){NULL}; /* it counts; its text is not owned */
	add_secret(s, secret, NULL);
	return prepare(s);
}

/* Encodes the secret behind `skip` zero bytes, as this gives its characters the same bits. */
static char *encode(const struct secret *value, size_t skip)
{
	size_t bytes = skip + value->bytes;
	char *plain = calloc(1, bytes), *coded = malloc(base64_encoded_len(bytes) + 1);

	if (plain && coded) {
		memcpy(plain + skip, value->hidden, value->bytes);
		base64_encode(coded, plain, bytes);
	}
	if (plain)
		explicit_bzero(plain, bytes);
	if (!plain) {
		free(coded);
		coded = NULL;
	}
	free(plain);
	return coded;
}

int scrub_add_base64(struct scrub *s, unsigned secret, size_t place)
{
	const struct secret *value = &s->intercept->secrets[secret].value;
	size_t skip = place % 3, bits = 8 * (skip + value->bytes);
	size_t from = (8 * skip + 5) / 6, to = bits / 6; /* characters that are all its own */
	int r = may_add(s, secret, 1 + (unsigned)skip);
	struct scrub_pattern t = {.bytes = to - from,
		.before = skip != 0,
		.after = bits % 6 != 0,
		.form = (uint8_t)(1 + skip),
		.secret = secret};
	char *coded;

	if (r <= 0)
		return r;
	if (t.bytes > INTERCEPT_SECRET_MAX)
		return -E2BIG;
	coded = encode(value, skip);
	if (!coded)
		return -ENOMEM;
	s->added[s->added_count++] =
		(struct secret){coded, base64_encoded_len(skip + value->bytes)};
	t.text = coded + from;
	add_pattern(s, &t, SECRET_TOKEN);
	return prepare(s);
}

void scrub_done(struct scrub *s)
{
	for (unsigned i = 0; i < s->added_count; i++)
		secret_wipe(&s->added[i]);
	intercept_unref(s->intercept);
	free(s->patterns);
	free(s->hashes);
	buf_done(&s->held);
	*s = (struct scrub){0};
}

static size_t longest(const struct scrub *s)
{
	return s->longest[SECRET_TOKEN] > s->longest[SECRET_TEXT] ? s->longest[SECRET_TOKEN]
								  : s->longest[SECRET_TEXT];
}

size_t scrub_memory(const struct scrub *s)
{
	size_t n = s->intercept
			   ? (s->intercept->secret_count + SCRUB_ADDED_MAX) * sizeof(s->patterns[0])
			   : 0;

	for (unsigned i = 0; i < s->added_count; i++)
		n += s->added[i].bytes;
	return n + longest(s) + (s->hashes ? HASHES_BYTES : 0);
}

/* ---- the search ---- */

/* The first place from `from` to `stop` whose ANCHOR bytes are those of a pattern, or `stop`. */
static size_t compare_each(const struct scrub *s, const uint8_t *p, size_t from, size_t stop)
{
	for (; from < stop; from++)
		for (unsigned i = 0; i < s->count; i++)
			if (load(p + from) == s->patterns[i].anchor)
				return from;
	return stop;
}

typedef uint8_t lanes __attribute__((vector_size(32)));

enum { TWO_VECTORS = 2 * sizeof(lanes) };

static inline bool any(const lanes *v)
{
	uint64_t words[4];

	memcpy(words, v, sizeof(words));
	return words[0] | words[1] | words[2] | words[3];
}

/* Which of the places of a vector have the anchor. All bytes of all places are compared, however
 * many are equal. */
static inline __attribute__((always_inline)) void compare_vector(
	const uint8_t *p, const lanes anchor[ANCHOR], lanes *hits)
{
	lanes equal = ~(lanes){0}, at;

#pragma GCC unroll 8
	for (unsigned n = 0; n < ANCHOR; n++) {
		memcpy(&at, p + n, sizeof(at));
		equal &= (lanes)(at == anchor[n]);
	}
	*hits |= equal;
}

/* The same as compare_each(), for two vectors of places at a time. */
static inline __attribute__((always_inline)) size_t compare_vectors(
	const struct scrub *s, unsigned count, const uint8_t *p, size_t from, size_t stop)
{
	lanes anchors[FEW][ANCHOR], hits;

	for (unsigned i = 0; i < count; i++)
		for (unsigned n = 0; n < ANCHOR; n++)
			memset(&anchors[i][n], (int)(s->patterns[i].anchor >> 8 * n & 0xff),
				sizeof(lanes));
	for (; stop - from >= TWO_VECTORS; from += TWO_VECTORS) {
		hits = (lanes){0};
		for (unsigned i = 0; i < count; i++) {
			compare_vector(p + from, anchors[i], &hits);
			compare_vector(p + from + sizeof(lanes), anchors[i], &hits);
		}
		if (any(&hits))
			break;
	}
	return compare_each(s, p, from, stop);
}

/* The compiler keeps the anchor of one pattern in registers. */
static __attribute__((target("avx2"))) size_t compare_avx2(
	const struct scrub *s, const uint8_t *p, size_t from, size_t stop)
{
	return s->count == 1 ? compare_vectors(s, 1, p, from, stop)
			     : compare_vectors(s, s->count, p, from, stop);
}

static size_t compare_sse2(const struct scrub *s, const uint8_t *p, size_t from, size_t stop)
{
	return compare_vectors(s, s->count, p, from, stop);
}

static size_t compare(const struct scrub *s, const uint8_t *p, size_t from, size_t stop)
{
	if (stop - from < TWO_VECTORS)
		return compare_each(s, p, from, stop);
	return __builtin_cpu_supports("avx2") ? compare_avx2(s, p, from, stop)
					      : compare_sse2(s, p, from, stop);
}

/* 1 or 0; no bool, since several are joined without branches. */
static inline unsigned has_hash(const struct scrub *s, const uint8_t *p)
{
	unsigned h = hash(s, load(p));

	return (unsigned)(s->hashes[h / 64] >> h % 64 & 1);
}

static size_t compare_hashes(const struct scrub *s, const uint8_t *p, size_t from, size_t stop)
{
	while (stop - from >= 4 && !(has_hash(s, p + from) | has_hash(s, p + from + 1) |
					   has_hash(s, p + from + 2) | has_hash(s, p + from + 3)))
		from += 4;
	while (from < stop && !has_hash(s, p + from))
		from++;
	return from;
}

/* The next place before `stop` where a pattern may have its last ANCHOR bytes, or `stop`. All of
 * them can be read there. */
static size_t next_anchor(const struct scrub *s, const uint8_t *p, size_t from, size_t stop)
{
	if (from >= stop)
		return stop;
	return s->hashes ? compare_hashes(s, p, from, stop) : compare(s, p, from, stop);
}

struct match {
	const struct scrub_pattern *pattern; /* NULL: none */
	size_t at;
};

static bool is_whole(const struct scrub_pattern *t, const uint8_t *p)
{
	return CRYPTO_memcmp(p + t->before, t->text, t->bytes) == 0 &&
	       (!t->before || secret_is_token_byte(p[0])) &&
	       (!t->after || secret_is_token_byte(p[whole(t) - 1]));
}

/* Looks at the patterns that end with this anchor. */
static void look(const struct scrub *s, const uint8_t *p, size_t anchor, size_t from, size_t edge,
	size_t n, struct match *best)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct scrub_pattern *t = &s->patterns[i];
		size_t end = anchor + ANCHOR + t->after;

		if (load(p + anchor) != t->anchor || end > n || end < from + whole(t) ||
			end - whole(t) >= edge || !is_whole(t, p + end - whole(t)))
			continue;
		if (!best->pattern || end - whole(t) < best->at ||
			(end - whole(t) == best->at && whole(t) > whole(best->pattern)))
			*best = (struct match){t, end - whole(t)};
	}
}

/* Finds the first secret that begins in [from, edge) and ends before n. An anchor tells where one
 * ends, so one that begins earlier may be found later. */
static struct match find(
	const struct scrub *s, const uint8_t *p, size_t from, size_t edge, size_t n)
{
	size_t stop = n < ANCHOR ? 0 : n - ANCHOR + 1;
	struct match best = {NULL, 0};

	for (size_t at = from; (at = next_anchor(s, p, at, stop)) < stop; at++) {
		look(s, p, at, from, edge, n, &best);
		if (best.pattern && best.at + longest(s) < stop)
			stop = best.at + longest(s);
	}
	return best;
}

static void write_stand_in(const struct scrub_pattern *t, uint8_t *out)
{
	size_t n = t->stand_in_bytes < t->bytes ? t->stand_in_bytes : t->bytes;

	if (n)
		memcpy(out, t->stand_in, n);
	memset(out + n, '*', whole(t) - n);
}

/* Replaces secrets that begin in [from, edge). Returns where the last of them ends, or `edge` if
 * that is later. */
static size_t replace(const struct scrub *s, uint8_t *p, size_t from, size_t edge, size_t n)
{
	while (from < edge) {
		struct match m = find(s, p, from, edge, n);

		if (!m.pattern)
			break;
		write_stand_in(m.pattern, p + m.at);
		from = m.at + whole(m.pattern);
		if (s->said)
			(*s->said)++;
	}
	return from > edge ? from : edge;
}

void scrub_text(const struct scrub *s, char *text, size_t n)
{
	if (s->count)
		(void)replace(s, (uint8_t *)text, 0, n, n); /* all of it, so nothing waits */
}

/* ---- what waits ---- */

static bool is_of_kind(enum secret_kind kind, uint8_t c)
{
	return kind == SECRET_TOKEN ? secret_is_token_byte(c) : secret_is_text_byte(c);
}

/* How many of the last bytes may belong to a secret of this kind that is not complete. */
static size_t run_of(const struct scrub *s, enum secret_kind kind, const uint8_t *data, size_t n)
{
	size_t most = s->longest[kind] ? s->longest[kind] - 1 : 0, run = 0;

	while (run < n && run < most && is_of_kind(kind, data[n - 1 - run]))
		run++;
	if (run == n)
		run += s->run[kind];
	return run < most ? run : most;
}

/* Returns how many bytes wait, now that these have come. */
static size_t note_runs(struct scrub *s, const uint8_t *data, size_t n)
{
	s->run[SECRET_TOKEN] = run_of(s, SECRET_TOKEN, data, n);
	s->run[SECRET_TEXT] = run_of(s, SECRET_TEXT, data, n);
	return s->run[SECRET_TOKEN] > s->run[SECRET_TEXT] ? s->run[SECRET_TOKEN]
							  : s->run[SECRET_TEXT];
}

/* Takes bytes of which the last `wait` stay here. */
static int take(struct scrub *s, const uint8_t *data, size_t n, size_t wait, struct buf *out)
{
	size_t before = buf_len(&s->held), all = before + n;
	uint8_t *p = buf_reserve(out, all);
	int r;

	if (!p)
		return all ? -errno : 0;
	if (before)
		memcpy(p, buf_head(&s->held), before);
	if (n)
		memcpy(p + before, data, n);
	s->settled = replace(s, p, s->settled, all - wait, all) - (all - wait);
	buf_clear(&s->held);
	r = buf_add(&s->held, p + all - wait, wait);
	buf_commit(out, all - wait);
	return r;
}

void scrub_begin(struct scrub *s, unsigned status, const struct http_headers *headers)
{
	if (s->count)
		s->frames = (struct frames){.kind = frames_of(status, headers)};
}

static int take_part(
	struct scrub *s, enum frames_part part, const uint8_t *data, size_t n, struct buf *out)
{
	int r;

	switch (part) {
	case FRAMES_HEAD:
		return buf_add(out, data, n);
	case FRAMES_BODY:
		return take(s, data, n, note_runs(s, data, n), out);
	case FRAMES_BODY_END:
		r = take(s, data, n, 0, out);
		scrub_drop(s);
		return r;
	case FRAMES_CODED:
		break;
	}
	return -ENOTSUP;
}

int scrub_bytes(struct scrub *s, const uint8_t *data, size_t n, struct buf *out)
{
	int r = 0;

	if (!s->count)
		return buf_add(out, data, n);
	while (n && r == 0) {
		enum frames_part part = FRAMES_BODY;
		size_t part_bytes = s->frames.kind ? frames_next(&s->frames, data, n, &part) : n;

		r = take_part(s, part, data, part_bytes, out);
		data += part_bytes;
		n -= part_bytes;
	}
	return r;
}

int scrub_end(struct scrub *s, struct buf *out)
{
	int r = buf_len(&s->held) ? take(s, NULL, 0, 0, out) : 0;

	scrub_drop(s);
	return r;
}

void scrub_drop(struct scrub *s)
{
	buf_done(&s->held);
	s->settled = s->run[SECRET_TOKEN] = s->run[SECRET_TEXT] = 0;
}
