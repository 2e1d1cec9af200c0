#include "envd/envd_download.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "envd/envd_entry.h"

static const struct {
	const char *extension, *type;
} media_types[] = {
	{"avif", "image/avif"},
	{"bmp", "image/bmp"},
	{"c", "text/plain; charset=utf-8"},
	{"css", "text/css; charset=utf-8"},
	{"csv", "text/csv; charset=utf-8"},
	{"gif", "image/gif"},
	{"gz", "application/gzip"},
	{"h", "text/plain; charset=utf-8"},
	{"htm", "text/html; charset=utf-8"},
	{"html", "text/html; charset=utf-8"},
	{"ico", "image/x-icon"},
	{"ipynb", "application/x-ipynb+json"},
	{"jpeg", "image/jpeg"},
	{"jpg", "image/jpeg"},
	{"js", "text/javascript; charset=utf-8"},
	{"json", "application/json"},
	{"log", "text/plain; charset=utf-8"},
	{"md", "text/markdown; charset=utf-8"},
	{"mjs", "text/javascript; charset=utf-8"},
	{"mp3", "audio/mpeg"},
	{"mp4", "video/mp4"},
	{"ogg", "audio/ogg"},
	{"pdf", "application/pdf"},
	{"png", "image/png"},
	{"py", "text/x-python; charset=utf-8"},
	{"sh", "text/x-sh; charset=utf-8"},
	{"svg", "image/svg+xml"},
	{"tar", "application/x-tar"},
	{"tif", "image/tiff"},
	{"tiff", "image/tiff"},
	{"tsv", "text/tab-separated-values; charset=utf-8"},
	{"txt", "text/plain; charset=utf-8"},
	{"wasm", "application/wasm"},
	{"wav", "audio/wav"},
	{"webm", "video/webm"},
	{"webp", "image/webp"},
	{"woff", "font/woff"},
	{"woff2", "font/woff2"},
	{"xls", "application/vnd.ms-excel"},
	{"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	{"xml", "text/xml; charset=utf-8"},
	{"yaml", "application/yaml"},
	{"yml", "application/yaml"},
	{"zip", "application/zip"},
	{NULL, NULL},
};

const char *envd_media_type(const char *name)
{
	const char *dot = strrchr(name, '.');

	for (unsigned i = 0; dot && media_types[i].extension; i++)
		if (strcasecmp(dot + 1, media_types[i].extension) == 0)
			return media_types[i].type;
	return "application/octet-stream";
}

/* --- Content-Disposition --- */

static bool is_ascii(const char *s)
{
	for (; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			return false;
	return true;
}

static void quote(const char *name, char *p, const char *end)
{
	*p++ = '"';
	for (; *name && p + 3 < end; name++) {
		if (*name == '"' || *name == '\\')
			*p++ = '\\';
		*p++ = *name;
	}
	*p++ = '"';
	*p = '\0';
}

static void percent_encode(const char *name, char *p, const char *end)
{
	for (; *name && p + 4 < end; name++) {
		unsigned char c = (unsigned char)*name;

		if (isalnum(c) && c < 0x80)
			*p++ = (char)c;
		else if (c && strchr("!#$&+-.^_`|~", c))
			*p++ = (char)c;
		else
			p += snprintf(p, 4, "%%%02X", c);
	}
	*p = '\0';
}

void envd_disposition(const char *name, char out[ENVD_DISPOSITION_BYTES])
{
	const char *end = out + ENVD_DISPOSITION_BYTES;

	if (http_is_token(name, strlen(name)) && strlen(name) < 1024) {
		(void)sprintf(out, "inline; filename=%s", name); /* fits */
	} else if (is_ascii(name)) {
		strcpy(out, "inline; filename=");
		quote(name, out + strlen(out), end);
	} else {
		strcpy(out, "inline; filename*=utf-8''");
		percent_encode(name, out + strlen(out), end);
	}
}

/* --- conditions --- */

bool envd_download_is_conditional(const struct http_head *head)
{
	static const char *const names[] = {"range", "if-match", "if-none-match",
		"if-modified-since", "if-unmodified-since", NULL};

	for (unsigned i = 0; names[i]; i++)
		if (http_header_get(&head->headers, names[i]))
			return true;
	return strcmp(head->method, "HEAD") == 0;
}

/* Whether a header `name` lists this entity tag, or "*". Our tags are all weak: they are made from
 * size and time. */
static bool lists_etag(const struct http_headers *h, const char *name, const char *etag)
{
	const struct http_header *f;
	unsigned index = 0;

	while ((f = http_header_each(h, name, &index))) {
		const char *p = f->value, *item;
		size_t n;

		while (http_list_next(&p, &item, &n)) {
			if (n > 2 && strncmp(item, "W/", 2) == 0) {
				item += 2;
				n -= 2;
			}
			if ((n == 1 && *item == '*') ||
				(n == strlen(etag) && memcmp(item, etag, n) == 0))
				return true;
		}
	}
	return false;
}

/* -1: no such header or no date; otherwise whether the file is newer than that date. */
static int newer_than(const struct http_headers *h, const char *name, time_t modified)
{
	const char *value = http_header_get(h, name);
	time_t t;

	if (!value || http_date_parse(value, &t) < 0)
		return -1;
	return modified > t;
}

/* RFC 9110 13.2.2. Returns 0 if the request is to be performed. */
static unsigned check_conditions(
	const struct http_headers *h, const struct envd_download *d, time_t modified)
{
	if (http_header_get(h, "if-match")) {
		if (!lists_etag(h, "if-match", d->etag))
			return 412;
	} else if (newer_than(h, "if-unmodified-since", modified) == 1) {
		return 412;
	}
	if (http_header_get(h, "if-none-match"))
		return lists_etag(h, "if-none-match", d->etag) ? 304 : 0;
	return newer_than(h, "if-modified-since", modified) == 0 ? 304 : 0;
}

static bool range_applies(
	const struct http_headers *h, const struct envd_download *d, time_t modified)
{
	const char *value = http_header_get(h, "if-range");
	time_t t;

	if (!value)
		return true;
	if (value[0] == '"')
		return strcmp(value, d->etag) == 0;
	return http_date_parse(value, &t) == 0 && t == modified;
}

/* --- the plan --- */

static void add_field(struct envd_download *d, const char *name, const char *value)
{
	d->fields[d->field_count++] = (struct http_field){name, value};
}

static void plan_range(const struct http_head *head, uint64_t size, struct envd_download *d)
{
	const char *value = http_header_get(&head->headers, "range");
	int r = value ? http_range(value, size, &d->offset, &d->length) : -ENOENT;

	if (r == -ERANGE) {
		d->status = 416;
		d->length = 0;
		(void)snprintf(d->range, sizeof(d->range), "bytes */%llu",
			(unsigned long long)size); /* fits */
	} else if (r == 0) {
		d->status = 206;
		(void)snprintf(d->range, sizeof(d->range), "bytes %llu-%llu/%llu",
			(unsigned long long)d->offset,
			(unsigned long long)(d->offset + d->length - 1),
			(unsigned long long)size); /* fits */
	}
	if (d->range[0])
		add_field(d, "Content-Range", d->range);
}

static void plan_validators(
	const struct agent_entry *entry, time_t modified, struct envd_download *d)
{
	http_date_format(modified, d->modified);
	(void)snprintf(d->etag, sizeof(d->etag), "\"%llx-%llx\"",
		(unsigned long long)entry->mtime_ns, (unsigned long long)entry->size); /* fits */
	add_field(d, "Vary", "Accept-Encoding");
	add_field(d, "Last-Modified", d->modified);
	add_field(d, "ETag", d->etag);
	add_field(d, "Accept-Ranges", "bytes");
}

void envd_download_plan(
	const struct http_head *head, const struct agent_entry *entry, struct envd_download *ret)
{
	const int64_t second = (int64_t)NS_PER_S;
	time_t modified = (time_t)(entry->mtime_ns / second - (entry->mtime_ns % second < 0));
	const char *name = envd_base_name(entry->path);

	memset(ret, 0, sizeof(*ret));
	plan_validators(entry, modified, ret);
	if (http_encoding_weight(&head->headers, "identity") == 0) {
		ret->status = 406;
		return;
	}
	ret->status = check_conditions(&head->headers, ret, modified);
	if (ret->status)
		return;
	ret->status = 200;
	ret->length = entry->size;
	ret->content_type = envd_media_type(name);
	envd_disposition(name, ret->disposition);
	add_field(ret, "Content-Disposition", ret->disposition);
	if (range_applies(&head->headers, ret, modified))
		plan_range(head, entry->size, ret);
}
