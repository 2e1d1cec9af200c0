#include "base/options.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

static void *value_at(void *out, const struct option_spec *s)
{
	return (char *)out + s->offset;
}

/* Upper bound for the number of differing letters; good enough to propose a correction. */
static unsigned distance(const char *a, size_t an, const char *b)
{
	size_t bn = strlen(b);
	unsigned row[64];

	if (an >= 63 || bn >= 63)
		return 99;
	for (size_t j = 0; j <= bn; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= an; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= bn; j++) {
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[bn];
}

static int unknown(const struct option_spec *specs, const char *word, size_t n, struct error *e)
{
	const char *nearest = NULL;
	unsigned best = 3;

	for (const struct option_spec *s = specs; s->name; s++) {
		unsigned d = distance(word, n, s->name);

		if (!s->hidden && d < best) {
			best = d;
			nearest = s->name;
		}
	}
	if (nearest)
		return error_set(e, ERROR_USAGE, EINVAL,
			"unknown option --%.*s: did you mean --%s?", (int)n, word, nearest);
	return error_set(e, ERROR_USAGE, EINVAL, "unknown option --%.*s: see --help", (int)n, word);
}

static int check_range(const struct option_spec *s, const char *text, uint64_t v, struct error *e)
{
	char lo[16], hi[16];

	if ((s->min == 0 && s->max == 0) || (v >= s->min && v <= s->max))
		return 0;
	if (s->type == OPTION_BYTES)
		return error_set(e, ERROR_LIMIT, ERANGE, "--%s %s: must be between %s and %s",
			s->name, text, str_format_bytes(s->min, lo), str_format_bytes(s->max, hi));
	if (s->type == OPTION_DURATION)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"--%s %s: must be between %.12g and %.12g seconds", s->name, text,
			(double)s->min / (double)NS_PER_S, (double)s->max / (double)NS_PER_S);
	return error_set(e, ERROR_LIMIT, ERANGE, "--%s %s: must be between %llu and %llu", s->name,
		text, (unsigned long long)s->min, (unsigned long long)s->max);
}

static int set_number(const struct option_spec *s, const char *text, void *out, struct error *e)
{
	uint64_t v = 0;
	int r = s->type == OPTION_BYTES	     ? str_parse_bytes(text, 1024 * 1024, &v)
		: s->type == OPTION_DURATION ? str_parse_duration_ns(text, &v)
					     : str_parse_u64(text, &v);

	if (r < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--%s %s: expected %s", s->name, text,
			s->type == OPTION_BYTES	     ? "a size such as 512M or 2G"
			: s->type == OPTION_DURATION ? "a duration such as 30s, 5m or 2h"
						     : "a number");
	r = check_range(s, text, v, e);
	if (r == 0)
		memcpy(value_at(out, s), &v, sizeof(v));
	return r;
}

static int set_value(const struct option_spec *s, const char *text, void *out, struct error *e)
{
	struct option_list *list;

	switch (s->type) {
	case OPTION_STRING:
	case OPTION_OPTIONAL:
		memcpy(value_at(out, s), &text, sizeof(text));
		return 0;
	case OPTION_LIST:
		list = value_at(out, s);
		if (list->count == OPTION_LIST_MAX)
			return error_set(e, ERROR_LIMIT, E2BIG, "--%s: given more than %d times",
				s->name, OPTION_LIST_MAX);
		list->items[list->count++] = text;
		return 0;
	default:
		return set_number(s, text, out, e);
	}
}

static bool is_flag(const struct option_spec *s)
{
	return s->type == OPTION_FLAG || s->type == OPTION_HELP;
}

static void set_flag(const struct option_spec *s, void *out)
{
	const bool yes = true;

	memcpy(value_at(out, s), &yes, sizeof(yes));
}

static const struct option_spec *find_letter(const struct option_spec *specs, char letter)
{
	for (const struct option_spec *s = specs; s->name; s++)
		if (s->letter && s->letter == letter)
			return s;
	return NULL;
}

/* Parses letters in a row, as in "-it" or "-n5". Sets the flags on the way. *ret is the last
 * letter, or the first that is not a flag. */
static int find_last_letter(const struct option_spec *specs, const char *letters, void *out,
	const struct option_spec **ret, const char **value, struct error *e)
{
	for (;; letters++) {
		const struct option_spec *s = find_letter(specs, *letters);

		if (!s)
			return error_set(
				e, ERROR_USAGE, EINVAL, "unknown option -%c: see --help", *letters);
		*ret = s;
		*value = NULL;
		if (!letters[1])
			return 0;
		if (!is_flag(s)) {
			*value = letters + 1;
			return 0;
		}
		set_flag(s, out);
	}
}

/* Finds the option that `word` (with its dashes) names; *value gets its inline value. */
static int find(const struct option_spec *specs, const char *word, void *out,
	const struct option_spec **ret, const char **value, struct error *e)
{
	size_t n;

	if (word[1] != '-')
		return find_last_letter(specs, word + 1, out, ret, value, e);
	*value = NULL;
	word += 2;
	n = strcspn(word, "=");
	for (const struct option_spec *s = specs; s->name; s++)
		if (strlen(s->name) == n && memcmp(s->name, word, n) == 0) {
			*ret = s;
			*value = word[n] ? word + n + 1 : NULL;
			return 0;
		}
	return unknown(specs, word, n, e);
}

int options_parse(const struct option_spec *specs, int argc, char **argv, void *out, int *ret_rest,
	struct error *e)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		const struct option_spec *s = NULL;
		const char *value;
		int r;

		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		r = find(specs, argv[i], out, &s, &value, e);
		if (r < 0)
			return r;
		if (s->type == OPTION_REFUSED)
			return error_set(e, ERROR_USAGE, EINVAL, "%s: %s", argv[i], s->help);
		if (is_flag(s)) {
			if (value)
				return error_set(
					e, ERROR_USAGE, EINVAL, "%s: takes no value", argv[i]);
			set_flag(s, out);
			continue;
		}
		if (!value && s->type == OPTION_OPTIONAL)
			value = "";
		if (!value && ++i == argc)
			return error_set(e, ERROR_USAGE, EINVAL, "--%s needs a value: %s", s->name,
				s->argument);
		r = set_value(s, value ? value : argv[i], out, e);
		if (r < 0)
			return r;
	}
	*ret_rest = i;
	return 0;
}

void options_print(const struct option_spec *specs, FILE *f)
{
	for (const struct option_spec *s = specs; s->name; s++) {
		char left[64];
		int n;

		if (s->hidden)
			continue;
		n = s->letter ? snprintf(left, sizeof(left), "  -%c, --%s", s->letter, s->name)
			      : snprintf(left, sizeof(left), "      --%s", s->name);
		if (s->argument && n > 0 && (size_t)n < sizeof(left))
			(void)snprintf(left + n, sizeof(left) - (size_t)n, "%s%s",
				s->type == OPTION_OPTIONAL ? "" : " ", s->argument);
		fprintf(f, "%-28s %s\n", left, s->help);
	}
}
