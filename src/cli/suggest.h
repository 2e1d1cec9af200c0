/* "Did you mean ...?": finds the nearest name for a misspelt word. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

struct suggest {
	const char *word;
	const char *best; /* NULL: nothing is near enough */
	unsigned distance;
};

struct suggest suggest_for(const char *word);
/* name must outlive the suggestion. */
void suggest_offer(struct suggest *s, const char *name);

#endif
