#include "dockerfile/split.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

static bool is_blank(char c)
{
	return isspace((unsigned char)c);
}

static int add_word(struct arena *a, struct words *w, const char *p, size_t n)
{
	const char **items;

	if (w->count == SPLIT_WORDS_MAX)
		return -E2BIG;
	items = arena_grow(a, w->items, w->count, sizeof(*items));
	if (!items)
		return -ENOMEM;
	w->items = items;
	items[w->count] = arena_copy(a, p, n);
	return items[w->count++] ? 0 : -ENOMEM;
}

/* Returns the end of a quoted part that begins at p. A quote that is not closed ends with the
 * text. */
static const char *after_quote(const char *p, char escape)
{
	char quote = *p++;

	while (*p && *p != quote) {
		if (*p == escape && quote == '"' && p[1])
			p++;
		p++;
	}
	return *p ? p + 1 : p;
}

static const char *after_word(const char *p, char escape)
{
	while (*p && !is_blank(*p)) {
		if (*p == '\'' || *p == '"')
			p = after_quote(p, escape);
		else
			p += *p == escape && p[1] ? 2 : 1;
	}
	return p;
}

int split_quoted(struct arena *a, const char *text, char escape, struct words *ret)
{
	int r = 0;

	*ret = (struct words){NULL, 0};
	while (r == 0) {
		const char *end;

		while (is_blank(*text))
			text++;
		if (!*text)
			break;
		end = after_word(text, escape);
		r = add_word(a, ret, text, (size_t)(end - text));
		text = end;
	}
	return r;
}

int split_plain(struct arena *a, const char *text, struct words *ret)
{
	int r = 0;

	*ret = (struct words){NULL, 0};
	while (r == 0) {
		size_t n = 0;

		while (is_blank(*text))
			text++;
		while (text[n] && !is_blank(text[n]))
			n++;
		if (n == 0)
			break;
		r = add_word(a, ret, text, n);
		text += n;
	}
	return r;
}

int split_json(struct arena *a, const char *text, struct words *ret)
{
	json_t *list = *text == '[' ? json_loads(text, 0, NULL) : NULL, *item;
	size_t i;
	int r = list ? 0 : -EINVAL;

	*ret = (struct words){NULL, 0};
	json_array_foreach(list, i, item)
	{
		if (r == 0 && !json_is_string(item))
			r = -EINVAL;
		if (r == 0)
			r = add_word(a, ret, json_string_value(item), json_string_length(item));
	}
	json_decref(list);
	return r;
}

int split_heredoc(struct arena *a, const char *word, char escape, struct heredoc_mark *ret)
{
	char *name;
	size_t n = 0;

	while (isdigit((unsigned char)*word))
		word++;
	if (word[0] != '<' || word[1] != '<')
		return 0;
	word += 2;
	*ret = (struct heredoc_mark){.strip_tabs = *word == '-', .expand = true};
	word += ret->strip_tabs;
	if (!*word || strchr(word, '<'))
		return 0;
	name = arena_take(a, strlen(word) + 1);
	if (!name)
		return -ENOMEM;
	for (; *word; word++) {
		if (*word == '\'' || *word == '"' || *word == escape)
			ret->expand = false;
		else
			name[n++] = *word;
	}
	ret->name = name;
	return n > 0;
}
