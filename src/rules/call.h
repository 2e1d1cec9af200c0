/* Reads the body of a request to the API of a model provider, or to an MCP server, so that rules
 * can judge it (docs/policy.md#models-and-tools). It reads the body in pieces, as they arrive. It
 * also finds out whether a form replaces the method of its request (rules/form.h).
 *
 * The path tells the API of a model, on any host: Anthropic's messages, OpenAI's chat completions
 * and responses, Google's generateContent and streamGenerateContent. A request is MCP if a rule
 * says so.
 *
 * Servers read JSON in different ways. A body is *unclear* if a server could read it in another way
 * than we do: if it is not strict JSON, is compressed or too large, or if a member we know has the
 * wrong type or comes twice, perhaps in another spelling (maxTokens, MAX_TOKENS). Unknown members
 * are ignored.
 *
 * Memory: a reader keeps at most 256 KiB of names. It keeps the body for MCP and forms only. */
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
	CALL_FORM = 16, /* no API: a form that may replace the method */
};

enum {
	CALL_BODY_MAX = 4 << 20,
	CALL_TOOLS_MAX = 1024, /* names in a request */
	CALL_NAME_MAX = 128,   /* bytes of a name */
	CALL_MODEL_MAX = 200,  /* bytes of a model's name */
	CALL_MESSAGES_MAX = 64,
};

struct call_names {
	char **names; /* owned */
	unsigned count;
};

/* One message of MCP. It borrows from the call. */
struct call_message {
	const char *method;	 /* NULL: an answer to a request of the server */
	const char *tool;	 /* name in tools/call; NULL: another method */
	const json_t *arguments; /* of tools/call; NULL: none */
	bool any_arguments;	 /* whether a call may be allowed, whatever they are */
	const json_t *id;	 /* NULL: a notification */
};

struct call {
	unsigned apis;			/* how the body was read: as one of the models' APIs, as
					 * MCP, as a form, or as several */
	const char *unclear;		/* static: why rules cannot judge it; NULL: they can */
	const char *unclear_mcp;	/* the same for rules about MCP */
	bool two_methods;		/* of a form: it replaces the method, or may do so */
	const char *form;		/* of a form: its fields as in a query; NULL: they are */
	size_t form_bytes;		/* parts, or cannot be read. Borrowed from the reader */
	char model[CALL_MODEL_MAX + 1]; /* in lower case; may be "" */
	bool limited;			/* it limits the tokens: max_tokens */
	uint64_t max_tokens;
	uint64_t choices; /* number of answers that it asks for, each of max_tokens; 0: not said */
	struct call_names tools; /* tools that it offers and its own program runs */
	/* What it lets the provider run or fetch: "web_search", "mcp_servers", "url_source",
	 * "file_source" and so on. */
	struct call_names server_tools;
	struct call_message *messages; /* of MCP */
	unsigned message_count;
	bool batch;   /* the messages came as an array */
	json_t *tree; /* owned: the messages borrow from it */
};

/* Returns the API that a path belongs to, or 0. path: the result of path_clean(). */
unsigned call_api_of_path(const char *path);

/* "anthropic", "openai", "google", "mcp". */
const char *call_api_word(unsigned api);

/* Whether a message of MCP is one that a session needs, beside calls of tools. NULL: an answer. */
bool call_is_session(const char *method);

struct call_reader;

/* apis: how to read the body. headers: the request's; NULL counts as plain JSON. Returns NULL when
 * out of memory. */
struct call_reader *call_reader_new(
	unsigned apis, const char *path, const struct http_headers *headers);
void call_reader_free(struct call_reader *r); /* frees its call, too; NULL is fine */

/* Makes it keep the first names of tools only, at most max of each kind, for readers that do not
 * judge. */
void call_reader_keep_first(struct call_reader *r, unsigned max);

/* Takes bytes of the body. Returns false if the body is unclear already, so that the rest need not
 * be read. A form that is compressed or too large may replace the method. */
bool call_reader_feed(struct call_reader *r, const void *data, size_t n);

/* Ends the body and returns what it says. Valid until the reader is freed. */
const struct call *call_reader_end(struct call_reader *r);

#endif
