#include "proto/timestamp.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DAY_S = 86400, NS_DIGITS = 9 };

static const int64_t year_1_s = INT64_C(-62135596800);
static const int64_t year_9999_end_s = INT64_C(253402300799);

/* Years start in March here. So the leap day is the last of its year, and the months before it have
 * a fixed pattern of lengths (153 days in five months). 719468 days lie between 0000-03-01 and
 * 1970-01-01; 146097 days make 400 years. */
int64_t timestamp_days(int64_t year, unsigned month, unsigned day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t year_of_era = y - era * 400;
	int64_t day_of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 +
	       day_of_year - 719468;
}

void timestamp_civil(int64_t days, int64_t *ret_year, unsigned *ret_month, unsigned *ret_day)
{
	int64_t z = days + 719468;
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t day_of_era = z - era * 146097;
	int64_t year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	int64_t day_of_year =
		day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int64_t month = (5 * day_of_year + 2) / 153;

	*ret_day = (unsigned)(day_of_year - (153 * month + 2) / 5 + 1);
	*ret_month = (unsigned)(month < 10 ? month + 3 : month - 9);
	*ret_year = year_of_era + era * 400 + (*ret_month <= 2);
}

static struct timestamp clamp(struct timestamp t)
{
	if (t.ns > 999999999)
		t.ns = 999999999;
	if (t.s < year_1_s)
		return (struct timestamp){.s = year_1_s};
	if (t.s > year_9999_end_s)
		return (struct timestamp){.s = year_9999_end_s, .ns = 999999999};
	return t;
}

/* Writes v in `width` digits and returns the position after them. */
static char *put_digits(char *out, uint64_t v, unsigned width)
{
	for (unsigned i = width; i > 0; i--, v /= 10)
		out[i - 1] = (char)('0' + v % 10);
	return out + width;
}

/* Writes ".5" as ".500": three, six or nine digits, nothing for 0. */
static char *put_fraction(char *out, uint32_t ns)
{
	if (!ns)
		return out;
	*out++ = '.';
	if (ns % 1000000 == 0)
		return put_digits(out, ns / 1000000, 3);
	if (ns % 1000 == 0)
		return put_digits(out, ns / 1000, 6);
	return put_digits(out, ns, 9);
}

const char *timestamp_format(struct timestamp t, char out[TIMESTAMP_BYTES])
{
	int64_t year, days, rest;
	unsigned month, day;
	char *p = out;

	t = clamp(t);
	days = t.s / DAY_S;
	rest = t.s % DAY_S;
	if (rest < 0) {
		rest += DAY_S;
		days--;
	}
	timestamp_civil(days, &year, &month, &day);
	p = put_digits(p, (uint64_t)year, 4);
	*p++ = '-';
	p = put_digits(p, month, 2);
	*p++ = '-';
	p = put_digits(p, day, 2);
	*p++ = 'T';
	p = put_digits(p, (uint64_t)rest / 3600, 2);
	*p++ = ':';
	p = put_digits(p, (uint64_t)rest / 60 % 60, 2);
	*p++ = ':';
	p = put_digits(p, (uint64_t)rest % 60, 2);
	p = put_fraction(p, t.ns);
	*p++ = 'Z';
	*p = '\0';
	return out;
}

const char *timestamp_format_ns(uint64_t ns, char out[TIMESTAMP_BYTES])
{
	struct timestamp t = {
		.s = (int64_t)(ns / 1000000000),
		.ns = (uint32_t)(ns % 1000000000),
	};

	return timestamp_format(t, out);
}

/* Reads `width` digits at *cursor; false when there are not that many. */
static bool take_digits(const char **cursor, unsigned width, unsigned *ret)
{
	const char *p = *cursor;
	unsigned v = 0;

	for (unsigned i = 0; i < width; i++, p++) {
		if (*p < '0' || *p > '9')
			return false;
		v = v * 10 + (unsigned)(*p - '0');
	}
	*cursor = p;
	*ret = v;
	return true;
}

static bool take_char(const char **cursor, const char *set)
{
	if (!**cursor || !strchr(set, **cursor))
		return false;
	(*cursor)++;
	return true;
}

static unsigned month_days(unsigned year, unsigned month)
{
	static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && leap);
}

static bool take_date(const char **cursor, int64_t *ret_days)
{
	unsigned year, month, day;

	if (!take_digits(cursor, 4, &year) || !take_char(cursor, "-") ||
		!take_digits(cursor, 2, &month) || !take_char(cursor, "-") ||
		!take_digits(cursor, 2, &day))
		return false;
	if (!year || month < 1 || month > 12 || day < 1 || day > month_days(year, month))
		return false;
	*ret_days = timestamp_days(year, month, day);
	return true;
}

static bool take_time(const char **cursor, int64_t *ret_s)
{
	unsigned hour, minute, second;

	if (!take_digits(cursor, 2, &hour) || !take_char(cursor, ":") ||
		!take_digits(cursor, 2, &minute) || !take_char(cursor, ":") ||
		!take_digits(cursor, 2, &second))
		return false;
	if (hour > 23 || minute > 59 || second > 60)
		return false;
	*ret_s = hour * 3600 + minute * 60 + (second == 60 ? 59 : second);
	return true;
}

/* The fraction is optional, but a dot demands a digit. */
static bool take_fraction(const char **cursor, uint32_t *ret_ns)
{
	unsigned digits = 0;
	uint32_t ns = 0;

	*ret_ns = 0;
	if (!take_char(cursor, "."))
		return true;
	for (; **cursor >= '0' && **cursor <= '9'; (*cursor)++)
		if (digits < NS_DIGITS) {
			ns = ns * 10 + (uint32_t)(**cursor - '0');
			digits++;
		}
	if (!digits)
		return false;
	for (; digits < NS_DIGITS; digits++)
		ns *= 10;
	*ret_ns = ns;
	return true;
}

static bool take_offset(const char **cursor, int64_t *ret_s)
{
	bool west = **cursor == '-';
	unsigned hours, minutes;

	*ret_s = 0;
	if (take_char(cursor, "Zz"))
		return true;
	if (!take_char(cursor, "+-") || !take_digits(cursor, 2, &hours) ||
		!take_char(cursor, ":") || !take_digits(cursor, 2, &minutes))
		return false;
	if (hours > 23 || minutes > 59)
		return false;
	*ret_s = (int64_t)(hours * 3600 + minutes * 60) * (west ? -1 : 1);
	return true;
}

int timestamp_parse(const char *s, struct timestamp *ret)
{
	int64_t days, seconds, offset;
	struct timestamp t;

	if (!take_date(&s, &days) || !take_char(&s, "Tt ") || !take_time(&s, &seconds) ||
		!take_fraction(&s, &t.ns) || !take_offset(&s, &offset) || *s)
		return -EINVAL;
	t.s = days * DAY_S + seconds - offset;
	if (t.s < year_1_s || t.s > year_9999_end_s)
		return -EINVAL;
	*ret = t;
	return 0;
}

int timestamp_parse_ns(const char *s, uint64_t *ret)
{
	struct timestamp t;

	if (timestamp_parse(s, &t) < 0)
		return -EINVAL;
	if (t.s < 0 || t.s >= INT64_C(18446744073))
		return -ERANGE;
	*ret = (uint64_t)t.s * 1000000000 + t.ns;
	return 0;
}
