#include "cli/remote/remote_files.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "proto/proto_json.h"
#include "proto/uri.h"

enum { CHUNK = 64 * 1024, TARGET_MAX = 64 * 1024, STALL_S = 300 };

void remote_files_close(struct remote_files *f)
{
	client_close(f->client);
	f->client = NULL;
}

static int open_client(struct remote_files *f, struct error *e)
{
	return f->client ? 0 : client_open(&f->remote->home, &f->client, e);
}

/* A failed exchange may have left the connection in the middle of one. */
static int done(struct remote_files *f, int r)
{
	if (r < 0)
		remote_files_close(f);
	return r;
}

/* --- entries --- */

enum remote_kind remote_entry_kind(const json_t *entry)
{
	const char *type = remote_entry_text(entry, "type");

	return strcmp(type, "FILE_TYPE_FILE") == 0	  ? REMOTE_FILE
	       : strcmp(type, "FILE_TYPE_DIRECTORY") == 0 ? REMOTE_DIRECTORY
							  : REMOTE_OTHER;
}

uint64_t remote_entry_size(const json_t *entry)
{
	int64_t size = 0;

	(void)proto_json_i64(entry, "size", &size); /* 0 when it is missing */
	return size > 0 ? (uint64_t)size : 0;
}

const char *remote_entry_text(const json_t *entry, const char *name)
{
	const char *text = json_string_value(json_object_get(entry, name));

	return text ? text : "";
}

/* Calls with {"path":path}; *ret: the member `name` of the answer. */
static int call(struct remote_files *f, const char *method, const char *path, const char *name,
	json_t **ret, struct error *e)
{
	json_t *answer = NULL;
	int r = open_client(f, e);

	if (r == 0)
		r = remote_call(f->remote, f->client, method,
			json_pack("{s:s, s:i}", "path", path, "depth", 1), &answer, e);
	if (r == 0 && ret)
		*ret = json_incref(json_object_get(answer, name));
	json_decref(answer);
	return done(f, r);
}

int remote_files_stat(struct remote_files *f, const char *path, json_t **ret, struct error *e)
{
	return call(f, "/filesystem.Filesystem/Stat", path, "entry", ret, e);
}

int remote_files_list(struct remote_files *f, const char *path, json_t **ret, struct error *e)
{
	return call(f, "/filesystem.Filesystem/ListDir", path, "entries", ret, e);
}

int remote_files_mkdir(struct remote_files *f, const char *path, struct error *e)
{
	struct error why = {0};
	int r = call(f, "/filesystem.Filesystem/MakeDir", path, "entry", NULL, &why);

	if (r < 0 && why.code == ERROR_EXISTS)
		return 0;
	if (r < 0)
		*e = why;
	return r;
}

/* --- bytes --- */

static int write_target(
	const struct remote_files *f, const char *path, const char *more, struct buf *out)
{
	int r = buf_add_str(out, "/files?path=");

	if (r == 0)
		r = uri_encode(out, path, strlen(path));
	if (r == 0 && f->remote->user) {
		r = buf_add_str(out, "&username=");
		if (r == 0)
			r = uri_encode(out, f->remote->user, strlen(f->remote->user));
	}
	if (r == 0)
		r = buf_add_str(out, more);
	return r ? r : buf_add_u8(out, '\0');
}

static int note(struct remote_files *f, size_t n)
{
	return f->progress ? f->progress(f->arg, n) : 0;
}

static int take_piece(struct remote_files *f, int fd, struct error *e)
{
	size_t n;
	const uint8_t *data = client_body(f->client, &n);
	int r = fd_write_full(fd, data, n);

	if (r < 0)
		return error_set_errno(
			e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -r, "cannot write");
	return note(f, n);
}

static int receive(struct remote_files *f, int fd, struct error *e)
{
	for (;;) {
		enum client_event ev;
		int r = client_next_blocking(f->client, STALL_S, &ev, e);

		if (r == 0 && ev == CLIENT_HEAD && client_head(f->client)->status != 200)
			r = client_refusal(f->client, e);
		if (r == 0 && ev == CLIENT_BODY)
			r = take_piece(f, fd, e);
		if (r < 0 || ev == CLIENT_END)
			return r;
	}
}

int remote_files_get(struct remote_files *f, const char *path, int fd, struct error *e)
{
	_cleanup_(buf_done) struct buf target = BUF_INIT(TARGET_MAX);
	struct client_request request;
	int r = write_target(f, path, "", &target);

	if (r < 0)
		return error_set_errno(e, ERROR_USAGE, -r, "path");
	r = open_client(f, e);
	request = remote_request(f->remote, "GET", (const char *)buf_head(&target));
	if (r == 0)
		r = client_begin(f->client, &request, e);
	if (r == 0)
		r = client_end(f->client, e);
	if (r == 0)
		r = receive(f, fd, e);
	return done(f, r);
}

static int make_room(struct remote_files *f, struct error *e)
{
	int r = client_flush(f->client, e);

	while (r == 0 && client_room(f->client) < CHUNK && !client_is_readable(f->client))
		r = client_wait(f->client, STALL_S, e);
	return r;
}

/* Returns early, with success, when an answer came: it says why. */
static int send_file(struct remote_files *f, int fd, int64_t left, struct error *e)
{
	bool known = left != CLIENT_CHUNKED;
	char data[CHUNK];

	while (left != 0) {
		size_t want = known && left < CHUNK ? (size_t)left : CHUNK;
		ssize_t n = read(fd, data, want);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set_errno(e, ERROR_INTERNAL, errno, "cannot read");
		if (n == 0 && known)
			return error_set(
				e, ERROR_INTERNAL, EIO, "it got shorter while it was copied");
		if (n == 0)
			break;
		left -= known ? n : 0;
		r = client_send(f->client, data, (size_t)n, e);
		if (r == 0)
			r = make_room(f, e);
		if (r == 0)
			r = note(f, (size_t)n);
		if (r < 0 || client_is_readable(f->client))
			return r;
	}
	return client_end(f->client, e);
}

int remote_files_put(struct remote_files *f, const char *path, int fd, int64_t length,
	unsigned mode, struct error *e)
{
	_cleanup_(buf_done) struct buf target = BUF_INIT(TARGET_MAX);
	struct client_request request;
	char more[32];
	int r;

	(void)snprintf(more, sizeof(more), "&mode=%04o", mode & 0777); /* fits */
	r = write_target(f, path, more, &target);
	if (r < 0)
		return error_set_errno(e, ERROR_USAGE, -r, "path");
	r = open_client(f, e);
	request = remote_request(f->remote, "POST", (const char *)buf_head(&target));
	request.content_type = "application/octet-stream";
	request.length = length;
	if (r == 0)
		r = client_begin(f->client, &request, e);
	if (r == 0)
		r = send_file(f, fd, length, e);
	if (r == 0)
		r = client_answer(f->client, STALL_S, NULL, e);
	return done(f, r);
}
