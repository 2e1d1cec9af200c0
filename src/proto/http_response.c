#include "proto/http_response.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/http_headers.h"
#include "proto/json_text.h"
#include "proto/timestamp.h"

/* ---- writer ---- */

static void put(struct http_writer *w, const char *s, size_t n)
{
	if (!w->err)
		w->err = buf_add(w->out, s, n);
}

static void put_str(struct http_writer *w, const char *s)
{
	put(w, s, strlen(s));
}

static void refuse(struct http_writer *w)
{
	if (!w->err)
		w->err = -EINVAL;
}

/* Caches the date for a second: formatting it per answer would cost more than the rest of the
 * head. */
static const char *date_now(void)
{
	static _Thread_local time_t last = -1;
	static _Thread_local char text[HTTP_DATE_BYTES];
	time_t now = time(NULL);

	if (now != last) {
		http_date_format(now, text);
		last = now;
	}
	return text;
}

/* "" when unknown. */
static const char *reason_of(unsigned status)
{
	static const struct {
		unsigned status;
		const char *reason;
	} table[] = {
		{100, "Continue"},
		{101, "Switching Protocols"},
		{103, "Early Hints"},
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{206, "Partial Content"},
		{301, "Moved Permanently"},
		{302, "Found"},
		{303, "See Other"},
		{304, "Not Modified"},
		{307, "Temporary Redirect"},
		{308, "Permanent Redirect"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{406, "Not Acceptable"},
		{408, "Request Timeout"},
		{409, "Conflict"},
		{411, "Length Required"},
		{412, "Precondition Failed"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{416, "Range Not Satisfiable"},
		{417, "Expectation Failed"},
		{421, "Misdirected Request"},
		{422, "Unprocessable Content"},
		{426, "Upgrade Required"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{499, "Client Closed Request"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{505, "HTTP Version Not Supported"},
		{507, "Insufficient Storage"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].status == status)
			return table[i].reason;
	return "";
}

struct http_writer http_writer_status_line(struct buf *out, unsigned status)
{
	struct http_writer w = {.out = out, .mark = buf_len(out)};
	char line[20];

	if (status < 100 || status > 999)
		refuse(&w);
	(void)snprintf(line, sizeof(line), "HTTP/1.1 %03u ", status % 1000);
	put_str(&w, line);
	put_str(&w, reason_of(status));
	put_str(&w, "\r\n");
	return w;
}

void http_writer_date(struct http_writer *w)
{
	http_writer_header(w, "Date", date_now());
}

struct http_writer http_writer_response(struct buf *out, unsigned status)
{
	struct http_writer w = http_writer_status_line(out, status);

	if (status >= 200)
		http_writer_date(&w);
	return w;
}

static bool is_target(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++)
		if ((unsigned char)*s <= 0x20 || *s == 0x7f)
			return false;
	return true;
}

struct http_writer http_writer_request(struct buf *out, const char *method, const char *target)
{
	struct http_writer w = {.out = out, .mark = buf_len(out)};

	if (!http_is_token(method, strlen(method)) || !is_target(target))
		refuse(&w);
	put_str(&w, method);
	put_str(&w, " ");
	put_str(&w, target);
	put_str(&w, " HTTP/1.1\r\n");
	return w;
}

void http_writer_header_n(struct http_writer *w, const char *name, const char *value, size_t n)
{
	size_t name_len = strlen(name);

	if (!http_is_token(name, name_len) || !http_is_field_value(value, n))
		refuse(w);
	put(w, name, name_len);
	put(w, ": ", 2);
	put(w, value, n);
	put(w, "\r\n", 2);
}

void http_writer_header(struct http_writer *w, const char *name, const char *value)
{
	http_writer_header_n(w, name, value, strlen(value));
}

void http_writer_header_u64(struct http_writer *w, const char *name, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	http_writer_header(w, name, text);
}

/* Removes everything that was appended since the mark. */
static void roll_back(struct buf *out, size_t mark)
{
	out->end = out->start + mark;
}

int http_writer_finish(struct http_writer *w)
{
	put(w, "\r\n", 2);
	if (w->err)
		roll_back(w->out, w->mark);
	return w->err;
}

/* ---- whole answers ---- */

static bool has_no_body(unsigned status)
{
	return status < 200 || status == 204 || status == 304;
}

struct http_writer http_reply_begin(struct buf *out, const struct http_reply *reply)
{
	struct http_writer w = http_writer_response(out, reply->status);

	if (reply->content_type)
		http_writer_header(&w, "Content-Type", reply->content_type);
	if (reply->request_id)
		http_writer_header(&w, HTTP_REQUEST_ID, reply->request_id);
	for (size_t i = 0; i < reply->field_count; i++)
		http_writer_header(&w, reply->fields[i].name, reply->fields[i].value);
	if (reply->close)
		http_writer_header(&w, "Connection", "close");
	else if (reply->keep_alive_10)
		http_writer_header(&w, "Connection", "keep-alive");
	return w;
}

int http_reply(struct buf *out, const struct http_reply *reply)
{
	struct http_writer w = http_reply_begin(out, reply);
	bool no_body = has_no_body(reply->status);

	if (no_body && reply->len)
		refuse(&w);
	if (!no_body)
		http_writer_header_u64(&w, "Content-Length", reply->len);
	if (http_writer_finish(&w) < 0)
		return w.err;
	if (reply->head_only)
		return 0;
	w.err = buf_add(out, reply->body, reply->len);
	if (w.err)
		roll_back(out, w.mark);
	return w.err;
}

int http_reply_stream(struct buf *out, const struct http_reply *reply, unsigned http_minor)
{
	struct http_reply head = *reply;
	struct http_writer w;

	if (!http_minor) {
		head.close = true;
		head.keep_alive_10 = false;
	}
	w = http_reply_begin(out, &head);
	if (has_no_body(reply->status))
		refuse(&w);
	if (http_minor)
		http_writer_header(&w, "Transfer-Encoding", "chunked");
	return http_writer_finish(&w);
}

static int write_error(
	struct buf *json, unsigned status, const char *error_code, const char *message)
{
	int r = buf_printf(json, "{\"code\":%u,\"message\":", status);

	if (!r)
		r = json_text_string(json, message, strlen(message), JSON_TEXT_UTF8);
	if (!r && error_code) {
		r = buf_add_str(json, ",\"error_code\":");
		if (!r)
			r = json_text_string(json, error_code, strlen(error_code), JSON_TEXT_UTF8);
	}
	return r ? r : buf_add_u8(json, '}');
}

int http_reply_error(struct buf *out, const struct http_reply *reply, const char *error_code,
	const char *message)
{
	struct buf json = BUF_INIT(64 * 1024);
	struct http_reply whole = *reply;
	int r = write_error(&json, reply->status, error_code, message);

	whole.content_type = "application/json; charset=utf-8";
	whole.body = json.data ? buf_head(&json) : NULL;
	whole.len = buf_len(&json);
	if (!r)
		r = http_reply(out, &whole);
	buf_done(&json);
	return r;
}

int http_reply_continue(struct buf *out)
{
	return buf_add_str(out, "HTTP/1.1 100 Continue\r\n\r\n");
}

/* ---- chunks ---- */

/* Space for a size: eight hexadecimal digits and the line end. Leading zeros are legal. */
enum { CHUNK_SIZE_BYTES = 10 };

static void put_chunk_size(uint8_t *p, size_t n)
{
	static const char hex[] = "0123456789abcdef";

	for (unsigned i = 0; i < 8; i++)
		p[i] = (uint8_t)hex[n >> (28 - 4 * i) & 15];
	p[8] = '\r';
	p[9] = '\n';
}

int http_chunk(struct buf *out, const void *data, size_t n)
{
	uint8_t *p;
	int len;

	if (!n)
		return 0;
	p = buf_reserve(out, n + 2 * CHUNK_SIZE_BYTES);
	if (!p)
		return -errno;
	len = snprintf((char *)p, CHUNK_SIZE_BYTES + 8, "%zx\r\n", n);
	memcpy(p + len, data, n);
	memcpy(p + len + n, "\r\n", 2);
	buf_commit(out, (size_t)len + n + 2);
	return 0;
}

int http_chunk_last(struct buf *out)
{
	return buf_add(out, "0\r\n\r\n", 5);
}

int http_chunk_last_with(struct buf *out, const struct http_field *trailers, size_t count)
{
	struct http_writer w = {.out = out, .mark = buf_len(out)};

	w.err = buf_add(out, "0\r\n", 3);
	for (size_t i = 0; i < count; i++)
		http_writer_header(&w, trailers[i].name, trailers[i].value);
	return http_writer_finish(&w);
}

int http_chunk_begin(struct buf *out, size_t *ret_mark)
{
	uint8_t *p = buf_reserve(out, CHUNK_SIZE_BYTES);

	if (!p)
		return -errno;
	*ret_mark = buf_len(out);
	buf_commit(out, CHUNK_SIZE_BYTES);
	return 0;
}

int http_chunk_end(struct buf *out, size_t mark)
{
	size_t n = buf_len(out) - mark - CHUNK_SIZE_BYTES;
	int r;

	if (!n || n > UINT32_MAX) {
		roll_back(out, mark);
		return n ? -EMSGSIZE : 0;
	}
	r = buf_add(out, "\r\n", 2);
	if (r)
		roll_back(out, mark);
	else
		put_chunk_size(out->data + out->start + mark, n);
	return r;
}

/* ---- dates ---- */

static const char day_names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char month_names[12][4] = {
	"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

void http_date_format(time_t t, char out[HTTP_DATE_BYTES])
{
	int64_t days = t / 86400, rest = t % 86400, year;
	unsigned month, day;

	if (t < 0 || t > INT64_C(253402300799)) /* up to the year 9999 */
		days = rest = 0;
	timestamp_civil(days, &year, &month, &day);
	(void)snprintf(out, HTTP_DATE_BYTES, "%s, %02u %s %04u %02u:%02u:%02u GMT",
		day_names[(days + 4) % 7], day, month_names[month - 1], (unsigned)year % 10000,
		(unsigned)(rest / 3600), (unsigned)(rest / 60 % 60), (unsigned)(rest % 60));
}

int http_date_parse(const char *s, time_t *ret)
{
	unsigned day, year, hour, minute, second, month;
	char name[4], again[HTTP_DATE_BYTES];
	time_t t;

	if (strlen(s) != HTTP_DATE_BYTES - 1 || sscanf(s + 4, " %2u %3s %4u %2u:%2u:%2u GMT", &day,
							name, &year, &hour, &minute, &second) != 6)
		return -EINVAL;
	for (month = 0; month < 12 && strcmp(month_names[month], name) != 0;)
		month++;
	if (month == 12)
		return -EINVAL;
	t = timestamp_days(year, month + 1, day) * 86400 + hour * 3600 + minute * 60 + second;
	/* Anything out of range or spelled differently does not survive the round trip. */
	http_date_format(t, again);
	if (strcmp(s, again) != 0)
		return -EINVAL;
	*ret = t;
	return 0;
}

/* Reads a number at *cursor, of any length; false when there is none. One that is too large is
 * UINT64_MAX, which is beyond any file. */
static bool take_number(const char **cursor, uint64_t *ret)
{
	size_t n = strspn(*cursor, "0123456789");

	if (!n)
		return false;
	*ret = strtoull(*cursor, NULL, 10); /* saturates */
	*cursor += n;
	return true;
}

int http_range(const char *value, uint64_t size, uint64_t *ret_offset, uint64_t *ret_len)
{
	uint64_t first, last = UINT64_MAX;
	bool suffix;

	if (!value || strncmp(value, "bytes=", 6) != 0)
		return -ENOENT;
	value += 6;
	suffix = *value == '-';
	if (suffix) {
		value++;
		if (!take_number(&value, &last) || *value)
			return -ENOENT;
		first = last < size ? size - last : 0;
		if (!last || !size)
			return -ERANGE;
		last = size - 1;
	} else {
		if (!take_number(&value, &first) || *value++ != '-')
			return -ENOENT;
		if (*value && !take_number(&value, &last))
			return -ENOENT;
		if (*value || last < first)
			return -ENOENT;
		if (first >= size)
			return -ERANGE;
	}
	*ret_offset = first;
	*ret_len = (last < size ? last + 1 : size) - first;
	return 0;
}
