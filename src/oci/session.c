#include "oci/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "oci/destination.h"
#include "oci/ecr.h"
#include "proto/base64.h"

#define ACCEPT                                                                                     \
	"application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "    \
	"application/vnd.docker.distribution.manifest.list.v2+json, "                              \
	"application/vnd.docker.distribution.manifest.v2+json"

enum { SHOWN = 160 };

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

static int refused(const struct oci_session *s, struct error *e)
{
	const struct oci_reference *ref = &s->with->reference;
	const struct oci_credentials *c = &s->with->credentials;

	return error_set(e, ERROR_FORBIDDEN, EACCES, "%s wants other credentials for %s%s",
		ref->registry, ref->repository,
		*c->text    ? ": those that it got were refused, or the image does not exist"
		: c->helper ? ": docker's configuration names a helper, which is not run; give "
			      "--registry-auth USER:PASSWORD"
			    : ": give --registry-auth USER:PASSWORD, or log in with docker");
}

static bool is_hiccup(long status)
{
	return status == 500 || status == 502 || status == 504;
}

/* The token that the API of AWS gives for an access key: a user and a password in base64. */
static int ask_aws(struct oci_session *s, char **ret, struct error *e)
{
	const struct oci_credentials *key = &s->with->credentials;
	const struct oci_signed post = {.key = key->text,
		.region = key->region,
		.service = "ecr",
		.target = ECR_TARGET,
		.body = "{}"};
	struct buf body = BUF_INIT(ECR_ANSWER_MAX);
	char url[ECR_URL_MAX];
	const struct oci_request q = {.url = url,
		.elsewhere = true,
		.post = &post,
		.bytes_max = ECR_ANSWER_MAX,
		.take = take_into,
		.opaque = &body};
	struct oci_answer a;
	int r = ecr_api_url(s->with->reference.registry, key->region, url, e);

	if (r == 0)
		r = oci_get(s->client, &q, &a, e);
	if (r == 0 && a.status != 200)
		r = error_set(e, is_hiccup(a.status) ? ERROR_HOST : ERROR_FORBIDDEN,
			is_hiccup(a.status) ? EAGAIN : EACCES,
			"AWS gives no password for %s (status %ld): the access key is wrong, or "
			"may not call ecr:GetAuthorizationToken",
			s->with->reference.registry, a.status);
	if (r == 0)
		r = ecr_token_parse(buf_head(&body), buf_len(&body), ret, e);
	if (body.data)
		explicit_bzero(body.data, body.end);
	buf_done(&body);
	return r;
}

/* The header for the credentials; *ret is NULL if there are none. */
static int login_header(struct oci_session *s, char **ret, struct error *e)
{
	const struct oci_credentials *c = &s->with->credentials;
	_cleanup_(forget) char *token = NULL;
	int r = 0;

	if (!*c->text)
		return 0;
	if (*c->region)
		r = ask_aws(s, &token, e);
	if (r < 0)
		return r;
	*ret = token ? str_printf("Basic %s", token) : basic(c);
	return *ret ? 0 : no_memory(e);
}

/* The token server's URL for what the registry asks; malloc'ed. */
static char *token_url(const struct oci_session *s, const struct oci_challenge *c)
{
	_cleanup_free_ char *pull = str_printf("repository:%s:pull", s->with->reference.repository);
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

static int ask_for_token(struct oci_session *s, const char *url, const char *authorization,
	char **ret, struct error *e)
{
	struct buf body = BUF_INIT(OCI_TOKEN_ANSWER_MAX);
	const struct oci_request q = {.url = url,
		.authorization = authorization,
		.elsewhere = true,
		.bytes_max = OCI_TOKEN_ANSWER_MAX,
		.take = take_into,
		.opaque = &body};
	struct oci_answer a;
	int r = oci_get(s->client, &q, &a, e);

	if (r == 0 && (a.status == 401 || a.status == 403))
		r = refused(s, e);
	else if (r == 0 && a.status != 200)
		r = error_set(e, ERROR_HOST, EIO, "the token server of %s answers with status %ld",
			s->with->reference.registry, a.status);
	if (r == 0)
		r = oci_token_parse(buf_head(&body), buf_len(&body), ret, e);
	if (body.data)
		explicit_bzero(body.data, body.end);
	buf_done(&body);
	return r;
}

static int get_token(struct oci_session *s, const struct oci_challenge *c, struct error *e)
{
	_cleanup_free_ char *url = token_url(s, c);
	_cleanup_(forget) char *login = NULL, *token = NULL;
	char home[OCI_REGISTRY_MAX + 16];
	bool same;
	int r;

	(void)snprintf(home, sizeof(home), "%s://%s/", oci_client_scheme(s->client),
		s->with->reference.registry); /* fits */
	if (!url)
		return no_memory(e);
	if (!oci_redirect_allowed(home, c->realm, &same))
		return error_set(e, ERROR_BAD_IMAGE, EACCES,
			"the registry's token server is where nobody may be sent: %.200s",
			c->realm);
	r = login_header(s, &login, e);
	if (r == 0)
		r = ask_for_token(s, url, login, &token, e);
	if (r < 0)
		return r;
	s->authorization = str_printf("Bearer %s", token);
	return s->authorization ? 0 : no_memory(e);
}

/* Gets the credentials that the registry asks for. */
static int log_in(struct oci_session *s, const struct oci_challenge *c, struct error *e)
{
	forget(&s->authorization);
	if (c->scheme == OCI_SCHEME_BEARER)
		return get_token(s, c, e);
	if (c->scheme != OCI_SCHEME_BASIC || !*s->with->credentials.text)
		return refused(s, e);
	return login_header(s, &s->authorization, e);
}

/* --- requests --- */

/* Fails with the registry's own message. Replaces characters that could harm a terminal. */
static int complain(
	const struct oci_session *s, const struct oci_answer *a, const char *what, struct error *e)
{
	char text[SHOWN];

	(void)snprintf(text, sizeof(text), "%.150s", a->complaint);
	for (char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = ' ';
	if (a->status == 401 || a->status == 403)
		return refused(s, e);
	if (a->status == 404)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "%s has no %s of %s",
			s->with->reference.registry, what, s->with->reference.repository);
	return error_set(e, ERROR_HOST, is_hiccup(a->status) ? EAGAIN : EIO,
		"%s answers with status %ld: %s", s->with->reference.registry, a->status, text);
}

static int get(struct oci_session *s, struct oci_request *q, const char *what, struct error *e)
{
	struct oci_answer a;
	int r;

	for (bool asked = false;; asked = true) {
		q->authorization = s->authorization;
		r = oci_get(s->client, q, &a, e);
		if (r < 0)
			return r;
		if (a.status == 200)
			return 0;
		if (a.status != 401 || asked || a.elsewhere) /* credentials are for the registry */
			return complain(s, &a, what, e);
		r = log_in(s, &a.challenge, e);
		if (r < 0)
			return r;
	}
}

/* Nobody logs in for it. */
static int get_file(struct oci_session *s, const struct pull_ask *ask,
	int (*take)(void *opaque, const void *data, size_t n, struct error *e), struct error *e)
{
	const char *host = s->with->reference.registry;
	_cleanup_free_ char *url =
		str_printf("%s://%s%s", oci_client_scheme(s->client), host, ask->path);
	const struct oci_request q = {.url = url, .bytes_max = ask->bytes_max, .take = take};
	struct oci_answer a;
	int r = url ? oci_get(s->client, &q, &a, e) : no_memory(e);

	if (r < 0 || a.status == 200)
		return r;
	return error_set(e, a.status == 404 ? ERROR_NOT_FOUND : ERROR_HOST,
		is_hiccup(a.status) ? EAGAIN : EIO, "%s answers with status %ld", host, a.status);
}

int oci_session_get(struct oci_session *s, const struct pull_ask *ask,
	int (*take)(void *opaque, const void *data, size_t n, struct error *e), struct error *e)
{
	_cleanup_free_ char *url = str_printf("%s://%s/v2/%s/%s/%s", oci_client_scheme(s->client),
		s->with->reference.registry, s->with->reference.repository,
		ask->manifest ? "manifests" : "blobs", ask->version);
	struct oci_request q = {.url = url,
		.accept = ask->manifest ? ACCEPT : NULL,
		.bytes_max = ask->bytes_max,
		.take = take};

	if (*ask->path)
		return get_file(s, ask, take, e);
	return url ? get(s, &q, ask->version, e) : no_memory(e);
}
