#include "cli/admin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "proto/http.h"
#include "proto/http_response.h"

enum { REQUEST_MAX = 1024 * 1024, ANSWER_MAX = 64 * 1024 * 1024, TIMEOUT_S = 60 };

static int send_request(
	int fd, const char *method, const char *path, const json_t *body, struct error *e)
{
	_cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	size_t n = text ? strlen(text) : 0;
	struct buf out = BUF_INIT(REQUEST_MAX);
	struct http_writer w = http_writer_request(&out, method, path);
	int r;

	http_writer_header(&w, "Host", "daemon");
	http_writer_header(&w, "Connection", "close");
	http_writer_header(&w, "Content-Type", "application/json");
	http_writer_header_u64(&w, "Content-Length", n);
	r = http_writer_finish(&w);
	if (r == 0 && n)
		r = buf_add(&out, text, n);
	if (r == 0)
		r = fd_write_full(fd, buf_head(&out), buf_len(&out));
	buf_done(&out);
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "cannot ask the daemon") : 0;
}

/* 1: go on, 0: the answer is complete, -errno. */
static int take(struct http_parser *p, const uint8_t *data, size_t n, struct buf *body)
{
	for (;;) {
		size_t used = 0, k;
		enum http_event ev = http_parser_next(p, data, n, &used);
		const uint8_t *part;

		data += used;
		n -= used;
		if (ev == HTTP_END)
			return 0;
		if (ev == HTTP_MORE)
			return 1;
		if (ev == HTTP_ERROR || ev == HTTP_REST || ev == HTTP_UPGRADE)
			return -EBADMSG;
		if (ev != HTTP_BODY)
			continue;
		part = http_parser_body(p, &k);
		if (buf_add(body, part, k) < 0)
			return -EMSGSIZE;
	}
}

static int receive(int fd, struct http_parser *p, struct buf *body, struct error *e)
{
	uint8_t data[16 * 1024];
	int r = 1;

	while (r > 0) {
		ssize_t n = read(fd, data, sizeof(data));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			r = errno == EAGAIN ? -ETIMEDOUT : -errno;
		else if (n == 0)
			r = http_parser_eof(p) == HTTP_END ? 0 : -ECONNRESET;
		else
			r = take(p, data, (size_t)n, body);
	}
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "the daemon's answer") : 0;
}

static int fail(unsigned status, const json_t *root, struct error *e)
{
	const char *message = json_string_value(json_object_get(root, "message"));
	enum error_code code = status == 404   ? ERROR_NOT_FOUND
			       : status == 400 ? ERROR_USAGE
			       : status == 403 ? ERROR_FORBIDDEN
			       : status == 409 ? ERROR_EXISTS
			       : status == 503 ? ERROR_NO_SPACE
					       : ERROR_INTERNAL;

	return error_set(e, code, EREMOTEIO, "%s", message ? message : "the daemon refused");
}

static int interpret(const struct http_parser *p, struct buf *body, json_t **ret, struct error *e)
{
	unsigned status = http_parser_head(p)->status;
	json_t *root = buf_len(body)
			       ? json_loadb((const char *)buf_head(body), buf_len(body), 0, NULL)
			       : NULL;
	int r = status >= 400 ? fail(status, root, e) : 0;

	if (r == 0 && ret)
		*ret = root;
	else
		json_decref(root);
	return r;
}

int admin_call(const struct home *home, const char *method, const char *path, const json_t *body,
	json_t **ret, struct error *e)
{
	_cleanup_close_ int fd = fd_unix_connect(home->fd, "daemon.sock", SOCK_STREAM);
	const struct timeval limit = {.tv_sec = TIMEOUT_S};
	struct buf answer = BUF_INIT(ANSWER_MAX);
	struct http_parser *p;
	int r;

	if (fd == -ENOENT || fd == -ECONNREFUSED)
		return -ECONNREFUSED;
	if (fd < 0)
		return error_set_errno(e, ERROR_HOST, -fd, "cannot reach the daemon");
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)); /* then without */
	p = http_parser_new(HTTP_ROLE_CLIENT, NULL);
	r = p ? send_request(fd, method, path, body, e)
	      : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (r == 0)
		r = receive(fd, p, &answer, e);
	if (r == 0)
		r = interpret(p, &answer, ret, e);
	http_parser_free(p);
	buf_done(&answer);
	return r;
}
