/* Shared by call.c, call_key.c, call_model.c and call_mcp.c. */
#ifndef RULES_CALL_INTERNAL_H
#define RULES_CALL_INTERNAL_H

#include "base/buf.h"
#include "proto/json_stream.h"
#include "rules/call.h"

/* Members that have a meaning for us, in any spelling. */
enum call_key {
	KEY_OTHER,
	KEY_ITEM, /* of an array */
	KEY_ARGS,
	KEY_ARGUMENTS,
	KEY_CACHED_CONTENT,
	KEY_CHOICES, /* n, best_of, candidate_count */
	KEY_CONTAINER,
	KEY_CUSTOM,
	KEY_FETCHED, /* audio_url, file_url, image_url, video_url */
	KEY_FILE_ID,
	KEY_FILE_URI,
	KEY_FUNCTION,
	KEY_FUNCTION_DECLARATIONS,
	KEY_FUNCTIONS,
	KEY_GENERATION_CONFIG,
	KEY_INPUT,
	KEY_MAX_TOKENS, /* and max_completion_tokens, max_output_tokens */
	KEY_MAX_COMPLETION_TOKENS,
	KEY_MAX_OUTPUT_TOKENS,
	KEY_MCP_SERVERS,
	KEY_METADATA, /* and labels: texts of the program's own */
	KEY_MODEL,
	KEY_MODELS,
	KEY_NAME,
	KEY_PLUGINS,
	KEY_PROMPT,
	KEY_RESPONSE,
	KEY_SCHEMA, /* and parameters, input_schema, ... */
	KEY_SOURCE,
	KEY_TOOLS,
	KEY_TYPE,
	KEY_URL,
	KEY_WEB_SEARCH_OPTIONS,
	KEY_COUNT_,
};

enum { CALL_WORD_MAX = 64 };

/* Finds the member that a name means to any server (rules/fold.h). */
enum call_key call_key_of(const char *text, size_t n);

/* Writes "webSearch" and "WebSearch" as "web_search", and drops a date at the end ("_20250305"). A
 * text that is too long is cut. */
void call_word(const char *text, char out[CALL_WORD_MAX + 1]);

/* An object or array that is open. */
struct call_level {
	enum call_key key;  /* the member whose value it is */
	bool array, opaque; /* opaque: nothing in it has a meaning for us */
	uint64_t seen;	    /* a bit for each key that came */
};

/* A tool that is being read. */
struct call_tool {
	char type[CALL_WORD_MAX + 1], name[CALL_NAME_MAX + 1];
	bool typed, named, blank; /* blank: its type is empty or null */
};

struct call_reader {
	struct call call;
	char path_model[CALL_MODEL_MAX + 1]; /* named by the path; may be "" */
	bool any;			     /* a byte has come */
	unsigned first_names;		     /* so many names are kept; 0: all */
	uint64_t bytes;
	struct json_stream stream; /* for models */
	struct call_level levels[JSON_STREAM_DEPTH_MAX];
	enum call_key key;		  /* of the next value in an object */
	char key_text[CALL_WORD_MAX + 1]; /* the same as text, written by call_word() */
	struct call_tool tool;
	struct buf body; /* for MCP and forms */
	bool parts;	 /* a form's type says that it has parts */
};

/* Why a body is unclear that has a member `_method` in its root. Some frameworks take it for the
 * request's method, as they do of forms (form.h). */
#define CALL_OVERRIDES "its member _method may change its method"

void call_unclear(struct call_reader *r, const char *why);

/* Adds a name if it is new. */
void call_add_name(struct call_reader *r, struct call_names *names, const char *name);

void call_model_token(void *arg, const struct json_stream_token *t);
void call_model_end(struct call_reader *r);

void call_mcp_end(struct call_reader *r);

#endif
