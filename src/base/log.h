/* Logs one line per event on standard error: "time program level: message key=value...". In JSON
 * mode a line is an object with "time", "program", "level", "message" and the keys; all values are
 * strings.
 *
 * The handler of a failure logs it, once. Library code logs at debug only. What a tenant can
 * trigger repeatedly goes through log_limited. Levels come from MAYFLY_LOG (error, warn, info,
 * debug; default warn). Thread-safe: a line is one write(2). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Reads MAYFLY_LOG. ident heads every line; the string must outlive all logging. */
void log_open(const char *ident);
void log_set_level(enum log_level level);
void log_set_json(bool json);
/* Limits the size of standard error if it is a regular file. Before a line would make it larger
 * than max_bytes, the file is emptied; so older lines are lost and the newest stays. 0: no
 * limit. */
void log_set_max_bytes(uint64_t max_bytes);
int log_parse_level(const char *name, enum log_level *ret); /* 0 or -EINVAL */
bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)                                                                             \
	do {                                                                                       \
		if (log_enabled(LOG_LEVEL_DEBUG))                                                  \
			log_write(LOG_LEVEL_DEBUG, __VA_ARGS__);                                   \
	} while (0)

/* A token bucket for one call site: at most `burst` lines, one more per second after that. */
struct log_limit {
	uint64_t refill_ns;
	uint32_t tokens, burst;
	uint32_t suppressed;
};
#define LOG_LIMIT_INIT(b)                                                                          \
	{                                                                                          \
		.burst = (b), .tokens = (b)                                                        \
	}

/* True when the caller may log. Not thread-safe: hold the lock of the object that the line is
 * about. */
bool log_limited(struct log_limit *l);

#endif
