/* Tables for people: columns as wide as their widest cell. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { TABLE_COLUMNS_MAX = 9 };

struct table {
	unsigned columns;
	char **cells; /* owned, row after row */
	size_t count;
	int err; /* sticky */
};

/* A row at a time, `columns` strings; the first row is the heading. */
void table_add(struct table *t, const char *const *cells);
/* Prints to standard output and frees; 0 or -ENOMEM. */
int table_print(struct table *t);

/* A line with a name of a guest's, which may name things as it likes: what could command a terminal
 * is replaced where standard output is one. */
void table_print_name(const char *name);

enum { TABLE_AGE_BYTES = 16 };
/* "12s", "5m", "3h", "4d" between a CLOCK_REALTIME time and now. */
const char *table_age(uint64_t since_ns, char out[TABLE_AGE_BYTES]);
/* The same between now and a time to come; "-" for 0. */
const char *table_until(uint64_t until_ns, char out[TABLE_AGE_BYTES]);

#endif
