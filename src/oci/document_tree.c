#include "oci/document_tree.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

struct values {
	struct tree_sink sink; /* first member */
	json_t *root;	       /* owned; NULL before the first value */
	size_t count, bytes;
};

void oci_document_done(json_t **document)
{
	json_decref(*document);
}

static int impossible(struct error *e)
{
	return error_set(e, ERROR_BAD_IMAGE, EPROTO, "its values contradict each other");
}

static json_t *number_of(const char *text)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' ? json_integer(v) : NULL;
}

/* NULL for what is no value. */
static json_t *value_of(const char *text, size_t n)
{
	switch (text[0]) {
	case PARSE_IS_OBJECT:
		return json_object();
	case PARSE_IS_LIST:
		return json_array();
	case PARSE_IS_TEXT:
		return memchr(text, '\0', n) ? NULL : json_stringn(text + 1, n - 1);
	case PARSE_IS_NUMBER:
		return number_of(text + 1);
	case PARSE_IS_NULL:
		return json_null();
	case PARSE_IS_OTHER:
		return json_true();
	default:
		return NULL;
	}
}

/* The member or element that the first n bytes of `name` call. */
static json_t *child_of(const json_t *v, const char *name, size_t n)
{
	if (json_is_object(v))
		return json_object_getn(v, name, n);
	return json_array_get(v, strtoul(name, NULL, 10)); /* NULL if it is none */
}

/* Adds a value, which this takes over, as a new member or the next element. */
static int put(json_t *to, const char *name, json_t *v)
{
	if (json_is_object(to) && !json_object_get(to, name))
		return json_object_set_new(to, name, v);
	if (json_is_array(to) && strtoul(name, NULL, 10) == json_array_size(to))
		return json_array_append_new(to, v);
	json_decref(v);
	return -1;
}

/* Places a value, which this takes over, where its path says. */
static int place(struct values *s, const char *path, json_t *v)
{
	json_t *at = s->root;
	const char *name = strchr(path, '/'), *slash;

	if (!name && !at) {
		s->root = v;
		return 0;
	}
	while (at && name && (slash = strchr(name + 1, '/')) != NULL) {
		at = child_of(at, name + 1, (size_t)(slash - name - 1));
		name = slash;
	}
	if (at && name)
		return put(at, name + 1, v);
	json_decref(v);
	return -1;
}

static int read_all(const struct tree_data *d, char *to, size_t n)
{
	ssize_t k;

	for (size_t have = 0; have < n; have += (size_t)k) {
		k = d->read(d->opaque, to + have, n - have);
		if (k <= 0)
			return -EPROTO;
	}
	return 0;
}

static int add_value(struct tree_sink *sink, const struct tree_entry *t, const struct tree_data *d,
	struct error *e)
{
	struct values *s = (struct values *)(void *)sink;
	_cleanup_free_ char *text = NULL;
	json_t *v = NULL;

	if (!S_ISREG(t->mode) || t->hardlink || t->size == 0)
		return impossible(e);
	if (++s->count > OCI_VALUES_MAX || t->size > PARSE_DOCUMENT_MAX + 1 ||
		(s->bytes += t->size - 1) > PARSE_DOCUMENT_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "it has too many values");
	text = calloc(1, t->size + 1);
	if (!text)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (read_all(d, text, t->size) == 0)
		v = value_of(text, t->size);
	return v && place(s, t->path, v) == 0 ? 0 : impossible(e);
}

int oci_document_read(unpack_fn fn, int fd, const char *what, json_t **ret, struct error *e)
{
	static const struct tree_sink_ops ops = {.add = add_value};
	struct values s = {.sink = {&ops}};
	struct parse_options o = {.job = PARSE_DOCUMENT, .fd = fd};
	int r = fn(&o, &s.sink, e);

	if (r == 0 && !s.root)
		r = impossible(e);
	if (r < 0) {
		json_decref(s.root);
		error_prefix(e, "the image's %s is unusable", what);
		return r;
	}
	*ret = s.root;
	return 0;
}
