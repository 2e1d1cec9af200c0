/* The body of an upload, as one file or as parts, compressed or not; and X-Metadata headers.
 *
 * The first byte: the kind of body, whether the query names a path, the size of the pieces. What is
 * told must not depend on how the body is cut, nor on its being compressed, and must follow the
 * grammar of envd_upload.h. */
#include "fuzz.h"

#include <zlib.h>

#include "envd/envd_entry.h"
#include "envd/envd_upload.h"

enum { PARTS = 0x01, GZIP = 0x02, PATH = 0x04, STORY_MAX = 1 << 22, HEADERS = 16 };

/* FILE DATA* FILE_END, and what was told so far. */
struct listener {
	struct buf story;
	bool open, over, failed;
};

static void hear(struct listener *l, enum envd_upload_event event, const struct envd_upload *u,
	const struct envd_error *e)
{
	const uint8_t *data;
	size_t n;

	check(!l->over);
	switch (event) {
	case ENVD_UPLOAD_FILE:
		check(!l->open && envd_upload_path(u)[0]);
		l->open = true;
		(void)buf_printf(&l->story, "<file %s>", envd_upload_path(u));
		break;
	case ENVD_UPLOAD_DATA:
		data = envd_upload_data(u, &n);
		check(l->open && n > 0);
		(void)buf_add(&l->story, data, n);
		break;
	case ENVD_UPLOAD_FILE_END:
		check(l->open);
		l->open = false;
		(void)buf_printf(&l->story, "<file end>");
		break;
	case ENVD_UPLOAD_END:
		check(!l->open);
		l->over = true;
		(void)buf_printf(&l->story, "<end>");
		break;
	default:
		check(event == ENVD_UPLOAD_ERROR && e->message[0] && e->status >= 400);
		l->over = l->failed = true;
	}
}

static void feed(struct listener *l, struct envd_upload *u, const uint8_t *data, size_t n, bool end)
{
	enum envd_upload_event event;
	struct envd_error e;
	size_t used;

	while (!l->over &&
		(event = envd_upload_next(u, data, n, end, &used, &e)) != ENVD_UPLOAD_MORE) {
		check(used <= n);
		data += used;
		n -= used;
		hear(l, event, u, &e);
	}
	check(l->over || (!end && used == n));
}

static void run(uint8_t kind, const uint8_t *data, size_t size, size_t piece, struct listener *l)
{
	const struct http_header items[] = {{"Content-Type",
						    kind & PARTS ? "multipart/form-data; boundary=b"
								 : "application/octet-stream",
						    12, 0},
		{"Content-Encoding", kind & GZIP ? "gzip" : "identity", 16, 0}};
	const struct http_headers headers = {items, 2};
	struct envd_upload *u = NULL;
	struct envd_error e;

	*l = (struct listener){.story = BUF_INIT(STORY_MAX)};
	if (envd_upload_new(&headers, kind & PATH ? "a b/c" : NULL, &u, &e) < 0) {
		check(e.message[0] && !(kind & (PATH | PARTS)));
		l->failed = true;
		return;
	}
	for (size_t at = 0; at < size && !l->over; at += piece)
		feed(l, u, data + at, size - at < piece ? size - at : piece, false);
	feed(l, u, (const uint8_t *)"", 0, true);
	check(l->over);
	envd_upload_free(u);
}

/* A broken one may have told more or less of what came before, but not something else. */
static void compare(const struct listener *a, const struct listener *b)
{
	size_t n =
		buf_len(&a->story) < buf_len(&b->story) ? buf_len(&a->story) : buf_len(&b->story);

	check(a->failed == b->failed);
	check(a->failed || same(&a->story, &b->story));
	check(!n || memcmp(buf_head(&a->story), buf_head(&b->story), n) == 0);
}

static size_t compress_it(const uint8_t *data, size_t size, uint8_t *out, size_t cap)
{
	z_stream z = {0};

	check(deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_in = (uint8_t *)(uintptr_t)data; /* zlib does not write to it */
	z.avail_in = (uInt)size;
	z.next_out = out;
	z.avail_out = (uInt)cap;
	check(deflate(&z, Z_FINISH) == Z_STREAM_END);
	check(deflateEnd(&z) == Z_OK);
	return z.total_out;
}

static void try_body(uint8_t kind, const uint8_t *data, size_t size, size_t piece)
{
	size_t cap = size + 1024;
	struct listener whole, pieces, packed;
	uint8_t *gz = malloc(cap);

	check(gz);
	run(kind, data, size, SIZE_MAX / 2, &whole);
	run(kind, data, size, piece, &pieces);
	compare(&whole, &pieces);
	if (!(kind & GZIP)) {
		size_t n = compress_it(data, size, gz, cap);

		run(kind | GZIP, gz, n, piece, &packed);
		compare(&whole, &packed);
		buf_done(&packed.story);
	}
	buf_done(&whole.story);
	buf_done(&pieces.story);
	free(gz);
}

/* Lines "key:value" as the headers of an upload. */
static unsigned split(char *text, char names[HEADERS][600], struct http_header items[HEADERS])
{
	unsigned n = 0;
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line && n < HEADERS;
		line = strtok_r(NULL, "\n", &save)) {
		char *colon = strchr(line, ':');

		if (colon)
			*colon = '\0';
		(void)snprintf(names[n], 600, "X-Metadata-%s", line); /* cut is fine */
		items[n] = (struct http_header){names[n], colon ? colon + 1 : "", 0, 0};
		items[n].name_len = strlen(names[n]);
		items[n].value_len = strlen(items[n].value);
		n++;
	}
	return n;
}

static void try_metadata(const uint8_t *data, size_t size)
{
	static char names[HEADERS][600];
	struct http_header items[HEADERS];
	char *text = text_of(data, size);
	const struct http_headers headers = {items, split(text, names, items)};
	struct envd_metadata m;
	struct envd_error e;

	if (envd_metadata_parse(&headers, &m, &e) == 0) {
		check(m.count % 2 == 0 && m.count / 2 <= headers.count);
		for (unsigned i = 0; i < m.count; i += 2)
			check(strncmp(m.strings[i], ENVD_METADATA_PREFIX,
				      strlen(ENVD_METADATA_PREFIX)) == 0);
	} else {
		check(e.status == 400 && e.message[0]);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	try_body(data[0] & (PARTS | GZIP | PATH), data + 1, size - 1, 1 + (data[0] >> 3) % 32);
	try_metadata(data + 1, size - 1);
	return 0;
}
