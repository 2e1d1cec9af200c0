#include "api/template/receive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/api.h"
#include "base/clock.h"
#include "catalog/uploads.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"

enum { CHUNK_BYTES = 256 * 1024 };

struct receiving {
	struct request *request; /* NULL: the client has gone */
	const struct receive_ops *ops;
	void *arg;
	struct fleet *fleet;
	struct upload *upload;
	uv_fs_t write;
	uv_work_t check;
	uint64_t end_ns; /* monotonic: when it must be complete */
	uint64_t bytes;	 /* that were written */
	size_t filled, flushed;
	bool busy; /* in a worker */
	bool complete;
	struct error why;
	char chunk[CHUNK_BYTES];
};

static void receiving_free(struct receiving *x)
{
	upload_abort(x->upload);
	if (x->ops->drop)
		x->ops->drop(x->arg);
	free(x);
}

static void on_upload_done(struct request *r, bool complete)
{
	struct receiving *x = r->data;

	x->request = NULL;
	if (!x->busy)
		receiving_free(x);
}

static void fail(struct receiving *x, int err)
{
	struct request *r = x->request;

	(void)error_set_errno(&x->why, ERROR_NO_SPACE, err, "cannot write the file");
	reply_failure(r, &x->why);
}

static void check_work(uv_work_t *w)
{
	struct receiving *x = w->data;

	(void)upload_check(x->upload, &x->why); /* the error says it */
}

static void check_done(uv_work_t *w, int status)
{
	struct receiving *x = w->data;
	struct request *r = x->request;

	x->busy = false;
	if (!r) {
		receiving_free(x);
		return;
	}
	if (x->why.code == ERROR_NONE) {
		(void)upload_commit(x->upload, &x->why); /* as above */
		x->upload = NULL;
	}
	if (x->why.code != ERROR_NONE)
		reply_failure(r, &x->why);
	else
		x->ops->received(r, x->arg);
}

static void flush(struct receiving *x);

static void on_written(uv_fs_t *w)
{
	struct receiving *x = w->data;
	ssize_t n = w->result;

	uv_fs_req_cleanup(w);
	x->busy = false;
	if (!x->request) {
		receiving_free(x);
		return;
	}
	if (n <= 0) {
		fail(x, n < 0 ? (int)-n : EIO);
		return;
	}
	x->flushed += (size_t)n;
	x->bytes += (uint64_t)n;
	if (x->flushed == x->filled)
		x->filled = x->flushed = 0;
	flush(x);
}

/* Writes what is there, or goes on. */
static void flush(struct receiving *x)
{
	uv_loop_t *loop = x->fleet->loop;
	uv_buf_t part = uv_buf_init(x->chunk + x->flushed, (unsigned)(x->filled - x->flushed));

	if (x->busy)
		return;
	x->busy = true;
	if (part.len) {
		if (uv_fs_write(loop, &x->write, upload_fd(x->upload), &part, 1, (int64_t)x->bytes,
			    on_written) == 0)
			return;
		x->busy = false;
		fail(x, ENOMEM);
	} else if (x->complete) {
		(void)uv_queue_work(loop, &x->check, check_work, check_done); /* cannot fail */
	} else {
		x->busy = false;
		request_resume(x->request);
	}
}

/* A piece always fits: reading stops when less than half of the buffer is free. */
static void on_upload_body(struct request *r, const uint8_t *data, size_t n)
{
	struct receiving *x = r->data;

	if (clock_monotonic_ns() > x->end_ns) {
		reply_error(r, 408,
			"the upload took longer than %d s: copy less, or in several steps",
			UPLOAD_LAST_S);
		return;
	}
	if (n > sizeof(x->chunk) - x->filled) {
		fail(x, EMSGSIZE);
		return;
	}
	memcpy(x->chunk + x->filled, data, n);
	x->filled += n;
	request_pause(r);
	flush(x);
}

static void on_upload_end(struct request *r)
{
	struct receiving *x = r->data;

	x->complete = true;
	flush(x);
}

void receive_upload(
	struct request *r, struct upload *upload, const struct receive_ops *receive, void *arg)
{
	static const struct request_ops ops = {
		.body = on_upload_body, .body_end = on_upload_end, .done = on_upload_done};
	struct receiving *x = api_calloc(r, sizeof(*x));

	if (!x) {
		upload_abort(upload);
		if (receive->drop)
			receive->drop(arg);
		return;
	}
	x->request = r;
	x->ops = receive;
	x->arg = arg;
	x->upload = upload;
	x->fleet = fleet_of(r);
	x->end_ns = clock_monotonic_ns() + UPLOAD_LAST_S * NS_PER_S;
	x->write.data = x->check.data = x;
	request_set_ops(r, &ops, x);
	request_resume(r);
}
