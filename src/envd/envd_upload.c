#include "envd/envd_upload.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "envd/envd_entry.h"
#include "envd/envd_words.h"
#include "proto/multipart.h"

enum { PLAIN_MAX = 64 * 1024 };

/* For a body without parts. START: FILE is due. OPEN: data passes. CLOSED: END is due. */
enum raw_state { RAW_START, RAW_OPEN, RAW_CLOSED };

/* For a body with parts: the kind of the current one. NONE: between parts. */
enum part_state { PART_NONE, PART_SKIPPED, PART_FILE };

struct envd_upload {
	struct multipart *multipart; /* NULL: the body is one file */
	enum raw_state raw;
	enum part_state part;
	char *path;	    /* from the query, or NULL */
	const char *target; /* of the current file */
	char **seen;	    /* targets of earlier files */
	unsigned seen_count;
	const uint8_t *data;
	size_t data_len;

	bool gzip;
	bool inflating;	 /* z is initialised */
	bool gzip_ended; /* a member has ended; another may follow */
	z_stream z;
	uint8_t *plain; /* decompressed, PLAIN_MAX */
	size_t plain_pos, plain_len;
};

/* --- opening --- */

static int open_coding(
	struct envd_upload *u, const struct http_headers *headers, struct envd_error *e)
{
	const char *coding = http_header_get(headers, "content-encoding");

	if (!coding || !coding[0] || strcasecmp(coding, "identity") == 0)
		return 0;
	if (strcasecmp(coding, "gzip") != 0 && strcasecmp(coding, "x-gzip") != 0)
		return envd_fail(e, CONNECT_INVALID_ARGUMENT,
			"the Content-Encoding \"%s\" is not supported: send gzip or none", coding);
	u->gzip = true;
	u->plain = malloc(PLAIN_MAX);
	/* 16: expects a gzip header */
	if (!u->plain || inflateInit2(&u->z, 16 + MAX_WBITS) != Z_OK)
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	u->inflating = true;
	return 0;
}

static int open_type(
	struct envd_upload *u, const struct http_headers *headers, struct envd_error *e)
{
	const char *type = http_header_get(headers, "content-type");
	int r;

	if (http_content_type_is(type, "application/octet-stream")) {
		if (u->path)
			return 0;
		return envd_fail(e, CONNECT_INVALID_ARGUMENT,
			"path query parameter is required for raw body upload");
	}
	if (!http_content_type_is(type, "multipart/form-data"))
		return envd_fail(e, CONNECT_INVALID_ARGUMENT,
			"unsupported content type: %s, expected multipart/form-data or "
			"application/octet-stream",
			type ? type : "");
	r = multipart_new(type, 0, &u->multipart);
	if (r == -ENOMEM)
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	return r < 0 ? envd_fail(e, CONNECT_INVALID_ARGUMENT, "the multipart boundary is unusable")
		     : 0;
}

static int upload_new(const struct http_headers *headers, const char *path, bool raw,
	struct envd_upload **ret, struct envd_error *e)
{
	struct envd_upload *u = calloc(1, sizeof(*u));
	int r = u ? 0 : -ENOMEM;

	if (u && path && path[0]) {
		u->path = strdup(path);
		r = u->path ? 0 : -ENOMEM;
	}
	if (r < 0)
		r = envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	else if (!raw)
		r = open_type(u, headers, e);
	if (r == 0)
		r = open_coding(u, headers, e);
	if (r < 0)
		envd_upload_free(u);
	else
		*ret = u;
	return r;
}

int envd_upload_new(const struct http_headers *headers, const char *path, struct envd_upload **ret,
	struct envd_error *e)
{
	return upload_new(headers, path, false, ret, e);
}

int envd_upload_raw(const struct http_headers *headers, const char *path, struct envd_upload **ret,
	struct envd_error *e)
{
	return upload_new(headers, path, true, ret, e);
}

void envd_upload_free(struct envd_upload *u)
{
	if (!u)
		return;
	if (u->inflating)
		(void)inflateEnd(&u->z); /* only complains if the stream has not ended */
	multipart_free(u->multipart);
	for (unsigned i = 0; i < u->seen_count; i++)
		free(u->seen[i]);
	free(u->seen);
	free(u->plain);
	free(u->path);
	free(u);
}

/* --- events of one file --- */

static enum envd_upload_event next_raw(
	struct envd_upload *u, const uint8_t *data, size_t n, bool end, size_t *consumed)
{
	*consumed = 0;
	switch (u->raw) {
	case RAW_START:
		if (!n && !end)
			return ENVD_UPLOAD_MORE; /* nothing is overwritten before data comes */
		u->raw = RAW_OPEN;
		u->target = u->path;
		return ENVD_UPLOAD_FILE;
	case RAW_OPEN:
		if (n) {
			u->data = data;
			u->data_len = *consumed = n;
			return ENVD_UPLOAD_DATA;
		}
		if (!end)
			return ENVD_UPLOAD_MORE;
		u->raw = RAW_CLOSED;
		return ENVD_UPLOAD_FILE_END;
	default:
		*consumed = n;
		return end ? ENVD_UPLOAD_END : ENVD_UPLOAD_MORE;
	}
}

/* --- events of parts --- */

/* Two parts for one file would silently lose the first. The caller finds two spellings of one path,
 * since it learns how they resolve. */
static int remember_target(struct envd_upload *u, struct envd_error *e)
{
	char **grown;

	for (unsigned i = 0; i < u->seen_count; i++)
		if (strcmp(u->seen[i], u->target) == 0)
			return envd_fail(
				e, CONNECT_INVALID_ARGUMENT, ENVD_WORDS_TWO_PARTS, u->target);
	grown = realloc(u->seen, (u->seen_count + 1) * sizeof(u->seen[0]));
	if (!grown)
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	u->seen = grown;
	grown[u->seen_count] = strdup(u->target);
	if (!grown[u->seen_count])
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
	u->seen_count++;
	return 0;
}

/* Returns 1 for a file, 0 for a part to skip, or -EINVAL. */
static int begin_part(struct envd_upload *u, struct envd_error *e)
{
	const struct multipart_part *part = multipart_part(u->multipart);

	if (!part->name || strcmp(part->name, "file") != 0) {
		u->part = PART_SKIPPED;
		return 0;
	}
	u->part = PART_FILE;
	u->target = u->path ? u->path : part->filename;
	if (!u->target || !u->target[0])
		return envd_fail(e, CONNECT_INVALID_ARGUMENT,
			"an upload needs the query parameter path or a file name in its part");
	return remember_target(u, e) < 0 ? -EINVAL : 1;
}

/* Converts a parser's event to the file's; MORE if the caller just continues. */
static enum envd_upload_event part_event(
	struct envd_upload *u, enum multipart_event event, struct envd_error *e)
{
	bool file = u->part == PART_FILE;
	int r;

	switch (event) {
	case MULTIPART_PART:
		r = begin_part(u, e);
		return r < 0 ? ENVD_UPLOAD_ERROR : r ? ENVD_UPLOAD_FILE : ENVD_UPLOAD_MORE;
	case MULTIPART_DATA:
		u->data = multipart_data(u->multipart, &u->data_len);
		return file ? ENVD_UPLOAD_DATA : ENVD_UPLOAD_MORE;
	case MULTIPART_PART_END:
		u->part = PART_NONE;
		return file ? ENVD_UPLOAD_FILE_END : ENVD_UPLOAD_MORE;
	default:
		(void)envd_fail(e, CONNECT_INVALID_ARGUMENT, "%s", multipart_reason(u->multipart));
		return ENVD_UPLOAD_ERROR;
	}
}

static enum envd_upload_event next_part(struct envd_upload *u, const uint8_t *data, size_t n,
	bool end, size_t *consumed, struct envd_error *e)
{
	*consumed = 0;
	for (;;) {
		enum envd_upload_event mine;
		enum multipart_event event;
		size_t used;

		event = multipart_next(u->multipart, data + *consumed, n - *consumed, &used);
		*consumed += used;
		if (event == MULTIPART_MORE && end)
			event = multipart_finish(u->multipart);
		else if (event == MULTIPART_END)
			continue; /* what follows is ignored, and consumed by the next call */
		if (event == MULTIPART_MORE)
			return ENVD_UPLOAD_MORE;
		if (event == MULTIPART_END)
			return ENVD_UPLOAD_END;
		mine = part_event(u, event, e);
		if (mine != ENVD_UPLOAD_MORE)
			return mine;
	}
}

static enum envd_upload_event next_plain(struct envd_upload *u, const uint8_t *data, size_t n,
	bool end, size_t *consumed, struct envd_error *e)
{
	return u->multipart ? next_part(u, data, n, end, consumed, e)
			    : next_raw(u, data, n, end, consumed);
}

/* --- gzip --- */

/* Decompresses into the empty buffer. Several members may follow each other (RFC 1952 2.2). */
static int inflate_some(struct envd_upload *u, const uint8_t *data, size_t n, size_t *consumed)
{
	size_t part = n < UINT32_MAX ? n : UINT32_MAX;
	int r;

	if (u->gzip_ended && n && inflateReset(&u->z) != Z_OK)
		return -EINVAL;
	if (n)
		u->gzip_ended = false;
	u->z.next_in = (uint8_t *)(uintptr_t)data; /* zlib does not write to it */
	u->z.avail_in = (uInt)part;
	u->z.next_out = u->plain;
	u->z.avail_out = PLAIN_MAX;
	r = inflate(&u->z, Z_NO_FLUSH);
	*consumed = part - u->z.avail_in;
	u->plain_pos = 0;
	u->plain_len = PLAIN_MAX - u->z.avail_out;
	if (r == Z_STREAM_END)
		u->gzip_ended = true;
	return r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR ? 0 : -EINVAL;
}

static enum envd_upload_event gzip_error(struct envd_error *e, const char *message)
{
	(void)envd_fail(e, CONNECT_INVALID_ARGUMENT, "%s", message);
	return ENVD_UPLOAD_ERROR;
}

static enum envd_upload_event next_gzip(struct envd_upload *u, const uint8_t *data, size_t n,
	bool end, size_t *consumed, struct envd_error *e)
{
	*consumed = 0;
	for (;;) {
		size_t used = 0, left = u->plain_len - u->plain_pos;
		bool drained = !left && *consumed == n;
		enum envd_upload_event event;

		/* inflate may hold back output, so an empty input is tried, too */
		if (!left && (!u->gzip_ended || *consumed < n)) {
			if (inflate_some(u, data + *consumed, n - *consumed, &used) < 0)
				return gzip_error(e, "the body is no valid gzip stream");
			*consumed += used;
			left = u->plain_len;
			if (left || used)
				continue;
		}
		if (drained && end && !u->gzip_ended)
			return gzip_error(e, "the gzip stream of the body is cut off");
		event = next_plain(u, u->plain + u->plain_pos, left, drained && end, &used, e);
		u->plain_pos += used;
		if (event != ENVD_UPLOAD_MORE || drained)
			return event;
	}
}

enum envd_upload_event envd_upload_next(struct envd_upload *u, const void *data, size_t n, bool end,
	size_t *consumed, struct envd_error *e)
{
	return u->gzip ? next_gzip(u, data, n, end, consumed, e)
		       : next_plain(u, data, n, end, consumed, e);
}

const char *envd_upload_path(const struct envd_upload *u)
{
	return u->target;
}

const uint8_t *envd_upload_data(const struct envd_upload *u, size_t *ret_n)
{
	*ret_n = u->data_len;
	return u->data;
}

/* --- X-Metadata-<key> --- */

static bool printable(const char *s)
{
	for (; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			return false;
	return true;
}

static bool has_metadata(const struct envd_metadata *m, const char *name)
{
	for (unsigned i = 0; i < m->count; i += 2)
		if (strcmp(m->strings[i], name) == 0)
			return true;
	return false;
}

/* Appends "user.e2b.<key>" in lower case, then the value, each with its NUL. */
static void add_metadata(struct envd_metadata *m, size_t *used, const char *key, const char *value)
{
	char *name = m->storage + *used, *p = name + strlen(ENVD_METADATA_PREFIX);

	memcpy(name, ENVD_METADATA_PREFIX, strlen(ENVD_METADATA_PREFIX));
	while (*key)
		*p++ = (char)tolower((unsigned char)*key++);
	*p++ = '\0';
	if (has_metadata(m, name))
		return;
	m->strings[m->count++] = name;
	m->strings[m->count++] = p;
	memcpy(p, value, strlen(value) + 1);
	*used = (size_t)(p - m->storage) + strlen(value) + 1;
}

static int check_metadata(const char *key, const char *value, size_t *total, struct envd_error *e)
{
	*total += strlen(key) + strlen(value);
	if (!key[0] || strlen(key) > ENVD_METADATA_KEY_MAX)
		return envd_fail(e, CONNECT_INVALID_ARGUMENT,
			"a metadata key has 1 to %d characters", ENVD_METADATA_KEY_MAX);
	if (!printable(key) || !printable(value))
		return envd_fail(e, CONNECT_INVALID_ARGUMENT,
			"metadata keys and values are printable ASCII");
	if (*total > ENVD_METADATA_BYTES_MAX)
		return envd_fail(e, CONNECT_INVALID_ARGUMENT,
			"a file has at most %d bytes of metadata", ENVD_METADATA_BYTES_MAX);
	return 0;
}

int envd_metadata_parse(
	const struct http_headers *headers, struct envd_metadata *ret, struct envd_error *e)
{
	static const char prefix[] = "x-metadata-";
	size_t total = 0, used = 0;

	ret->count = 0;
	for (unsigned i = 0; i < headers->count; i++) {
		const char *key = headers->items[i].name + strlen(prefix);

		if (strncasecmp(headers->items[i].name, prefix, strlen(prefix)) != 0)
			continue;
		if (check_metadata(key, headers->items[i].value, &total, e) < 0)
			return -EINVAL;
		if (ret->count >= ARRAY_SIZE(ret->strings))
			return envd_fail(e, CONNECT_INVALID_ARGUMENT,
				"a file has at most %d metadata keys", ENVD_METADATA_MAX);
		add_metadata(ret, &used, key, headers->items[i].value);
	}
	return 0;
}
