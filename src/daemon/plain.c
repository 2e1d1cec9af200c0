#include "daemon/plain.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "envd/envd_http.h"
#include "fleet/instance.h"
#include "http/reply.h"
#include "proto/uri.h"

#define BEFORE "/sandboxes/"
#define BEHIND "/files/"

static const struct {
	const char *method;
	void (*handle)(struct request *r, const struct instance *i);
} methods[] = {
	{"GET", envd_get_file},
	{"HEAD", envd_get_file},
	{"PUT", envd_post_files},
	{"DELETE", envd_delete_file},
};

/* Where the sandbox's id ends; NULL: it is another path. */
static const char *end_of_id(const char *path)
{
	const char *id = path + strlen(BEFORE), *end;

	if (!str_starts_with(path, BEFORE))
		return NULL;
	end = strchr(id, '/');
	return end && end > id && str_starts_with(end, BEHIND) ? end : NULL;
}

/* Decodes the id and the file's path into r->path, as the router does with segments. */
static bool take_path(struct request *r, const char *end)
{
	const char *id = r->head->path + strlen(BEFORE), *file = end + strlen(BEHIND) - 1;
	char *out;
	int n;

	r->path = calloc(1, sizeof(*r->path));
	if (!r->path) {
		reply_error(r, 503, "out of memory");
		return false;
	}
	out = r->path->storage;
	n = uri_decode(id, (size_t)(end - id), false, out, URI_PATH_BYTES);
	r->params[0] = out;
	if (n >= 0) {
		out += n + 1;
		r->file = out;
		n = uri_decode(file, strlen(file), false, out,
			(size_t)(r->path->storage + URI_PATH_BYTES - out));
	}
	if (n > 1)
		return true;
	r->file = NULL;
	if (n == 1) {
		reply_error(r, 400, "the path of a file must follow /files");
		return false;
	}
	reply_error(
		r, 400, "the path is badly encoded, or longer than %d bytes", URI_PATH_BYTES - 64);
	return false;
}

static struct instance *find(struct request *r)
{
	struct store_sandbox *sb = api_find(r);
	struct instance *i = sb ? api_find_running(r, sb) : NULL;

	store_sandbox_free(sb);
	return i;
}

bool plain_handle(struct request *r)
{
	const char *end = end_of_id(r->head->path);
	struct instance *i;

	if (!end || strcmp(r->head->method, "OPTIONS") == 0)
		return false;
	if (!auth_check(r) || !take_path(r, end))
		return true;
	i = find(r);
	if (!i)
		return true;
	request_meter(r, instance_id(i));
	for (size_t n = 0; n < ARRAY_SIZE(methods); n++)
		if (strcmp(methods[n].method, r->head->method) == 0) {
			methods[n].handle(r, i);
			return true;
		}
	reply_error(r, 405, "%s is not a method of files", r->head->method);
	return true;
}
