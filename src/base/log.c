#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static const char *log_ident = "mayfly";
static enum log_level log_level = LOG_LEVEL_WARN;
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_open(const char *ident)
{
	const char *s = getenv("MAYFLY_LOG");

	log_ident = ident;
	for (unsigned i = 0; s && i < sizeof(level_names) / sizeof(level_names[0]); i++)
		if (strcmp(s, level_names[i]) == 0)
			log_level = (enum log_level)i;
}

void log_set_level(enum log_level level)
{
	log_level = level;
}

bool log_enabled(enum log_level level)
{
	return level <= log_level;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char line[1024];
	struct timespec ts;
	struct tm tm;
	va_list ap;
	size_t n;

	if (!log_enabled(level))
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
	n += (size_t)snprintf(line + n, sizeof(line) - n, ".%03ldZ %s %s: ", ts.tv_nsec / 1000000,
		log_ident, level_names[level]);
	va_start(ap, fmt);
	(void)vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap); /* truncation is acceptable */
	va_end(ap);
	n = strlen(line);
	line[n++] = '\n';
	(void)!write(STDERR_FILENO, line, n); /* a log that cannot be written has no other place */
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
