/* Files for COPY. A client asks whether a file is there. If not, it uploads the file to a URL with
 * a signature. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/template/receive.h"
#include "base/clock.h"
#include "catalog/catalog.h"
#include "catalog/uploads.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "lifecycle/revocation.h"
#include "proto/signature.h"
#include "store/catalog.h"
#include "store/lockdown.h"

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
		reply_error(r, 404, "template '%.64s' not found", r->params[0]);
	else
		reply_failure(r, &e);
	return false;
}

/* A proxy that ends TLS says so in this header. A client could say it, too, but that affects only
 * itself. */
static bool is_https(const struct request *r)
{
	const char *scheme = http_header_get(&r->head->headers, "X-Forwarded-Proto");

	return r->encrypted || (scheme && strcmp(scheme, "https") == 0);
}

static void reply_address(struct request *r, const struct store_catalog *t)
{
	char signature[UPLOAD_SIGNATURE_BYTES];
	uint64_t expires_s = clock_realtime_ns() / NS_PER_S + UPLOAD_VALID_S;

	if (uploads_sign(catalog_uploads(fleet_of(r)), t->id, r->params[1], expires_s, signature) <
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
		reply_error(r, 404, "template '%.64s' not found", r->params[0]);
	else if (uploads_have(catalog_uploads(fleet_of(r)), t.key_id, r->params[1]))
		reply_json(r, 201, json_pack("{s:b}", "present", 1));
	else
		reply_address(r, &t);
}

/* --- its authorisation --- */

static bool may_upload(struct request *r)
{
	char given[UPLOAD_SIGNATURE_BYTES] = "", right[UPLOAD_SIGNATURE_BYTES];
	unsigned long long expires_s = 0;

	if (uri_query_get(r->head->query, "signature", given, sizeof(given)) < 0 ||
		uri_query_u64(r->head->query, "expires", INT64_MAX, &expires_s) < 0 ||
		uploads_sign(catalog_uploads(fleet_of(r)), r->params[0], r->params[1], expires_s,
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

static void on_received(struct request *r, void *arg)
{
	reply_empty(r, 200);
}

void api_upload_put(struct request *r)
{
	static const struct receive_ops ops = {on_received, NULL};
	struct upload *upload = NULL;
	struct store_catalog t;
	struct error e = {0};

	if (!upload_is_hash(r->params[1])) {
		reply_error(r, 400, "the hash must be 64 digits of 0-9 a-f");
		return;
	}
	if (fleet_of(r)->lockdown.keys && !r->admin) { /* the URL is a token */
		reply_error(r, 403, LOCKDOWN_TEXT);
		return;
	}
	if (!may_upload(r) || !find_file(r, &t))
		return;
	if (revocation_of(fleet_of(r), t.key_id)) {
		reply_error(r, 401, "the API key of the template was revoked");
		return;
	}
	if (r->head->content_length < 0)
		reply_error(r, 411, "the upload needs a Content-Length");
	else if (upload_begin(catalog_uploads(fleet_of(r)), t.key_id, r->params[1],
			 (uint64_t)r->head->content_length, &upload, &e) < 0)
		reply_failure(r, &e);
	else
		receive_upload(r, upload, &ops, NULL);
}
