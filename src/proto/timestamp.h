/* RFC 3339 timestamps with nanoseconds, years 1 to 9999, as in the API and in proto3 JSON. */
#ifndef PROTO_TIMESTAMP_H
#define PROTO_TIMESTAMP_H

#include <stddef.h>
#include <stdint.h>

struct timestamp {
	int64_t s;   /* since 1970-01-01T00:00:00Z */
	uint32_t ns; /* 0..999999999; counts forward even before 1970 */
};

enum { TIMESTAMP_BYTES = 31 };

/* Writes "2026-08-01T12:00:00Z" with 0, 3, 6 or 9 fraction digits, as few as the value needs.
 * Clamps times outside the years 1 to 9999. Returns out. */
const char *timestamp_format(struct timestamp t, char out[TIMESTAMP_BYTES]);
const char *timestamp_format_ns(uint64_t ns, char out[TIMESTAMP_BYTES]);

/* Parses the whole string. Accepts any offset ("Z", "+02:00"); 'T', 't' or a blank between date and
 * time; and 1 to 9 fraction digits (more are cut off). A leap second counts as the second before. 0
 * or -EINVAL. */
int timestamp_parse(const char *s, struct timestamp *ret);

/* The same in nanoseconds since 1970: -ERANGE before 1970 or after 2554. */
int timestamp_parse_ns(const char *s, uint64_t *ret);

/* Converts a date to days since 1970-01-01, and back (proleptic Gregorian calendar). */
int64_t timestamp_days(int64_t year, unsigned month, unsigned day);
void timestamp_civil(int64_t days, int64_t *ret_year, unsigned *ret_month, unsigned *ret_day);

#endif
