/* The JSON documents of images (OCI image specification 1.1, docker's forms of them, and the
 * manifest.json of `docker save`). The values that Mayfly uses become entries, so that nobody
 * outside the jail reads the document's text. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "image/parse_internal.h"
#include "proto/json_tree.h"

enum { DEPTH_MAX = 8, NAME_BYTES = 64, SPARE = 32 };

/* The path of the value in hand. */
struct place {
	char path[DEPTH_MAX * NAME_BYTES];
	size_t len;
	unsigned depth;
};

static int emit_value(const json_t *v, struct place *at, struct tree_sink *to, struct error *e);

/* The members of all kinds of documents that somebody reads. */
static bool is_used(const char *name)
{
	static const char *const used[] = {"Cmd", "Config", "Entrypoint", "Env", "Layers",
		"OnBuild", "RepoTags", "User", "WorkingDir", "annotations", "architecture",
		"config", "diff_ids", "digest", "fsLayers", "layers", "manifests", "mediaType",
		"org.opencontainers.image.ref.name", "os", "platform", "rootfs", "size"};

	for (size_t i = 0; i < ARRAY_SIZE(used); i++)
		if (strcmp(used[i], name) == 0)
			return true;
	return false;
}

static int emit(const struct place *at, char type, const void *data, size_t n, struct tree_sink *to,
	struct error *e)
{
	struct buf text = BUF_INIT(PARSE_DOCUMENT_MAX + SPARE);
	int r = buf_add_u8(&text, (uint8_t)type);

	if (r == 0)
		r = buf_add(&text, data, n);
	if (r < 0)
		r = error_set_errno(e, ERROR_INTERNAL, -r, "cannot pass on a value");
	else
		r = tree_put(to, at->path, buf_head(&text), buf_len(&text), 0644, 0, 0, 0, e);
	buf_done(&text);
	return r;
}

/* A value one level deeper. */
static int emit_child(
	const char *name, const json_t *v, struct place *at, struct tree_sink *to, struct error *e)
{
	size_t len = at->len;
	int n = snprintf(at->path + len, sizeof(at->path) - len, "/%s", name), r;

	if (at->depth == DEPTH_MAX - 1 || n < 0 || n >= NAME_BYTES)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL, "it is nested too deeply");
	at->len += (size_t)n;
	at->depth++;
	r = emit_value(v, at, to, e);
	at->depth--;
	at->len = len;
	at->path[len] = '\0';
	return r;
}

static int emit_object(const json_t *o, struct place *at, struct tree_sink *to, struct error *e)
{
	const char *name;
	json_t *v;
	int r = emit(at, PARSE_IS_OBJECT, NULL, 0, to, e);

	json_object_foreach((json_t *)(uintptr_t)o, name, v)
	{
		if (r == 0 && is_used(name))
			r = emit_child(name, v, at, to, e);
	}
	return r;
}

static int emit_list(const json_t *list, struct place *at, struct tree_sink *to, struct error *e)
{
	int r = emit(at, PARSE_IS_LIST, NULL, 0, to, e);

	for (size_t i = 0; i < json_array_size(list) && r == 0; i++) {
		char name[SPARE];

		(void)snprintf(name, sizeof(name), "%zu", i); /* fits */
		r = emit_child(name, json_array_get(list, i), at, to, e);
	}
	return r;
}

static int emit_value(const json_t *v, struct place *at, struct tree_sink *to, struct error *e)
{
	char number[SPARE];

	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return emit_object(v, at, to, e);
	case JSON_ARRAY:
		return emit_list(v, at, to, e);
	case JSON_STRING:
		return emit(at, PARSE_IS_TEXT, json_string_value(v), json_string_length(v), to, e);
	case JSON_INTEGER:
		(void)snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
			json_integer_value(v)); /* fits */
		return emit(at, PARSE_IS_NUMBER, number, strlen(number), to, e);
	case JSON_NULL:
		return emit(at, PARSE_IS_NULL, NULL, 0, to, e);
	default:
		return emit(at, PARSE_IS_OTHER, NULL, 0, to, e);
	}
}

/* A document may be a list, but our reader takes only objects, so this wraps it in one. A document
 * that ends the wrapping early, and goes on, has more members. */
static json_t *read_wrapped(const char *text, size_t n, struct error *e)
{
	static const char open[] = "{\"" PARSE_DOCUMENT_ROOT "\":";
	const char *reason = "it is too large";
	struct buf b = BUF_INIT(PARSE_DOCUMENT_MAX + SPARE);
	json_t *o = NULL;
	int r = n <= PARSE_DOCUMENT_MAX ? buf_add(&b, open, sizeof(open) - 1) : -EMSGSIZE;

	if (r == 0)
		r = buf_add(&b, text, n);
	if (r == 0)
		r = buf_add_u8(&b, '}');
	if (r == 0)
		o = json_tree_parse(
			buf_head(&b), buf_len(&b), JSON_TREE_UNIQUE | JSON_TREE_NO_NUL, &reason);
	buf_done(&b);
	if (o && json_object_size(o) != 1) {
		json_decref(o);
		o = NULL;
		reason = "it is no JSON";
	}
	if (!o)
		(void)error_set(e, ERROR_BAD_IMAGE, EINVAL, "%s", reason); /* NULL says it */
	return o;
}

int parse_document(int fd, struct tree_sink *to, struct error *e)
{
	struct place at = {.path = PARSE_DOCUMENT_ROOT, .len = sizeof(PARSE_DOCUMENT_ROOT) - 1};
	_cleanup_free_ char *text = NULL;
	json_t *o;
	size_t n = 0;
	int r = file_read_fd(fd, PARSE_DOCUMENT_MAX, &text, &n);

	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read it");
	o = read_wrapped(text, n, e);
	if (!o)
		return -EINVAL;
	r = emit_value(json_object_get(o, PARSE_DOCUMENT_ROOT), &at, to, e);
	json_decref(o);
	return r;
}
