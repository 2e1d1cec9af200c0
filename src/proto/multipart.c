#include "proto/multipart.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "proto/http_headers.h"
#include "proto/uri.h"

enum { PADDING_MAX = 64 }; /* blanks after a boundary */

/* PREAMBLE looks for the first boundary, DATA for the next one. After a boundary TAIL takes blanks
 * up to the CR, TAIL_LF the LF, and TAIL_DASH the second dash of the last boundary. HEADERS gathers
 * lines up to the empty one. ENDED ignores all further bytes. */
enum multipart_state {
	MULTIPART_STATE_PREAMBLE,
	MULTIPART_STATE_TAIL,
	MULTIPART_STATE_TAIL_LF,
	MULTIPART_STATE_TAIL_DASH,
	MULTIPART_STATE_HEADERS,
	MULTIPART_STATE_DATA,
	MULTIPART_STATE_ENDED,
	MULTIPART_STATE_BROKEN,
};

struct multipart {
	enum multipart_state state;
	char delimiter[4 + MULTIPART_BOUNDARY_MAX + 1]; /* CRLF, two dashes, boundary */
	size_t delimiter_len;
	size_t matched; /* bytes of the delimiter consumed but not handed out */
	size_t skipped; /* bytes of the preamble, or blanks after a boundary */
	unsigned parts, parts_max;
	struct buf headers;
	size_t line_start;
	struct multipart_part part;
	const uint8_t *data;
	size_t data_len;
	const char *reason;
};

int multipart_new(const char *content_type, unsigned parts_max, struct multipart **ret)
{
	char boundary[MULTIPART_BOUNDARY_MAX + 1];
	struct multipart *m;
	int n;

	if (!http_content_type_is(content_type, "multipart/form-data"))
		return -EINVAL;
	n = http_parameter(content_type, "boundary", boundary, sizeof(boundary));
	if (n <= 0 || boundary[n - 1] == ' ')
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	memcpy(m->delimiter, "\r\n--", 4);
	memcpy(m->delimiter + 4, boundary, (size_t)n);
	m->delimiter_len = 4 + (size_t)n;
	m->matched = 2; /* the first boundary may be at the very start, without a CRLF */
	m->parts_max = parts_max ? parts_max : MULTIPART_PARTS_DEFAULT;
	buf_init(&m->headers, MULTIPART_HEADERS_MAX + 1);
	*ret = m;
	return 0;
}

void multipart_free(struct multipart *m)
{
	if (!m)
		return;
	buf_done(&m->headers);
	free(m);
}

static enum multipart_event fail(struct multipart *m, const char *reason)
{
	m->state = MULTIPART_STATE_BROKEN;
	m->reason = reason;
	return MULTIPART_ERROR;
}

/* ---- a part's headers ---- */

/* Unescapes the value at *cursor in place and terminates it. As in the reference, a backslash
 * counts only before characters that need it: some clients do not escape it in file names. */
static char *take_value(char **cursor)
{
	static const char specials[] = "()<>@,;:\\\"/[]?=";
	char *p = *cursor, *start, *out, end;

	if (*p != '"') {
		start = p;
		p += strcspn(p, "; \t");
		end = *p;
		*p = '\0';
		*cursor = p + (end != '\0');
		return start;
	}
	start = out = ++p;
	while (*p && *p != '"') {
		if (*p == '\\' && p[1] && strchr(specials, p[1]))
			p++;
		*out++ = *p++;
	}
	if (!*p)
		return NULL;
	*out = '\0';
	*cursor = p + 1;
	return start;
}

/* Decodes UTF-8''percent-encoded (RFC 8187) in place; NULL for another character set. */
static char *decode_extended(char *value)
{
	char *language;

	if (strncasecmp(value, "UTF-8'", 6) != 0)
		return NULL;
	language = strchr(value + 6, '\'');
	if (!language)
		return NULL;
	value = language + 1;
	return uri_decode(value, strlen(value), false, value, strlen(value) + 1) < 0 ? NULL : value;
}

static bool read_disposition(struct multipart *m, char *value)
{
	char *extended = NULL, *p = value + strcspn(value, ";"), *key, *v;

	for (;;) {
		p += strspn(p, "; \t");
		if (!*p)
			break;
		key = p;
		p += strcspn(p, "=; \t");
		if (*p != '=')
			return false;
		*p++ = '\0';
		v = take_value(&p);
		if (!v)
			return false;
		if (strcasecmp(key, "name") == 0)
			m->part.name = v;
		else if (strcasecmp(key, "filename") == 0)
			m->part.filename = v;
		else if (strcasecmp(key, "filename*") == 0)
			extended = decode_extended(v);
	}
	if (extended)
		m->part.filename = extended;
	return true;
}

static bool read_header(struct multipart *m, char *line)
{
	char *colon = strchr(line, ':'), *value;
	size_t n;

	if (!colon || !http_is_token(line, (size_t)(colon - line)))
		return false;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	for (n = strlen(value); n && strchr(" \t", value[n - 1]);)
		value[--n] = '\0';
	if (strcasecmp(line, "content-disposition") == 0)
		return read_disposition(m, value);
	if (strcasecmp(line, "content-type") == 0)
		m->part.content_type = value;
	return true;
}

/* Parses the gathered lines, each of which ends in CRLF. */
static enum multipart_event read_headers(struct multipart *m)
{
	char *line = (char *)m->headers.data + m->headers.start;
	char *end = line + buf_len(&m->headers);

	m->part = (struct multipart_part){0};
	if (++m->parts > m->parts_max)
		return fail(m, "the form has too many parts");
	while (line < end) {
		char *cr = memchr(line, '\r', (size_t)(end - line));

		if (cr == line)
			break; /* the empty line */
		*cr = '\0';
		if (!read_header(m, line))
			return fail(m, "a part has a malformed header");
		line = cr + 2;
	}
	m->state = MULTIPART_STATE_DATA;
	m->matched = 0;
	return MULTIPART_PART;
}

static enum multipart_event take_headers(
	struct multipart *m, const uint8_t *p, size_t n, size_t *consumed)
{
	const uint8_t *lf = memchr(p, '\n', n);
	size_t take = lf ? (size_t)(lf - p) + 1 : n, len;
	const uint8_t *line;

	*consumed = take;
	/* other control characters may be part of a file name */
	if (memchr(p, '\0', take))
		return fail(m, "a part's headers hold a NUL");
	if (buf_len(&m->headers) + take > MULTIPART_HEADERS_MAX)
		return fail(m, "a part's headers are too large");
	if (buf_add(&m->headers, p, take) < 0)
		return fail(m, "out of memory");
	if (!lf)
		return MULTIPART_MORE;
	line = buf_head(&m->headers) + m->line_start;
	len = buf_len(&m->headers) - m->line_start;
	if (len < 2 || memchr(line, '\r', len) != line + len - 2)
		return fail(m, "a line of a part's headers does not end in CRLF");
	m->line_start += len;
	return len == 2 ? read_headers(m) : MULTIPART_MORE;
}

/* ---- boundaries ---- */

static enum multipart_event take_tail(struct multipart *m, uint8_t c)
{
	if (m->state == MULTIPART_STATE_TAIL_DASH) {
		m->state = MULTIPART_STATE_ENDED;
		return c == '-' ? MULTIPART_END : fail(m, "a boundary is malformed");
	}
	if (m->state == MULTIPART_STATE_TAIL_LF) {
		m->state = MULTIPART_STATE_HEADERS;
		m->line_start = 0;
		buf_clear(&m->headers);
		return c == '\n' ? MULTIPART_MORE : fail(m, "a boundary is malformed");
	}
	if (c == '\r')
		m->state = MULTIPART_STATE_TAIL_LF;
	else if (c == '-' && !m->skipped)
		m->state = MULTIPART_STATE_TAIL_DASH;
	else if ((c != ' ' && c != '\t') || ++m->skipped > PADDING_MAX)
		return fail(m, "a boundary is malformed");
	return MULTIPART_MORE;
}

static enum multipart_event found_boundary(struct multipart *m)
{
	bool in_part = m->state == MULTIPART_STATE_DATA;

	m->state = MULTIPART_STATE_TAIL;
	m->matched = m->skipped = 0;
	return in_part ? MULTIPART_PART_END : MULTIPART_MORE;
}

static enum multipart_event hand_out(struct multipart *m, const void *data, size_t n)
{
	if (m->state == MULTIPART_STATE_PREAMBLE) {
		m->skipped += n;
		if (m->skipped > MULTIPART_PREAMBLE_MAX)
			return fail(m, "the form does not begin with its boundary");
		return MULTIPART_MORE;
	}
	m->data = data;
	m->data_len = n;
	return MULTIPART_DATA;
}

/* Continues to compare with the delimiter. Only its first character is a CR, so a failed match
 * contains no other start of a delimiter. The matched bytes are then data, handed out from the
 * delimiter itself. */
static enum multipart_event take_candidate(
	struct multipart *m, const uint8_t *p, size_t n, size_t *consumed)
{
	size_t i = 0, held;

	while (i < n && m->matched < m->delimiter_len &&
		p[i] == (uint8_t)m->delimiter[m->matched]) {
		i++;
		m->matched++;
	}
	*consumed = i;
	if (m->matched == m->delimiter_len)
		return found_boundary(m);
	if (i == n)
		return MULTIPART_MORE;
	held = m->matched;
	m->matched = 0;
	return hand_out(m, m->delimiter, held);
}

/* Counts bytes at the front that cannot belong to a delimiter. */
static size_t plain_len(const struct multipart *m, const uint8_t *p, size_t n)
{
	const uint8_t *cr = p, *end = p + n;

	while ((cr = memchr(cr, '\r', (size_t)(end - cr)))) {
		size_t k = 1;

		while (cr + k < end && k < m->delimiter_len && cr[k] == (uint8_t)m->delimiter[k])
			k++;
		if (cr + k == end || k == m->delimiter_len)
			return (size_t)(cr - p);
		cr += k;
	}
	return n;
}

static enum multipart_event take_data(
	struct multipart *m, const uint8_t *p, size_t n, size_t *consumed)
{
	size_t plain;

	if (m->matched)
		return take_candidate(m, p, n, consumed);
	plain = plain_len(m, p, n);
	if (!plain)
		return take_candidate(m, p, n, consumed);
	*consumed = plain;
	return hand_out(m, p, plain);
}

static enum multipart_event step(struct multipart *m, const uint8_t *p, size_t n, size_t *consumed)
{
	switch (m->state) {
	case MULTIPART_STATE_PREAMBLE:
	case MULTIPART_STATE_DATA:
		return take_data(m, p, n, consumed);
	case MULTIPART_STATE_HEADERS:
		return take_headers(m, p, n, consumed);
	case MULTIPART_STATE_ENDED:
		*consumed = n;
		return MULTIPART_MORE;
	case MULTIPART_STATE_BROKEN:
		return MULTIPART_ERROR;
	default:
		*consumed = 1;
		return take_tail(m, *p);
	}
}

enum multipart_event multipart_next(
	struct multipart *m, const void *data, size_t n, size_t *consumed)
{
	enum multipart_event event = MULTIPART_MORE;
	const uint8_t *p = data;
	size_t i = 0;

	if (m->state == MULTIPART_STATE_BROKEN)
		event = MULTIPART_ERROR;
	while (i < n && event == MULTIPART_MORE) {
		size_t taken = 0;

		event = step(m, p + i, n - i, &taken);
		i += taken;
	}
	*consumed = i;
	return event;
}

const struct multipart_part *multipart_part(const struct multipart *m)
{
	return &m->part;
}

const uint8_t *multipart_data(const struct multipart *m, size_t *ret_n)
{
	*ret_n = m->data_len;
	return m->data;
}

enum multipart_event multipart_finish(struct multipart *m)
{
	if (m->state == MULTIPART_STATE_ENDED)
		return MULTIPART_END;
	if (m->state == MULTIPART_STATE_BROKEN)
		return MULTIPART_ERROR;
	return fail(m, "the form ends before its last boundary");
}

const char *multipart_reason(const struct multipart *m)
{
	return m->reason ? m->reason : "";
}
