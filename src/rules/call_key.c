#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "rules/call_internal.h"
#include "rules/fold.h"

enum { KEY_MAX = 24, DATE_DIGITS = 8 };

/* As fold_name() writes them, in order. */
static const struct known {
	const char *text;
	enum call_key key;
} known[] = {
	{"args", KEY_ARGS},
	{"arguments", KEY_ARGUMENTS},
	{"audiourl", KEY_FETCHED},
	{"bestof", KEY_CHOICES},
	{"cachedcontent", KEY_CACHED_CONTENT},
	{"candidatecount", KEY_CHOICES},
	{"container", KEY_CONTAINER},
	{"custom", KEY_CUSTOM},
	{"fileid", KEY_FILE_ID},
	{"fileuri", KEY_FILE_URI},
	{"fileurl", KEY_FETCHED},
	{"function", KEY_FUNCTION},
	{"functiondeclarations", KEY_FUNCTION_DECLARATIONS},
	{"functions", KEY_FUNCTIONS},
	{"generationconfig", KEY_GENERATION_CONFIG},
	{"imageurl", KEY_FETCHED},
	{"input", KEY_INPUT},
	{"inputschema", KEY_SCHEMA},
	{"labels", KEY_METADATA},
	{"maxcompletiontokens", KEY_MAX_COMPLETION_TOKENS},
	{"maxoutputtokens", KEY_MAX_OUTPUT_TOKENS},
	{"maxtokens", KEY_MAX_TOKENS},
	{"mcpservers", KEY_MCP_SERVERS},
	{"metadata", KEY_METADATA},
	{"model", KEY_MODEL},
	{"models", KEY_MODELS},
	{"n", KEY_CHOICES},
	{"name", KEY_NAME},
	{"parameters", KEY_SCHEMA},
	{"parametersjsonschema", KEY_SCHEMA},
	{"plugins", KEY_PLUGINS},
	{"prompt", KEY_PROMPT},
	{"response", KEY_RESPONSE},
	{"responsejsonschema", KEY_SCHEMA},
	{"responseschema", KEY_SCHEMA},
	{"schema", KEY_SCHEMA},
	{"source", KEY_SOURCE},
	{"tools", KEY_TOOLS},
	{"type", KEY_TYPE},
	{"url", KEY_URL},
	{"videourl", KEY_FETCHED},
	{"websearchoptions", KEY_WEB_SEARCH_OPTIONS},
};

static int compare(const void *key, const void *item)
{
	return strcmp(key, ((const struct known *)item)->text);
}

enum call_key call_key_of(const char *text, size_t n)
{
	char folded[KEY_MAX + 1];
	const struct known *k;

	if (!fold_name(text, n, folded, KEY_MAX))
		return KEY_OTHER;
	k = bsearch(folded, known, ARRAY_SIZE(known), sizeof(known[0]), compare);
	return k ? k->key : KEY_OTHER;
}

static void cut_date(char *s)
{
	size_t n = strlen(s), at = n;

	while (at && s[at - 1] >= '0' && s[at - 1] <= '9')
		at--;
	if (n - at == DATE_DIGITS && at > 1 && s[at - 1] == '_')
		s[at - 1] = '\0';
}

void call_word(const char *text, char out[CALL_WORD_MAX + 1])
{
	size_t n = 0;

	for (const char *s = text; *s && n < CALL_WORD_MAX - 1; s++) {
		bool upper = *s >= 'A' && *s <= 'Z';

		if (upper && s > text && s[-1] >= 'a' && s[-1] <= 'z')
			out[n++] = '_';
		out[n++] = *s == '-' ? '_' : (char)tolower((unsigned char)*s);
	}
	out[n] = '\0';
	cut_date(out);
}
