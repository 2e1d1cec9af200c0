#include "fleet/runtimes.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"

static const char *const built_in[] = {"python-3.12", "node-20", "deno", "base"};
static const char image[] = "image:";

enum { TEXT_MAX = 64 * 1024, HASH_BYTES = 6, SHOWN_MAX = RUNTIME_NAME_MAX - 2 * HASH_BYTES - 1 };

/* --- the list --- */

static bool has_name(const char *entry, const char *name, size_t n)
{
	return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

/* The image's reference in an entry; NULL: it names a template. */
static const char *image_of(const char *entry)
{
	const char *value = strchr(entry, '=');

	return value && str_starts_with(value + 1, image) ? value + sizeof(image) : NULL;
}

static bool is_value(const char *entry, const char *value)
{
	const char *source = image_of(entry);

	return source ? *source && strlen(source) <= RUNTIME_IMAGE_MAX : str_is_tagged_name(value);
}

int runtimes_check(const struct option_list *list, struct error *e)
{
	for (unsigned i = 0; list && i < list->count; i++) {
		const char *equals = strchr(list->items[i], '=');
		_cleanup_free_ char *name =
			strndup(list->items[i], equals ? (size_t)(equals - list->items[i]) : 0);

		if (!name || !str_is_name(name) || !is_value(list->items[i], equals + 1))
			return error_set(e, ERROR_USAGE, EINVAL,
				"--runtime %.80s: must be NAME=TEMPLATE or NAME=image:REFERENCE",
				list->items[i]);
	}
	return 0;
}

/* --- the name of an image's template --- */

static size_t copy_shown(const char *source, char *out)
{
	const char *slash = strrchr(source, '/'), *p = slash ? slash + 1 : source;
	size_t n = 0;

	for (; *p && n < SHOWN_MAX; p++) {
		char c = (char)tolower((unsigned char)*p);
		bool fits = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		if (fits || n)
			out[n++] = fits || c == '.' || c == '_' ? c : '-';
	}
	return n;
}

static void name_template(const char *source, char out[RUNTIME_NAME_MAX + 1])
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	size_t n = copy_shown(source, out);

	(void)SHA256((const unsigned char *)source, strlen(source), hash); /* returns its output */
	if (n)
		out[n++] = '-';
	str_hex(hash, HASH_BYTES, out + n);
}

/* --- runtimes --- */

static void set_template(struct runtime *r, const char *entry)
{
	r->image = image_of(entry);
	if (r->image)
		name_template(r->image, r->template);
	else
		(void)snprintf(r->template, sizeof(r->template), "%s",
			strchr(entry, '=') + 1); /* was checked: fits */
}

/* Of a name with n bytes. template: unless the list says otherwise. */
static void make(const struct option_list *list, const char *name, size_t n, const char *template,
	struct runtime *ret)
{
	(void)snprintf(ret->name, sizeof(ret->name), "%.*s", (int)n, name); /* was checked: fits */
	(void)snprintf(ret->template, sizeof(ret->template), "%s", template ? template : "");
	ret->image = NULL;
	for (unsigned i = list ? list->count : 0; i-- > 0;)
		if (has_name(list->items[i], name, n)) {
			set_template(ret, list->items[i]);
			return;
		}
}

/* Whether no name before says the same. */
static bool is_new(const struct option_list *list, unsigned i)
{
	const char *entry = list->items[i];
	size_t n = strcspn(entry, "=");

	for (size_t k = 0; k < ARRAY_SIZE(built_in); k++)
		if (has_name(entry, built_in[k], strlen(built_in[k])))
			return false;
	for (unsigned k = 0; k < i; k++)
		if (has_name(list->items[k], entry, n))
			return false;
	return true;
}

bool runtimes_get(const struct option_list *list, unsigned number, struct runtime *ret)
{
	unsigned left = number;

	ret->number = number;
	if (left < ARRAY_SIZE(built_in)) {
		make(list, built_in[left], strlen(built_in[left]), built_in[left], ret);
		return true;
	}
	left -= ARRAY_SIZE(built_in);
	for (unsigned i = 0; list && i < list->count; i++)
		if (is_new(list, i) && left-- == 0) {
			make(list, list->items[i], strcspn(list->items[i], "="), NULL, ret);
			return true;
		}
	return false;
}

bool runtimes_find(const struct option_list *list, const char *name, struct runtime *ret)
{
	for (unsigned i = 0; runtimes_get(list, i, ret); i++)
		if (strcmp(ret->name, name) == 0)
			return true;
	return false;
}

char *runtimes_names(const struct option_list *list)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	struct runtime rt;
	int r = 0;

	for (unsigned i = 0; r == 0 && runtimes_get(list, i, &rt); i++)
		r = buf_printf(&text, "%s%s", i ? ", " : "", rt.name);
	return r == 0 ? strndup((const char *)buf_head(&text), buf_len(&text)) : NULL;
}
