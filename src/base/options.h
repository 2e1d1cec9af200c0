/* Command-line options from a table. The parser, --help, shell completion and the manual all use
 * the same table of names, types, ranges and help texts.
 *
 * Long options take `--name value` or `--name=value`, short ones `-n value` or `-nvalue`. Short
 * flags may share one word (`-it`). Parsing stops at `--` (which is skipped) or at the first word
 * that is not an option. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum option_type {
	OPTION_FLAG,	 /* bool: true when given */
	OPTION_STRING,	 /* const char *, borrowed from argv */
	OPTION_OPTIONAL, /* the same; the value is optional, as --name=value only; "" without one */
	OPTION_LIST,	 /* struct option_list: may be repeated */
	OPTION_NUMBER,	 /* uint64_t in [min, max] */
	OPTION_BYTES,	 /* uint64_t bytes in [min, max]; a bare number counts in MB */
	OPTION_DURATION, /* uint64_t nanoseconds in [min, max]; a bare number is seconds */
	OPTION_HELP,	 /* bool; help is not an error */
	OPTION_REFUSED,	 /* a usage error with `help` as its text; no value */
};

enum { OPTION_LIST_MAX = 256 };

struct option_list {
	const char *items[OPTION_LIST_MAX]; /* borrowed from argv */
	unsigned count;
};

struct option_spec {
	const char *name; /* without dashes; NULL ends a table */
	char letter;	  /* 0: none */
	enum option_type type;
	const char *argument; /* name of the value in the help, NULL for flags; "[=X]" when
			       * optional */
	const char *help;     /* one line */
	size_t offset;	      /* of the value in the caller's struct, offsetof() */
	uint64_t min, max;    /* of numbers; both 0: no limits */
	bool hidden;	      /* left out of help and completion */
};

/* Fills `out` (which holds the defaults) from argv[1..argc). *ret_rest is the index of the first
 * word that was not consumed. An unknown option or a bad value is ERROR_USAGE, a value out of range
 * ERROR_LIMIT. The message proposes the nearest right spelling where there is one. */
int options_parse(const struct option_spec *specs, int argc, char **argv, void *out, int *ret_rest,
	struct error *e);

/* Prints the table, one line per option, aligned. */
void options_print(const struct option_spec *specs, FILE *f);

#endif
