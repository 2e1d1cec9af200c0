/* Files for COPY (protocol section 5.1): a client asks whether a file is there, and uploads it to
 * an address that carries its own authorisation. The file is written in workers; meanwhile the
 * client waits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/clock.h"
#include "catalog/catalog_internal.h"
#include "catalog/uploads.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "lifecycle/revocation.h"
#include "proto/signature.h"
#include "store/catalog.h"

enum { CHUNK_BYTES = 256 * 1024 };

/* The template of the path, and the file's hash. False: answered. */
static bool find_file(struct request *r, struct store_catalog *ret)
{
	struct error e = {0};

	if (!upload_is_hash(r->params[1])) {
		reply_error(r, 400, "the hash must be 64 digits of 0-9 a-f");
		return false;
	}
	if (store_catalog_get(fleet_of(r)->store, r->params[0], ret, &e) == 0)
		return true;
	if (e.code == ERROR_NOT_FOUND)
		reply_error(r, 404, "there is no template %.64s", r->params[0]);
	else
		reply_failure(r, &e);
	return false;
}

/* Behind a proxy that ends TLS, it says so. The client, whom alone this concerns, could too. */
static bool is_https(const struct request *r)
{
	const char *scheme = http_header_get(&r->head->headers, "X-Forwarded-Proto");

	return r->encrypted || (scheme && strcmp(scheme, "https") == 0);
}

static void reply_address(struct request *r, const struct store_catalog *t)
{
	char signature[UPLOAD_SIGNATURE_BYTES];
	uint64_t expires_s = clock_realtime_ns() / NS_PER_S + UPLOAD_VALID_S;

	if (uploads_sign(fleet_of(r)->catalog->uploads, t->id, r->params[1], expires_s, signature) <
		0) {
		reply_error(r, 500, "the address cannot be signed");
		return;
	}
	reply_json(r, 201,
		json_pack("{s:b, s:o}", "present", 0, "url",
			json_sprintf("%s://%s/templates/%s/files/%s?expires=%llu&signature=%s",
				is_https(r) ? "https" : "http",
				r->head->host ? r->head->host : "localhost", t->id, r->params[1],
				(unsigned long long)expires_s, signature)));
}

void api_upload_find(struct request *r)
{
	struct store_catalog t;

	if (!find_file(r, &t))
		return;
	if (!auth_may_see(r, t.key_id))
		reply_error(r, 404, "there is no template %.64s", r->params[0]);
	else if (uploads_have(fleet_of(r)->catalog->uploads, t.key_id, r->params[1]))
		reply_json(r, 201, json_pack("{s:b}", "present", 1));
	else
		reply_address(r, &t);
}

/* --- the file --- */

struct receiving {
	struct request *request; /* NULL: the client has gone */
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
		reply_empty(r, 200);
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

/* A piece is never larger than what is free: reading stops when less than half is. */
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

/* --- its authorisation --- */

static bool may_upload(struct request *r)
{
	char given[UPLOAD_SIGNATURE_BYTES] = "", right[UPLOAD_SIGNATURE_BYTES];
	unsigned long long expires_s = 0;

	if (uri_query_get(r->head->query, "signature", given, sizeof(given)) < 0 ||
		uri_query_u64(r->head->query, "expires", INT64_MAX, &expires_s) < 0 ||
		uploads_sign(fleet_of(r)->catalog->uploads, r->params[0], r->params[1], expires_s,
			right) < 0 ||
		!secret_equal(given, right)) {
		reply_error(r, 401, "the address's signature is wrong: ask for the file again");
		return false;
	}
	if (clock_realtime_ns() / NS_PER_S <= expires_s)
		return true;
	reply_error(r, 401, "signature is already expired");
	return false;
}

void api_upload_put(struct request *r)
{
	static const struct request_ops ops = {
		.body = on_upload_body, .body_end = on_upload_end, .done = on_upload_done};
	struct receiving *x = NULL;
	struct store_catalog t;
	struct error e = {0};

	if (!upload_is_hash(r->params[1])) {
		reply_error(r, 400, "the hash must be 64 digits of 0-9 a-f");
		return;
	}
	if (!may_upload(r) || !find_file(r, &t))
		return;
	if (revocation_of(fleet_of(r), t.key_id)) {
		reply_error(r, 401, "the API key of the template was revoked");
		return;
	}
	if (r->head->content_length < 0) {
		reply_error(r, 411, "the upload needs a Content-Length");
		return;
	}
	x = api_calloc(r, sizeof(*x));
	if (!x)
		return;
	if (upload_begin(fleet_of(r)->catalog->uploads, t.key_id, r->params[1],
		    (uint64_t)r->head->content_length, &x->upload, &e) < 0) {
		free(x);
		reply_failure(r, &e);
		return;
	}
	x->request = r;
	x->fleet = fleet_of(r);
	x->end_ns = clock_monotonic_ns() + UPLOAD_LAST_S * NS_PER_S;
	x->write.data = x->check.data = x;
	request_set_ops(r, &ops, x);
	request_resume(r);
}
