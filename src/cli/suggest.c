#include "cli/suggest.h"

#include <stddef.h>
#include <string.h>

enum { WORD_MAX = 64, NEAR = 2 };

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Levenshtein's: letters to add, drop or replace. */
static unsigned distance(const char *a, const char *b)
{
	size_t n = strlen(b);
	unsigned row[WORD_MAX];

	if (strlen(a) >= WORD_MAX || n >= WORD_MAX)
		return WORD_MAX;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			unsigned replace = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = least(replace, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[n];
}

struct suggest suggest_for(const char *word)
{
	return (struct suggest){.word = word, .distance = NEAR + 1};
}

void suggest_offer(struct suggest *s, const char *name)
{
	unsigned d = distance(s->word, name);

	/* of a word of two letters everything is near */
	if (d < s->distance && d < strlen(s->word)) {
		s->distance = d;
		s->best = name;
	}
}
