#include "oci/registry.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "oci/destination.h"
#include "oci/transfer.h"
#include "proto/base64.h"

#define ACCEPT                                                                                     \
	"application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "    \
	"application/vnd.docker.distribution.manifest.list.v2+json, "                              \
	"application/vnd.docker.distribution.manifest.v2+json"

enum { ATTEMPTS = 3, SHOWN = 160 };

struct registry {
	struct oci_supply supply; /* first member */
	const struct oci_registry_options *o;
	struct oci_client *client;
	char *authorization; /* owned secret: the header, once the registry has asked for it */
};

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static void forget(char **secret)
{
	if (*secret)
		explicit_bzero(*secret, strlen(*secret));
	free(*secret);
	*secret = NULL;
}

/* --- credentials --- */

/* The header for a user and a password, or NULL. */
static char *basic(const struct oci_credentials *c)
{
	size_t n = strlen(c->text);
	_cleanup_free_ char *encoded = calloc(1, base64_encoded_len(n) + 1);
	char *header;

	if (!encoded)
		return NULL;
	base64_encode(encoded, c->text, n);
	header = str_printf("Basic %s", encoded);
	explicit_bzero(encoded, strlen(encoded));
	return header;
}

static int take_into(void *opaque, const void *data, size_t n, struct error *e)
{
	return buf_add(opaque, data, n) < 0 ? no_memory(e) : 0;
}

static int refused(const struct registry *g, struct error *e)
{
	const struct oci_reference *ref = g->o->reference;
	const struct oci_credentials *c = g->o->credentials;

	return error_set(e, ERROR_FORBIDDEN, EACCES, "%s wants other credentials for %s%s",
		ref->registry, ref->repository,
		*c->text    ? ": those that it got were refused, or the image does not exist"
		: c->helper ? ": docker's configuration names a helper, which is not run; give "
			      "--registry-auth USER:PASSWORD"
			    : ": give --registry-auth USER:PASSWORD, or log in with docker");
}

/* The token server's URL for what the registry asks; malloc'ed. */
static char *token_url(const struct registry *g, const struct oci_challenge *c)
{
	_cleanup_free_ char *pull = str_printf("repository:%s:pull", g->o->reference->repository);
	char *service = curl_easy_escape(NULL, c->service, 0);
	char *scope = curl_easy_escape(NULL, *c->scope || !pull ? c->scope : pull, 0);
	char *url = NULL;

	if (service && scope)
		url = str_printf("%s%cservice=%s&scope=%s", c->realm,
			strchr(c->realm, '?') ? '&' : '?', service, scope);
	curl_free(service);
	curl_free(scope);
	return url;
}

static int ask_for_token(
	struct registry *g, const char *url, const char *authorization, char **ret, struct error *e)
{
	struct buf body = BUF_INIT(OCI_TOKEN_ANSWER_MAX);
	const struct oci_request q = {.url = url,
		.authorization = authorization,
		.elsewhere = true,
		.bytes_max = OCI_TOKEN_ANSWER_MAX,
		.what = "a token",
		.take = take_into,
		.opaque = &body};
	struct oci_answer a;
	int r = oci_get(g->client, &q, &a, e);

	if (r == 0 && (a.status == 401 || a.status == 403))
		r = refused(g, e);
	else if (r == 0 && a.status != 200)
		r = error_set(e, ERROR_HOST, EIO, "the token server of %s answers with status %ld",
			g->o->reference->registry, a.status);
	if (r == 0)
		r = oci_token_parse(buf_head(&body), buf_len(&body), ret, e);
	if (body.data)
		explicit_bzero(body.data, body.end);
	buf_done(&body);
	return r;
}

static int get_token(struct registry *g, const struct oci_challenge *c, struct error *e)
{
	_cleanup_free_ char *url = token_url(g, c);
	_cleanup_(forget) char *login = NULL, *token = NULL;
	char home[OCI_REGISTRY_MAX + 16];
	bool same;
	int r;

	(void)snprintf(home, sizeof(home), "%s://%s/", oci_client_scheme(g->client),
		g->o->reference->registry); /* fits */
	if (!url)
		return no_memory(e);
	if (!oci_redirect_allowed(home, c->realm, &same))
		return error_set(e, ERROR_BAD_IMAGE, EACCES,
			"the registry's token server is where nobody may be sent: %.200s",
			c->realm);
	if (*g->o->credentials->text) {
		login = basic(g->o->credentials);
		if (!login)
			return no_memory(e);
	}
	r = ask_for_token(g, url, login, &token, e);
	if (r < 0)
		return r;
	g->authorization = str_printf("Bearer %s", token);
	return g->authorization ? 0 : no_memory(e);
}

/* Gets what the registry asks for. */
static int log_in(struct registry *g, const struct oci_challenge *c, struct error *e)
{
	forget(&g->authorization);
	if (c->scheme == OCI_SCHEME_BEARER)
		return get_token(g, c, e);
	if (c->scheme != OCI_SCHEME_BASIC || !*g->o->credentials->text)
		return refused(g, e);
	g->authorization = basic(g->o->credentials);
	return g->authorization ? 0 : no_memory(e);
}

/* --- requests --- */

static bool is_hiccup(long status)
{
	return status == 500 || status == 502 || status == 504;
}

/* Of a registry's complaint only letters that cannot harm a terminal. */
static int complain(
	const struct registry *g, const struct oci_answer *a, const char *what, struct error *e)
{
	char text[SHOWN];

	(void)snprintf(text, sizeof(text), "%.150s", a->complaint);
	for (char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = ' ';
	if (a->status == 401 || a->status == 403)
		return refused(g, e);
	if (a->status == 404)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "%s has no %s of %s",
			g->o->reference->registry, what, g->o->reference->repository);
	return error_set(e, ERROR_HOST, is_hiccup(a->status) ? EAGAIN : EIO,
		"%s answers with status %ld: %s", g->o->reference->registry, a->status, text);
}

/* One GET, and another one when the registry asks for credentials first. */
static int get(struct registry *g, struct oci_request *q, const char *what, struct error *e)
{
	struct oci_answer a;
	int r;

	for (bool asked = false;; asked = true) {
		q->authorization = g->authorization;
		r = oci_get(g->client, q, &a, e);
		if (r < 0)
			return r;
		if (a.status == 200)
			return 0;
		if (a.status != 401 || asked || a.elsewhere) /* credentials are for the registry */
			return complain(g, &a, what, e);
		r = log_in(g, &a.challenge, e);
		if (r < 0)
			return r;
	}
}

static char *url_of(const struct registry *g, const char *kind, const char *version)
{
	return str_printf("%s://%s/v2/%s/%s/%s", oci_client_scheme(g->client),
		g->o->reference->registry, g->o->reference->repository, kind, version);
}

/* --- blobs --- */

static int take_blob(void *opaque, const void *data, size_t n, struct error *e)
{
	return oci_blob_add(opaque, data, n, e);
}

static int fetch_once(
	struct registry *g, const struct oci_descriptor *d, const char *url, struct error *e)
{
	_cleanup_(oci_blob_abort) struct oci_blob_writer w = OCI_BLOB_WRITER_INIT;
	bool manifest = d->media == OCI_MEDIA_INDEX || d->media == OCI_MEDIA_MANIFEST;
	struct oci_request q = {.url = url,
		.accept = manifest ? ACCEPT : NULL,
		.bytes_max = d->size,
		.what = d->digest,
		.take = take_blob,
		.opaque = &w};
	char digest[OCI_DIGEST_MAX];
	int r = oci_blob_begin(g->o->blobs, &w, e);

	if (r == 0)
		r = get(g, &q, d->digest, e);
	if (r == 0 && w.size != d->size)
		r = error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"the registry sends %llu bytes of %s instead of %llu",
			(unsigned long long)w.size, d->digest, (unsigned long long)d->size);
	return r < 0 ? r : oci_blob_end(&w, d->digest, digest, e);
}

/* A connection that breaks may work again. Returns a descriptor. */
static int fetch(struct registry *g, const struct oci_descriptor *d, struct error *e)
{
	bool manifest = d->media == OCI_MEDIA_INDEX || d->media == OCI_MEDIA_MANIFEST;
	_cleanup_free_ char *url = url_of(g, manifest ? "manifests" : "blobs", d->digest);
	int r = -EAGAIN;

	if (!url)
		return no_memory(e);
	for (int i = 0; i < ATTEMPTS && r == -EAGAIN; i++) {
		struct error why = {0};

		r = fetch_once(g, d, url, &why);
		if (r < 0 && (r != -EAGAIN || i + 1 == ATTEMPTS))
			return error_set(e, why.code, -r, "%s", why.message);
	}
	return r;
}

static int open_blob(
	struct oci_supply *s, const struct oci_descriptor *d, int *ret_fd, struct error *e)
{
	struct registry *g = (struct registry *)(void *)s;
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r = oci_blobs_find(g->o->blobs, d->digest, &fd);

	if (r == -ENOENT) {
		fd = fetch(g, d, e);
		r = fd < 0 ? fd : 0;
	}
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read the blob %s", d->digest);
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != d->size)
		return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"the blob %s has %lld bytes, not the %llu that the image says", d->digest,
			(long long)st.st_size, (unsigned long long)d->size);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --- the manifest --- */

static int keep(
	struct registry *g, const struct buf *body, struct oci_descriptor *root, struct error *e)
{
	_cleanup_(oci_blob_abort) struct oci_blob_writer w = OCI_BLOB_WRITER_INIT;
	const char *wanted = g->o->reference->digest;
	int r = oci_blob_begin(g->o->blobs, &w, e);

	if (r == 0)
		r = oci_blob_add(&w, buf_head(body), buf_len(body), e);
	if (r == 0)
		r = oci_blob_end(&w, *wanted ? wanted : NULL, root->digest, e);
	if (r < 0)
		return r;
	(void)close(r); /* read-only */
	root->size = buf_len(body);
	return 0;
}

static int fetch_root(struct registry *g, struct oci_descriptor *root, struct error *e)
{
	const char *version = oci_reference_version(g->o->reference);
	_cleanup_free_ char *url = url_of(g, "manifests", version);
	struct buf body = BUF_INIT(OCI_DOCUMENT_MAX);
	struct oci_request q = {.url = url,
		.accept = ACCEPT,
		.bytes_max = OCI_DOCUMENT_MAX,
		.what = version,
		.take = take_into,
		.opaque = &body};
	int r = url ? get(g, &q, version, e) : no_memory(e);

	if (r == 0 && buf_len(&body) == 0)
		r = error_set(e, ERROR_BAD_IMAGE, EBADMSG, "the registry sends an empty manifest");
	if (r == 0)
		r = keep(g, &body, root, e);
	buf_done(&body);
	return r;
}

/* One that is named by its digest may be there already. */
static bool find_root(const struct registry *g, struct oci_descriptor *root)
{
	const char *digest = g->o->reference->digest;
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (!*digest || oci_blobs_find(g->o->blobs, digest, &fd) < 0 || fstat(fd, &st) < 0)
		return false;
	memcpy(root->digest, digest, OCI_DIGEST_MAX);
	root->size = (uint64_t)st.st_size;
	return true;
}

int oci_registry_load(const struct oci_registry_options *o, struct oci_image *ret, struct error *e)
{
	struct registry g = {.supply = {open_blob}, .o = o};
	struct oci_descriptor root = {.media = OCI_MEDIA_MANIFEST};
	int r = oci_client_new(o->reference->registry, o->progress, &g.client, e);

	if (r == 0 && !find_root(&g, &root))
		r = fetch_root(&g, &root, e);
	if (r == 0)
		r = oci_image_load(&g.supply, &root, ret, e);
	forget(&g.authorization);
	oci_client_free(g.client);
	return r;
}
