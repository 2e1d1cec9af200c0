/* Prints tables for people: each column is as wide as its widest cell. Cells are cleaned
 * (clean.h). */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { TABLE_COLUMNS_MAX = 11 };

struct table {
	unsigned columns;
	char **cells; /* owned, row after row */
	size_t count;
	int err; /* sticky error */
};

/* Adds a row of `columns` strings. The first row is the heading. */
void table_add(struct table *t, const char *const *cells);
/* Prints to standard output and frees. Returns 0 or -ENOMEM. */
int table_print(struct table *t);

/* Prints a line with a name that a guest chose. On a terminal, characters that could control it are
 * replaced. */
void table_print_name(const char *name);

enum { TABLE_AGE_BYTES = 16 };
/* "12s", "5m", "3h", "4d": from a CLOCK_REALTIME time until now. */
const char *table_age(uint64_t since_ns, char out[TABLE_AGE_BYTES]);
/* The same from now until a future time; "-" for 0. */
const char *table_until(uint64_t until_ns, char out[TABLE_AGE_BYTES]);

#endif
