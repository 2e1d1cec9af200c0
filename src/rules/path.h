/* Paths of requests, as rules match them.
 *
 * Servers may read one path in different ways. Percent-encoded letters equal the letters (RFC 3986
 * 6.2.2.2). Many servers resolve dots, merge slashes, decode an encoded slash, or drop what follows
 * a ';' in a segment. So a path is first written in one normal form. A path that servers can read
 * in two ways has no such form.
 *
 * Other differences are common, and no reason to refuse a path: case, a slash at the end, blanks or
 * dots at the end of a segment, a suffix (".json"). So rules match in two ways. A rule that allows
 * matches the normal form exactly. A rule that keeps requests from the server matches *widely*:
 * whatever a server may take for a path that it names.
 *
 * Matching follows all ways through a pattern at once: for each letter of the path it takes at most
 * a step for each letter of the pattern. Steps are counted, and a judgement has a limit of them. */
#ifndef RULES_PATH_H
#define RULES_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RULES_PATH_MAX = 8192,
	RULES_PATTERN_MAX = 256,
	PATH_STEPS_MAX = 1 << 20, /* of a judgement: 3 ms */
	PATH_ENDS_MAX = 12,
};

/* The steps that are left. */
struct path_steps {
	uint32_t left;
	bool over; /* there were too few, so that nothing is known of what did not match */
};

/* Writes the normal form, with a NUL. The n bytes must end before a '?'. Returns 0, or -EINVAL if
 * the path can be read in two ways or is longer than RULES_PATH_MAX. */
int path_clean(const char *path, size_t n, char out[RULES_PATH_MAX + 1]);

/* Whether s is a pattern that a path in normal form can match. It must be ASCII, and
 * percent-encoded only where path_clean() keeps the encoding, as in "%C3%A9". */
bool path_is_pattern(const char *s);

/* Whether a text matches exactly. '*' stands for any text without a slash, and as a whole segment
 * for at least a letter; "**" for any text. The pattern has at most 2 * RULES_PATTERN_MAX bytes. */
bool path_matches(const char *pattern, const char *text, struct path_steps *steps);

/* One reading of a path, for wide matches: letters in lower case, those beyond ASCII decoded. */
struct path_reading {
	uint16_t letters[RULES_PATH_MAX];
	unsigned count;
	unsigned ends[PATH_ENDS_MAX], end_count; /* where the path may end for a server */
	bool ascii;				 /* all letters are ASCII */
};

/* The path as it stands, and without the blanks and dots at the ends of its segments, if it has
 * any. */
struct path_wide {
	struct path_reading readings[2];
	unsigned count;
};

/* path: in normal form. Each reading may end before slashes, blanks and dots at its end, before an
 * encoded '?' or '#', and before a suffix of up to 8 letters and digits behind a dot. */
void path_widen(const char *path, struct path_wide *ret);

/* Whether a path matches widely. Case makes no difference, and a slash at the end of the pattern
 * neither. "/x/" and two asterisks at its end match "/x", too, and in its middle they may be
 * nothing. A letter beyond ASCII matches any one letter of ASCII, because some servers fold it;
 * one that nobody sees may be nothing. */
bool path_matches_wide(const char *pattern, const struct path_wide *path, struct path_steps *steps);

#endif
