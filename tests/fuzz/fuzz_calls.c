/* Bodies of requests to models and servers of tools: the first line is a path, the rest a body. It
 * says the same whole and byte by byte, also as a form, and what is clear is JSON for jansson,
 * too. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "rules/call.h"

static struct call_reader *read_call(
	const char *path, const uint8_t *body, size_t n, size_t piece, const struct call **ret)
{
	unsigned api = call_api_of_path(path);
	struct call_reader *r = call_reader_new((api ? api : CALL_MCP) | CALL_FORM, path, NULL);

	check(r != NULL);
	for (size_t at = 0; at < n; at += piece)
		(void)call_reader_feed(r, body + at, n - at < piece ? n - at : piece);
	*ret = call_reader_end(r);
	return r;
}

static void same_names(const struct call_names *a, const struct call_names *b)
{
	check(a->count == b->count && a->count <= CALL_TOOLS_MAX);
	for (unsigned i = 0; i < a->count; i++)
		check(strcmp(a->names[i], b->names[i]) == 0);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL, *body;
	struct call_reader *one, *two;
	const struct call *a, *b;
	char path[257] = "";
	json_t *tree;
	size_t n;

	if (!end || end - data > 256 || memchr(data, 0, (size_t)(end - data)))
		return 0;
	memcpy(path, data, (size_t)(end - data));
	body = end + 1;
	n = size - (size_t)(body - data);
	one = read_call(path, body, n, n + 1, &a);
	two = read_call(path, body, n, 1, &b);
	check(same_text(a->unclear, b->unclear) && same_text(a->unclear_mcp, b->unclear_mcp));
	check(strcmp(a->model, b->model) == 0 && a->max_tokens == b->max_tokens);
	same_names(&a->tools, &b->tools);
	same_names(&a->server_tools, &b->server_tools);
	check(a->message_count == b->message_count && a->two_methods == b->two_methods);
	if (!a->unclear && !a->unclear_mcp) {
		json_error_t why;

		tree = json_loadb(
			(const char *)body, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
		/* it takes no NUL in a key, and no number beyond a double */
		check(tree || strstr(why.text, "NUL byte") || strstr(why.text, "overflow"));
		json_decref(tree);
	}
	call_reader_free(one);
	call_reader_free(two);
	return 0;
}
