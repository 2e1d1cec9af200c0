#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { LINE_MAX_BYTES = 1024, JSON_END_BYTES = 8, TIME_BYTES = 32 };

static const char *log_ident = "mayfly";
static bool log_json;
static enum log_level log_level = LOG_LEVEL_WARN;
static uint64_t log_max_bytes;
static const char *const level_names[] = {"error", "warn", "info", "debug"};

int log_parse_level(const char *name, enum log_level *ret)
{
	for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++)
		if (strcmp(name, level_names[i]) == 0) {
			*ret = (enum log_level)i;
			return 0;
		}
	return -EINVAL;
}

void log_open(const char *ident)
{
	const char *s = getenv("MAYFLY_LOG");

	log_ident = ident;
	if (s)
		(void)log_parse_level(s, &log_level); /* other words change nothing */
}

void log_set_level(enum log_level level)
{
	log_level = level;
}

void log_set_json(bool json)
{
	log_json = json;
}

void log_set_max_bytes(uint64_t max_bytes)
{
	log_max_bytes = max_bytes;
}

bool log_enabled(enum log_level level)
{
	return level <= log_level;
}

/* --- lines --- */

struct line {
	char text[LINE_MAX_BYTES + 1]; /* and the newline */
	size_t n;
};

static void put(struct line *l, const char *s, size_t n)
{
	size_t room = LINE_MAX_BYTES - l->n;

	n = n < room ? n : room; /* truncation is acceptable */
	memcpy(l->text + l->n, s, n);
	l->n += n;
}

static void put_str(struct line *l, const char *s)
{
	put(l, s, strlen(s));
}

static void put_json(struct line *l, const char *s, size_t n)
{
	put_str(l, "\"");
	for (; n && l->n < LINE_MAX_BYTES - JSON_END_BYTES; n--, s++) {
		if (*s == '"' || *s == '\\')
			put_str(l, "\\");
		/* Non-ASCII becomes '?': a cut UTF-8 character would make the JSON invalid. */
		put(l, (unsigned char)*s < 0x80 ? s : "?", 1);
	}
	put_str(l, "\"");
}

static void put_pair(struct line *l, const char *key, size_t key_n, const char *value, size_t n)
{
	if (l->n + key_n + 8 > LINE_MAX_BYTES - JSON_END_BYTES)
		return;
	put_str(l, l->n > 1 ? "," : "");
	put_json(l, key, key_n);
	put_str(l, ":");
	put_json(l, value, n);
}

/* Finds the last word of s[0..n) if it is key=value. Returns its start and the key's length, or
 * n. */
static size_t find_pair(const char *s, size_t n, size_t *ret_key_n)
{
	size_t begin = n, k = 0;

	while (begin > 0 && s[begin - 1] != ' ')
		begin--;
	while (begin + k < n && (islower((unsigned char)s[begin + k]) || s[begin + k] == '_'))
		k++;
	*ret_key_n = k;
	return k && begin && begin + k < n && s[begin + k] == '=' ? begin : n;
}

static void put_fields(struct line *l, const char *message, size_t n)
{
	size_t end = n, key_n, begin;

	while ((begin = find_pair(message, end, &key_n)) < end)
		end = begin - 1;
	put_pair(l, "message", 7, message, end);
	while (end < n) {
		size_t word = end + 1, stop = word;

		while (stop < n && message[stop] != ' ')
			stop++;
		key_n = strcspn(message + word, "=");
		put_pair(l, message + word, key_n, message + word + key_n + 1,
			stop - word - key_n - 1);
		end = stop;
	}
}

static void format_json(struct line *l, enum log_level level, const char *time, const char *message)
{
	put_str(l, "{");
	put_pair(l, "time", 4, time, strlen(time));
	put_pair(l, "program", 7, log_ident, strlen(log_ident));
	put_pair(l, "level", 5, level_names[level], strlen(level_names[level]));
	put_fields(l, message, strlen(message));
	put_str(l, "}");
}

static void format_text(struct line *l, enum log_level level, const char *time, const char *message)
{
	put_str(l, time);
	put_str(l, " ");
	put_str(l, log_ident);
	put_str(l, " ");
	put_str(l, level_names[level]);
	put_str(l, ": ");
	put_str(l, message);
}

/* Replaces control characters: text from outside must not start a line of its own. */
static void clean(char *message)
{
	for (; *message; message++)
		if ((unsigned char)*message < 0x20 || *message == 0x7f)
			*message = '?';
}

static void format_time(char out[TIME_BYTES])
{
	struct timespec ts;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = strftime(out, TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(out + n, TIME_BYTES - n, ".%03ldZ", ts.tv_nsec / 1000000); /* fits */
}

/* #calls start main vcpu snapshot: fstat write
 * #calls glibc start main vcpu snapshot: newfstatat
 * #calls egress (when it has something to say): fstat write
 * #calls glibc egress (when it has something to say): newfstatat
 * #calls start main vcpu snapshot egress (when a log is full): ftruncate */
static void make_room(void)
{
	struct stat st;

	if (log_max_bytes && fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) &&
		(uint64_t)st.st_size + LINE_MAX_BYTES > log_max_bytes)
		(void)!ftruncate(STDERR_FILENO, 0); /* if it fails, the file grows by one line */
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char message[LINE_MAX_BYTES], time[TIME_BYTES];
	struct line l;
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap); /* truncation is acceptable */
	va_end(ap);
	clean(message);
	format_time(time);
	l.n = 0;
	if (log_json)
		format_json(&l, level, time, message);
	else
		format_text(&l, level, time, message);
	l.text[l.n++] = '\n';
	make_room();
	/* a log that cannot be written has no other place */
	(void)!write(STDERR_FILENO, l.text, l.n);
}

bool log_limited(struct log_limit *l)
{
	uint64_t now = clock_monotonic_ns();

	if (now - l->refill_ns >= NS_PER_S) {
		l->refill_ns = now;
		if (l->tokens < l->burst)
			l->tokens++;
	}
	if (!l->tokens) {
		l->suppressed++;
		return false;
	}
	l->tokens--;
	return true;
}
