/* What a request says to the API of a model provider, or to a server of tools (MCP): read of its
 * body while it comes, so that rules can judge it (docs/policy.md#models-and-tools).
 *
 * The APIs are known by the path, on any host: Anthropic's messages, OpenAI's chat completions and
 * responses, Google's generateContent and streamGenerateContent. MCP is what a rule calls so.
 *
 * Servers read JSON in different ways. A body is *unclear* if it could mean something else to one
 * of them: no strict JSON, a member twice, also in another spelling (maxTokens, MAX_TOKENS), of
 * another type than it should be, compressed, too large. What is not known is no matter.
 *
 * Memory: a reader keeps names, of 256 KiB at most; the bytes of a body only for MCP. */
#ifndef RULES_CALL_H
#define RULES_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct http_headers;

enum call_api {
	CALL_ANTHROPIC = 1,
	CALL_OPENAI = 2,
	CALL_GOOGLE = 4,
	CALL_MODELS = 7, /* any of these */
	CALL_MCP = 8,
};

enum {
	CALL_BODY_MAX = 4 << 20,
	CALL_TOOLS_MAX = 1024, /* names of a request */
	CALL_NAME_MAX = 128,   /* bytes of one */
	CALL_MODEL_MAX = 200,  /* likewise */
	CALL_MESSAGES_MAX = 64,
};

struct call_names {
	char **names; /* owned */
	unsigned count;
};

/* One message of MCP. Strings and values are the call's. */
struct call_message {
	const char *method;	 /* NULL: the answer to a question of the server */
	const char *tool;	 /* of tools/call; NULL: another method */
	const json_t *arguments; /* of tools/call; NULL: none */
	const json_t *id;	 /* NULL: a notification */
};

struct call {
	unsigned apis;			/* as which it was read: one of the models, MCP, or both */
	const char *unclear;		/* static: why it cannot be judged; NULL: it can */
	const char *unclear_mcp;	/* likewise, by rules of MCP */
	char model[CALL_MODEL_MAX + 1]; /* in lower case; "": it names none */
	bool limited;			/* it says how many tokens it wants */
	uint64_t max_tokens;
	struct call_names tools; /* that it offers, and its program runs */
	/* What the provider runs or fetches: "web_search", "mcp_servers", "url_source",
	 * "file_source", ... */
	struct call_names server_tools;
	struct call_message *messages; /* of MCP */
	unsigned message_count;
	bool batch;   /* they came as an array */
	json_t *tree; /* that the messages are in */
};

/* The API that a path belongs to, or 0. path: of path_clean(). */
unsigned call_api_of_path(const char *path);

/* "anthropic", "openai", "google", "mcp". */
const char *call_api_word(unsigned api);

struct call_reader;

/* apis: what to read the body as. headers: of the request; NULL: those of plain JSON. NULL when out
 * of memory. */
struct call_reader *call_reader_new(
	unsigned apis, const char *path, const struct http_headers *headers);
void call_reader_free(struct call_reader *r); /* and its call; NULL is fine */

/* Of tools, no names are kept. */
void call_reader_skip_names(struct call_reader *r);

/* Bytes of the body. False: it is unclear already, and the rest need not be read. */
bool call_reader_feed(struct call_reader *r, const void *data, size_t n);

/* The whole body was read. Valid until the reader is freed. */
const struct call *call_reader_end(struct call_reader *r);

#endif
