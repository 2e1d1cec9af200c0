#include "rules/path.h"

#include <errno.h>
#include <string.h>

enum { SUFFIX_MAX = 8 };

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Whether some servers decode this character, which then divides or ends the path. */
static bool is_divider(int c)
{
	return c < ' ' || c == '/' || c == '\\' || c == '%' || c == ';' || c == 0x7f;
}

/* Whether every server decodes this character, and the path does not end there. */
static bool is_plain(int c)
{
	return c < 0x7f && c != '?' && c != '#';
}

/* Whether an encoded byte begins a letter in a longer form than needed. Some servers decode it all
 * the same: "%C0%AF" is a slash. next: the byte behind it, or -1. */
static bool is_overlong(int c, int next)
{
	return c == 0xc0 || c == 0xc1 || (c == 0xe0 && next >= 0x80 && next < 0xa0) ||
	       (c == 0xf0 && next >= 0x80 && next < 0x90);
}

static int encoded_byte(const char *s, size_t n)
{
	int high = n > 2 && s[0] == '%' ? hex(s[1]) : -1, low = high < 0 ? -1 : hex(s[2]);

	return low < 0 ? -1 : high * 16 + low;
}

/* Normalises the three bytes of "%XX". Returns how many bytes it wrote, or -EINVAL if they can be
 * read in two ways. */
static int put_encoded(const char *s, size_t n, char *out)
{
	static const char digits[] = "0123456789ABCDEF";
	int c = encoded_byte(s, n);

	if (c < 0 || is_divider(c) || is_overlong(c, n > 3 ? encoded_byte(s + 3, n - 3) : -1))
		return -EINVAL;
	if (is_plain(c)) {
		*out = (char)c;
		return 1;
	}
	memcpy(out, (char[]){'%', digits[c >> 4], digits[c & 15]}, 3);
	return 3;
}

static int put_letter(const char *s, size_t n, char *out)
{
	if (*s == '%')
		return put_encoded(s, n, out);
	*out = *s;
	/* many servers drop what is between a ';' and the next slash: "/..;/admin;x" */
	return *s > ' ' && *s <= '~' && *s != '\\' && *s != ';' ? 1 : -EINVAL;
}

/* Between slashes: nothing, or only dots and blanks. Some servers drop the blanks, and read "." and
 * "..". */
static bool is_odd_segment(const char *s, size_t n, bool last)
{
	return n ? strspn(s, ". ") >= n : !last;
}

static bool has_odd_segment(const char *path)
{
	for (const char *s = path + 1;;) {
		size_t n = strcspn(s, "/");

		if (is_odd_segment(s, n, s[n] == '\0'))
			return true;
		if (s[n] == '\0')
			return false;
		s += n + 1;
	}
}

int path_clean(const char *path, size_t n, char out[RULES_PATH_MAX + 1])
{
	size_t bytes = 0;

	if (n > RULES_PATH_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i += path[i] == '%' ? 3 : 1) {
		int wrote = put_letter(path + i, n - i, out + bytes);

		if (wrote < 0)
			return wrote;
		bytes += (size_t)wrote;
	}
	out[bytes] = '\0';
	if (strcmp(out, "*") == 0)
		return 0;
	return out[0] == '/' && !has_odd_segment(out) ? 0 : -EINVAL;
}

bool path_is_pattern(const char *s)
{
	size_t n = strlen(s);
	char out[3];

	for (size_t i = 0; i < n; i++) {
		if (s[i] < ' ' || s[i] > '~' || strchr("?#\\;", s[i]))
			return false;
		if (s[i] == '%' &&
			(put_encoded(s + i, n - i, out) != 3 || memcmp(out, s + i, 3) != 0))
			return false;
	}
	return n && n <= RULES_PATTERN_MAX && (s[0] == '/' || s[0] == '*');
}

/* --- other readings --- */

/* A byte of a path in normal form, or of a pattern. Moves *s behind it. */
static unsigned next_byte(const char **s)
{
	int c = encoded_byte(*s, strnlen(*s, 3));

	*s += c < 0 ? 1 : 3;
	return c < 0 ? (unsigned char)(*s)[-1] : (unsigned)c;
}

static unsigned lower(unsigned c)
{
	return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

/* One beyond 16 bits is 0xFFFF. A byte that is no UTF-8 counts as a letter of its own. */
static uint16_t next_encoded(const char **s)
{
	unsigned c = next_byte(s), more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
	const char *at = *s;
	unsigned letter = more ? c & (0x3fU >> more) : c;

	for (unsigned i = 0; i < more; i++) {
		unsigned next = next_byte(&at);

		if ((next & 0xc0) != 0x80)
			return (uint16_t)c;
		letter = letter << 6 | (next & 0x3f);
	}
	*s = at;
	return (uint16_t)(letter > UINT16_MAX ? UINT16_MAX : lower(letter));
}

/* A letter in lower case. Moves *s behind it. */
static uint16_t next_letter(const char **s)
{
	unsigned c = (unsigned char)**s;

	if (c == '%' || c >= 0x80)
		return next_encoded(s);
	(*s)++;
	return (uint16_t)lower(c);
}

static bool is_soft(uint16_t c)
{
	return c == '.' || c == ' ';
}

static bool is_letter_of_suffix(uint16_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static void add_end(struct path_reading *r, unsigned at)
{
	for (unsigned i = 0; i < r->end_count; i++)
		if (r->ends[i] == at)
			return;
	r->ends[r->end_count++] = at;
}

/* Adds an end, and those that servers find before it. */
static void add_ends(struct path_reading *r, unsigned at)
{
	unsigned dot;

	add_end(r, at);
	while (at > 1 && r->letters[at - 1] == '/')
		at--;
	add_end(r, at); /* "/a./" */
	while (at > 1 && (r->letters[at - 1] == '/' || is_soft(r->letters[at - 1])))
		at--;
	add_end(r, at);
	for (dot = at; dot && at - dot < SUFFIX_MAX && is_letter_of_suffix(r->letters[dot - 1]);)
		dot--;
	if (dot > 1 && dot < at && r->letters[dot - 1] == '.' && r->letters[dot - 2] != '/')
		add_end(r, dot - 1);
}

static void find_ends(struct path_reading *r)
{
	bool query = false, fragment = false;

	r->end_count = 0;
	for (unsigned i = 0; i < r->count; i++) {
		if ((r->letters[i] == '?' && !query) || (r->letters[i] == '#' && !fragment))
			add_ends(r, i);
		query = query || r->letters[i] == '?';
		fragment = fragment || r->letters[i] == '#';
	}
	add_ends(r, r->count);
}

/* Copies a reading without dots and blanks at the ends of segments, and blanks at their
 * beginning. */
static void trim(const struct path_reading *from, struct path_reading *to)
{
	to->count = 0;
	for (unsigned i = 0; i <= from->count; i++) {
		bool end = i == from->count || from->letters[i] == '/';

		while (end && to->count && is_soft(to->letters[to->count - 1]))
			to->count--;
		if (i == from->count ||
			(from->letters[i] == ' ' && to->count && to->letters[to->count - 1] == '/'))
			continue;
		to->letters[to->count++] = from->letters[i];
	}
}

void path_widen(const char *path, struct path_wide *ret)
{
	struct path_reading *r = &ret->readings[0];
	bool soft = false;

	r->ascii = true;
	for (r->count = 0; *path && r->count < RULES_PATH_MAX; r->count++) {
		r->letters[r->count] = next_letter(&path);
		soft = soft || is_soft(r->letters[r->count]);
		r->ascii = r->ascii && r->letters[r->count] < 0x80;
	}
	find_ends(r);
	ret->count = 1;
	if (!soft)
		return;
	ret->readings[1].ascii = r->ascii;
	trim(r, &ret->readings[1]);
	find_ends(&ret->readings[1]);
	ret->count = ret->readings[1].count < r->count ? 2 : 1;
}

/* --- matching --- */

enum { PLACES_MAX = 2 * RULES_PATTERN_MAX, WORDS = PLACES_MAX / 64 + 1 };

/* The places in a pattern where the next letter may belong, as bits. A place is a byte's index; the
 * last one is the pattern's end. */
struct places {
	uint64_t words[WORDS];
};

struct matcher {
	const char *pattern;
	size_t n, early; /* it may end at `early`, too */
	bool wide;
	unsigned words;
	struct places now, next;
};

static bool has_place(const struct places *p, size_t i)
{
	return p->words[i / 64] >> (i % 64) & 1;
}

static void put_place(struct places *p, size_t i)
{
	p->words[i / 64] |= UINT64_C(1) << (i % 64);
}

/* Whether "/" and two asterisks and "/" may be one slash. */
static bool may_be_slash(const struct matcher *m, size_t i)
{
	return m->wide && i && m->pattern[i - 1] == '/' && i + 2 < m->n && m->pattern[i + 2] == '/';
}

/* Whether an asterisk is a whole segment, which then is not empty: servers that drop a slash at the
 * end take "/a/" for "/a". A wide match may still be of that. */
static bool is_segment(const struct matcher *m, size_t i)
{
	return !m->wide && i && m->pattern[i - 1] == '/' &&
	       (i + 1 == m->n || m->pattern[i + 1] == '/');
}

/* Puts a place, and those behind it as long as asterisks may match nothing. If it is there already,
 * so are those. */
static void enter(const struct matcher *m, struct places *to, size_t i)
{
	while (!has_place(to, i)) {
		put_place(to, i);
		if (i == m->n || m->pattern[i] != '*' || is_segment(m, i))
			return;
		if (i + 1 == m->n || m->pattern[i + 1] != '*') {
			i++;
		} else if (may_be_slash(m, i)) {
			put_place(to, i + 2);
			i += 3;
		} else {
			i += 2;
		}
	}
}

/* Whether a letter of the path may be one of the pattern. Scripts with two cases are below U+2000,
 * and both cases of a letter in one block of 256. */
static bool is_alike(unsigned pattern, unsigned c)
{
	if (pattern < 0x80 || c < 0x80)
		return pattern == c || (pattern < 0x80 && c >= 0x80);
	return pattern == c || (pattern < 0x2000 && c < 0x2000 && pattern >> 8 == c >> 8);
}

/* Soft hyphens, marks of direction, joiners: some servers drop them. */
static bool is_invisible(unsigned c)
{
	return c == 0xad || c == 0x34f || c == 0x61c || c == 0x180e || c == 0xfeff ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || (c >= 0xfe00 && c <= 0xfe0f);
}

static void step(struct matcher *m, size_t i, unsigned c)
{
	const char *at = m->pattern + i;

	if (m->wide && is_invisible(c))
		enter(m, &m->next, i);
	if (i == m->n)
		return;
	if (*at == '*') {
		if (c != '/' || (i + 1 < m->n && at[1] == '*'))
			enter(m, &m->next, i);
		if (c != '/' && is_segment(m, i))
			enter(m, &m->next, i + 1);
		return;
	}
	if (m->wide ? is_alike(next_letter(&at), c) : (unsigned char)*at++ == c)
		enter(m, &m->next, (size_t)(at - m->pattern));
}

/* Takes a letter. False: nothing matches any more, or there are too few steps. */
static bool take(struct matcher *m, unsigned c, struct path_steps *steps)
{
	bool any = false;

	memset(&m->next, 0, m->words * sizeof(m->next.words[0]));
	for (unsigned w = 0; w < m->words; w++)
		for (uint64_t bits = m->now.words[w]; bits; bits &= bits - 1) {
			if (steps->left == 0) {
				steps->over = true;
				return false;
			}
			steps->left--;
			step(m, w * 64 + (unsigned)__builtin_ctzll(bits), c);
		}
	for (unsigned w = 0; w < m->words; w++)
		any = any || m->next.words[w];
	memcpy(&m->now, &m->next, m->words * sizeof(m->now.words[0]));
	return any;
}

/* at: the place where it begins. */
static void begin(struct matcher *m, size_t at)
{
	m->words = (unsigned)(m->n / 64 + 1);
	memset(&m->now, 0, m->words * sizeof(m->now.words[0]));
	enter(m, &m->now, at);
}

/* --- the quick way: back to the last asterisk after a mismatch --- */

enum quick { QUICK_NO, QUICK_YES, QUICK_GIVES_UP };

/* A text of either kind. */
struct text {
	const char *bytes;
	const uint16_t *letters; /* in place of bytes, for wide matches */
	size_t n;
};

static unsigned letter_at(const struct text *t, size_t i)
{
	return t->letters ? t->letters[i] : (unsigned char)t->bytes[i];
}

/* Where to go on after a mismatch: behind an asterisk, which then matches one more letter. */
struct retry {
	size_t pattern, text;
	bool set;
};

static bool try_again(
	struct retry *some, struct retry *any, const struct text *t, size_t *p, size_t *at)
{
	struct retry *r = some;

	if (!some->set || some->text >= t->n || letter_at(t, some->text) == '/') {
		some->set = false;
		r = any;
	}
	if (!r->set || r->text >= t->n)
		return false;
	*p = r->pattern;
	*at = ++r->text;
	return true;
}

/* Takes an asterisk, or two. False: it is a segment that would be empty. */
static bool take_asterisk(const struct matcher *m, const struct text *t, struct retry *some,
	struct retry *any, size_t *p, size_t *at)
{
	bool two = *p + 1 < m->n && m->pattern[*p + 1] == '*';

	if (!two && is_segment(m, *p)) {
		if (*at >= t->n || letter_at(t, *at) == '/')
			return false;
		(*at)++;
	}
	*p += two ? 2 : 1;
	*(two ? any : some) = (struct retry){*p, *at, true};
	if (two)
		some->set = false;
	return true;
}

/* Matches the first n places of a pattern. It is much faster than following all ways at once, as
 * long as few asterisks are tried again; then it gives up. */
static enum quick match_quickly(
	const struct matcher *m, const struct text *t, struct path_steps *steps)
{
	struct retry some = {.set = false}, any = {.set = false};
	size_t p = 0, at = 0;

	for (size_t tries = 2 * (m->n + t->n) + 16; tries && steps->left; tries--) {
		bool good;

		steps->left--;
		if (p < m->n && m->pattern[p] == '*') {
			good = take_asterisk(m, t, &some, &any, &p, &at);
		} else if (p == m->n && at == t->n) {
			return QUICK_YES;
		} else {
			unsigned c = p < m->n ? (unsigned char)m->pattern[p] : 0;

			good = p < m->n && at < t->n &&
			       (m->wide ? lower(c) : c) == letter_at(t, at);
			p += good;
			at += good;
		}
		if (!good && !try_again(&some, &any, t, &p, &at))
			return QUICK_NO;
	}
	return QUICK_GIVES_UP; /* there may be no steps for the other way, either */
}

bool path_matches(const char *pattern, const char *text, struct path_steps *steps)
{
	size_t n = strlen(pattern), same = 0;
	struct matcher m;
	struct text t = {.bytes = text, .n = strlen(text)};
	enum quick quick;

	while (pattern[same] == text[same] && text[same] && pattern[same] != '*')
		same++;
	if (pattern[same] != '*' || n > PLACES_MAX) /* most patterns end here */
		return pattern[same] == text[same] && n <= PLACES_MAX;
	m.pattern = pattern;
	m.n = m.early = n;
	m.wide = false;
	quick = match_quickly(&m, &t, steps);
	if (quick != QUICK_GIVES_UP)
		return quick == QUICK_YES;
	begin(&m, same);
	for (text += same; *text; text++)
		if (!take(&m, (unsigned char)*text, steps))
			return false;
	return has_place(&m.now, m.n);
}

static bool ends_at(const struct matcher *m, const struct path_reading *r, unsigned at)
{
	for (unsigned i = 0; i < r->end_count; i++)
		if (r->ends[i] == at)
			return has_place(&m->now, m->n) || has_place(&m->now, m->early);
	return false;
}

/* A pattern in wide form may end before slashes at its end, or before a slash and asterisks. */
static void find_end(struct matcher *m, const char *pattern)
{
	size_t early = strlen(pattern), stars = 0;

	m->pattern = pattern;
	m->n = early;
	m->wide = true;
	while (early > 1 && pattern[early - 1] == '/')
		early--;
	while (stars < m->n && pattern[m->n - 1 - stars] == '*')
		stars++;
	if (stars && stars < m->n && pattern[m->n - 1 - stars] == '/')
		early = m->n - 1 - stars;
	m->early = early;
}

/* Whether a pattern has letters of ASCII only, and no asterisks between slashes. */
static bool is_simple(const char *s)
{
	for (; (s = strpbrk(s, "%*")); s++)
		if (*s == '%' || (s[1] == '*' && s[2] == '/'))
			return false;
	return true;
}

/* All ends of a reading, each as a text of its own. */
static enum quick reading_matches_quickly(
	const struct matcher *m, const struct path_reading *r, struct path_steps *steps)
{
	enum quick all = QUICK_NO;
	struct matcher part;

	if (!r->ascii || !is_simple(m->pattern))
		return QUICK_GIVES_UP;
	part.pattern = m->pattern;
	part.wide = true;
	for (unsigned i = 0; i < 2 * r->end_count && all == QUICK_NO; i++) {
		struct text t = {.letters = r->letters, .n = r->ends[i / 2]};

		part.n = i % 2 ? m->early : m->n;
		if (i % 2 == 0 || m->early != m->n)
			all = match_quickly(&part, &t, steps);
	}
	return all;
}

static bool reading_matches(
	const char *pattern, const struct path_reading *r, struct path_steps *steps)
{
	struct matcher m;
	enum quick quick;

	find_end(&m, pattern);
	quick = reading_matches_quickly(&m, r, steps);
	if (quick != QUICK_GIVES_UP)
		return quick == QUICK_YES;
	begin(&m, 0);
	for (unsigned i = 0; i < r->count; i++) {
		if (ends_at(&m, r, i))
			return true;
		if (!take(&m, r->letters[i], steps))
			return false;
	}
	return ends_at(&m, r, r->count);
}

bool path_matches_wide(const char *pattern, const struct path_wide *path, struct path_steps *steps)
{
	bool matches = false;

	if (strlen(pattern) > PLACES_MAX)
		return false;
	for (unsigned i = 0; i < path->count && !matches; i++)
		matches = reading_matches(pattern, &path->readings[i], steps);
	return matches;
}
