#include "oci/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/fd.h"
#include "base/str.h"
#include "oci/blobs.h"
#include "oci/pull.h"
#include "oci/pull_wire.h"

enum { ATTEMPTS = 3 };

struct parts {
	char host[OCI_REGISTRY_MAX]; /* and port */
	char path[PULL_PATH_MAX];    /* and query */
};

static int bad(const char *url, const char *what, struct error *e)
{
	return error_set(e, ERROR_USAGE, EINVAL, "%.200s: %s", url, what);
}

static int split(const char *url, struct parts *ret, struct error *e)
{
	bool plain = str_starts_with(url, "http://");
	const char *host = url + (plain ? 7 : 8);
	size_t n = strcspn(host, "/?#"), rest = strcspn(host + n, "#");

	if (!plain && !str_starts_with(url, "https://"))
		return bad(url, "ADD fetches from https:// only", e);
	for (const char *p = url; *p; p++)
		if (*p <= ' ' || *p > '~')
			return bad(url, "it has a character that no URL has", e);
	if (n >= sizeof(ret->host) || rest + 1 >= sizeof(ret->path))
		return bad(url, "the URL is too long", e);
	(void)snprintf(ret->host, sizeof(ret->host), "%.*s", (int)n, host); /* these fit */
	(void)snprintf(ret->path, sizeof(ret->path), "%s%.*s", host[n] == '/' ? "" : "/", (int)rest,
		host + n);
	if (!oci_registry_valid(ret->host))
		return bad(url, "it has no host, or more than a host and a port", e);
	if (plain != address_host_is_loopback(ret->host))
		return bad(url,
			plain ? "plain HTTP goes to loopback only"
			      : "loopback is asked without TLS: write http://",
			e);
	return 0;
}

int oci_url_check(const char *url, struct error *e)
{
	struct parts p;

	return split(url, &p, e);
}

char *oci_url_name(const char *url)
{
	struct parts p;
	const char *last;

	if (split(url, &p, NULL) < 0)
		return NULL;
	p.path[strcspn(p.path, "?")] = '\0';
	last = strrchr(p.path, '/');
	return strdup(last ? last + 1 : "");
}

static int take(void *opaque, const void *data, size_t n, struct error *e)
{
	int r = fd_write_full(*(const int *)opaque, data, n);

	return r < 0 ? error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			       "cannot write what is fetched")
		     : 0;
}

static int fetch_once(
	struct oci_pull *pull, const struct parts *p, int fd, uint64_t bytes_max, struct error *e)
{
	const struct oci_pull_request q = {.version = "a file",
		.path = p->path,
		.bytes_max = bytes_max,
		.take = take,
		.opaque = &fd};

	if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "cannot write what is fetched");
	return oci_pull_get(pull, &q, e);
}

int oci_url_fetch(const char *url, const struct oci_reach *reach, int fd, uint64_t bytes_max,
	const struct progress *progress, char digest[OCI_DIGEST_MAX], struct error *e)
{
	static const struct oci_credentials none;
	struct oci_reference host = {.repository = ""};
	struct error why = {0};
	struct oci_pull pull;
	struct parts p;
	int r = split(url, &p, e);

	if (r < 0)
		return r;
	(void)snprintf(host.registry, sizeof(host.registry), "%s", p.host); /* fits */
	oci_pull_init(&pull, &host, &none, progress);
	pull.reach = reach;
	r = -EAGAIN;
	for (int i = 0; i < ATTEMPTS && r == -EAGAIN; i++) {
		why = (struct error){0};
		r = fetch_once(&pull, &p, fd, bytes_max, &why);
	}
	oci_pull_done(&pull);
	if (r < 0)
		return error_set(e, why.code, -r, "%s", why.message);
	r = oci_digest_of_file(fd, digest);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot read what was fetched") : 0;
}
