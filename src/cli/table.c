#include "cli/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/clean.h"

void table_add(struct table *t, const char *const *cells)
{
	char **p = realloc(t->cells, (t->count + t->columns) * sizeof(*p));

	if (!p) {
		t->err = -ENOMEM;
		return;
	}
	t->cells = p;
	for (unsigned i = 0; i < t->columns; i++) {
		char *cell = strdup(cells[i]);

		t->cells[t->count++] = cell;
		if (cell)
			clean_text(cell, ""); /* a command's text may hold anything */
		else
			t->err = -ENOMEM;
	}
}

static void print_cell(const char *text, size_t width)
{
	fputs(text, stdout);
	for (size_t n = strlen(text); n < width; n++)
		putchar(' ');
}

static void print_rows(const struct table *t)
{
	size_t width[TABLE_COLUMNS_MAX] = {0};

	for (size_t i = 0; i < t->count; i++)
		if (strlen(t->cells[i]) > width[i % t->columns])
			width[i % t->columns] = strlen(t->cells[i]);
	width[t->columns - 1] = 0;
	for (size_t i = 0; i < t->count; i++) {
		print_cell(t->cells[i], width[i % t->columns]);
		fputs(i % t->columns == t->columns - 1 ? "\n" : "  ", stdout);
	}
}

int table_print(struct table *t)
{
	if (t->err == 0)
		print_rows(t);
	for (size_t i = 0; i < t->count; i++)
		free(t->cells[i]);
	free(t->cells);
	t->cells = NULL;
	t->count = 0;
	return t->err;
}

static const char *format_span(uint64_t ns, char out[TABLE_AGE_BYTES])
{
	unsigned long long s = ns / NS_PER_S;

	if (s < 120)
		(void)snprintf(out, TABLE_AGE_BYTES, "%llus", s); /* all of these fit */
	else if (s < 2 * 3600)
		(void)snprintf(out, TABLE_AGE_BYTES, "%llum", s / 60);
	else if (s < 48 * 3600)
		(void)snprintf(out, TABLE_AGE_BYTES, "%lluh", s / 3600);
	else
		(void)snprintf(out, TABLE_AGE_BYTES, "%llud", s / 86400);
	return out;
}

const char *table_age(uint64_t since_ns, char out[TABLE_AGE_BYTES])
{
	uint64_t now = clock_realtime_ns();

	return format_span(now > since_ns ? now - since_ns : 0, out);
}

const char *table_until(uint64_t until_ns, char out[TABLE_AGE_BYTES])
{
	uint64_t now = clock_realtime_ns();

	if (!until_ns)
		return strcpy(out, "-");
	return format_span(until_ns > now ? until_ns - now : 0, out);
}

void table_print_name(const char *name)
{
	_cleanup_free_ char *copy = isatty(STDOUT_FILENO) ? strdup(name) : NULL;

	if (copy)
		clean_text(copy, "");
	puts(copy ? copy : name);
}
