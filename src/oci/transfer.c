#include "oci/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/address.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "config.h"
#include "oci/destination.h"

enum {
	REDIRECTS_MAX = 5,
	SHOWN_BYTES = 200, /* of a URL, in a message */
	WAITS_MAX = 4,
	WAIT_S_MAX = 60,
	CONNECT_S = 30,
	STALL_S = 60,
	STALL_BYTES = 1024, /* a second */
	TRANSFER_S = 6 * 3600,
	PIECE_MS = 200,
	REPORT_MS = 250,
};

struct oci_client {
	CURL *curl;
	const struct oci_reach *reach;
	int (*waits)(void *opaque);
	void *opaque;
	bool loopback;	    /* by its name: plain HTTP */
	bool knows_zone;    /* it was connected to */
	enum oci_zone zone; /* of the registry */
};

/* One HTTP request. A redirect leads to another one. */
struct exchange {
	struct oci_client *client;
	const struct oci_request *request;
	struct oci_answer *answer;
	struct error *e;
	const char *refused; /* why no connection was made */
	int failed;	     /* of take() or progress */
	bool elsewhere;
	char url[OCI_URL_MAX];
	char *location;	     /* owned; of a redirect, absolute */
	uint64_t complained; /* bytes of a body that is not a 200's */
	uint64_t reported_ns;
};

int oci_client_new(const char *host, const struct oci_reach *reach, int (*waits)(void *opaque),
	void *opaque, struct oci_client **ret, struct error *e)
{
	struct oci_client *c = calloc(1, sizeof(*c));

	if (!c || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(c);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	c->curl = curl_easy_init();
	c->reach = reach;
	c->waits = waits;
	c->opaque = opaque;
	c->loopback = address_host_is_loopback(host);
	if (!c->curl) {
		oci_client_free(c);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	*ret = c;
	return 0;
}

void oci_client_free(struct oci_client *c)
{
	if (!c)
		return;
	curl_easy_cleanup(c->curl);
	curl_global_cleanup();
	free(c);
}

const char *oci_client_scheme(const struct oci_client *c)
{
	return c->loopback ? "http" : "https";
}

/* --- curl's callbacks --- */

static bool is_plain(const struct exchange *x)
{
	return str_starts_with(x->url, "http:");
}

static bool has_proxy(const struct exchange *x)
{
	static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};

	for (size_t i = 0; i < ARRAY_SIZE(names) && !is_plain(x); i++)
		if (getenv(names[i]) && *getenv(names[i]))
			return true;
	return false;
}

static const char *why_not(struct exchange *x, const struct sockaddr *a, enum oci_zone zone)
{
	if (!oci_reach_allows(x->client->reach, a))
		return "clients' images come from public addresses, or from what the operator "
		       "opens with --build-registry or --egress-allow-private";
	if (is_plain(x) && zone != OCI_ZONE_LOOPBACK)
		return "plain HTTP goes to loopback only";
	if (x->elsewhere &&
		!oci_zone_allowed(x->client->knows_zone ? x->client->zone : OCI_ZONE_PUBLIC, zone))
		return "the registry sends us to an address that is not public";
	return NULL;
}

/* Checks the address after the name was resolved, so that a name server cannot change its answer in
 * between. A proxy decides for itself where it connects. */
static curl_socket_t on_open(void *opaque, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct exchange *x = opaque;
	enum oci_zone zone = oci_zone_of(&address->addr);

	if (!has_proxy(x)) {
		x->refused = why_not(x, &address->addr, zone);
		if (x->refused)
			return CURL_SOCKET_BAD;
		if (!x->elsewhere) {
			x->client->zone = zone;
			x->client->knows_zone = true;
		}
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t on_header(char *line, size_t size, size_t n, void *opaque)
{
	static const char name[] = "WWW-Authenticate:";
	struct exchange *x = opaque;
	struct oci_challenge c;
	char value[OCI_REALM_MAX + 2 * OCI_PARAMETER_MAX];
	size_t skip = sizeof(name) - 1;

	n *= size;
	if (n <= skip || strncasecmp(line, name, skip) != 0 || n - skip >= sizeof(value))
		return n;
	memcpy(value, line + skip, n - skip);
	value[n - skip] = '\0';
	value[strcspn(value, "\r\n")] = '\0';
	/* of several, a token is the better one */
	if (oci_challenge_parse(value, &c) && c.scheme > x->answer->challenge.scheme)
		x->answer->challenge = c;
	return n;
}

static void keep_complaint(struct oci_answer *a, const char *data, size_t n)
{
	size_t at = strlen(a->complaint), room = sizeof(a->complaint) - 1 - at;

	n = strnlen(data, n < room ? n : room);
	memcpy(a->complaint + at, data, n);
	a->complaint[at + n] = '\0';
}

static size_t on_body(char *data, size_t size, size_t n, void *opaque)
{
	struct exchange *x = opaque;
	long status = 0;

	n *= size;
	(void)curl_easy_getinfo(x->client->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200) {
		keep_complaint(x->answer, data, n);
		x->complained += n;
		return x->complained > OCI_COMPLAINT_MAX ? 0 : n;
	}
	if (n > x->request->bytes_max - x->answer->bytes) {
		x->failed = error_set(x->e, ERROR_BAD_IMAGE, EBADMSG,
			"the registry sends more than the %llu bytes that it announced",
			(unsigned long long)x->request->bytes_max);
		return 0;
	}
	x->answer->bytes += n;
	x->failed = x->request->take(x->request->opaque, data, n, x->e);
	return x->failed < 0 ? 0 : n;
}

static int report(struct exchange *x)
{
	uint64_t now = clock_monotonic_ns();
	int r;

	if (now - x->reported_ns < REPORT_MS * NS_PER_MS)
		return 0;
	x->reported_ns = now;
	r = x->client->waits(x->client->opaque);
	if (r < 0 && x->failed == 0)
		x->failed = error_set_errno(x->e, ERROR_INTERNAL, -r, "the build was ended");
	return r;
}

static int on_progress(
	void *opaque, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
	return report(opaque) < 0;
}

/* --- one request --- */

static struct curl_slist *add_header(struct curl_slist *list, const char *name, const char *value)
{
	_cleanup_free_ char *line = value ? str_printf("%s: %s", name, value) : NULL;
	struct curl_slist *grown = line ? curl_slist_append(list, line) : NULL;

	if (line)
		explicit_bzero(line, strlen(line));
	return grown ? grown : list;
}

static void set_options(struct exchange *x)
{
	CURL *c = x->client->curl;
	const char *ca = getenv("SSL_CERT_FILE");

	curl_easy_reset(c); /* keeps connections */
	curl_easy_setopt(c, CURLOPT_URL, x->url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, is_plain(x) ? "http" : "https");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_BYTES);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)TRANSFER_S);
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "Mayfly/" MAYFLY_VERSION);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, x);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, x);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	/* an open connection may lead to an address that this request may not reach */
	curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, x->elsewhere ? 1L : 0L);
	curl_easy_setopt(c, CURLOPT_FORBID_REUSE, x->elsewhere ? 1L : 0L);
	if (is_plain(x))
		curl_easy_setopt(c, CURLOPT_PROXY, "");
	else if (x->elsewhere)
		curl_easy_setopt(c, CURLOPT_NOPROXY, ""); /* else the exceptions go unchecked */
	if (ca && *ca)
		curl_easy_setopt(c, CURLOPT_CAINFO, ca);
}

/* Adds to the headers, which the signature includes. */
static struct curl_slist *set_post(CURL *c, const struct oci_signed *p, struct curl_slist *headers)
{
	char how[128];

	(void)snprintf(how, sizeof(how), "aws:amz:%s:%s", p->region, p->service); /* fits */
	curl_easy_setopt(c, CURLOPT_AWS_SIGV4, how);
	curl_easy_setopt(c, CURLOPT_USERPWD, p->key);
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, p->body);
	headers = add_header(headers, "Content-Type", "application/x-amz-json-1.1");
	return add_header(headers, "X-Amz-Target", p->target);
}

static bool may_work_again(CURLcode code)
{
	return code == CURLE_COULDNT_CONNECT || code == CURLE_PARTIAL_FILE ||
	       code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR || code == CURLE_GOT_NOTHING ||
	       code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM ||
	       code == CURLE_OPERATION_TIMEDOUT;
}

/* A URL for messages. Leaves out the query, because that of a signed URL is a secret, and the user
 * in front of the host. Without `path` it also leaves out the path, which may be secret in a URL
 * that a server made. */
static const char *shown(const char *url, bool path, char out[SHOWN_BYTES])
{
	size_t scheme = strcspn(url, ":/?#");
	const char *host = url + scheme + strspn(url + scheme, ":/"), *at;
	size_t n = strcspn(host, "/?#");

	at = memrchr(host, '@', n);
	if (at) {
		n -= (size_t)(at + 1 - host);
		host = at + 1;
	}
	if (path)
		n = strcspn(host, "?#");
	(void)snprintf(
		out, SHOWN_BYTES, "%.*s://%.*s", (int)scheme, url, (int)n, host); /* or cut off */
	return out;
}

static int network_error(struct exchange *x, CURLcode code)
{
	char url[SHOWN_BYTES];
	long status = 0;

	if (x->failed < 0)
		return x->failed;
	if (x->refused)
		return error_set(x->e, ERROR_BAD_IMAGE, EACCES, "%s: %s", x->refused,
			shown(x->url, false, url));
	(void)curl_easy_getinfo(x->client->curl, CURLINFO_RESPONSE_CODE, &status);
	if (code == CURLE_WRITE_ERROR && status != 200)
		return 0; /* a long complaint; its beginning is there */
	return error_set(x->e, ERROR_HOST, may_work_again(code) ? EAGAIN : EIO,
		"cannot fetch %s: %s", shown(x->url, true, url), curl_easy_strerror(code));
}

static int perform(struct exchange *x, const char *authorization)
{
	struct curl_slist *headers = add_header(NULL, "Accept", x->request->accept);
	CURLcode code;
	char *location = NULL;

	headers = add_header(headers, "Authorization", authorization);
	*x->answer = (struct oci_answer){.status = 0};
	x->refused = NULL;
	x->complained = 0;
	set_options(x);
	if (x->request->post)
		headers = set_post(x->client->curl, x->request->post, headers);
	curl_easy_setopt(x->client->curl, CURLOPT_HTTPHEADER, headers);
	code = curl_easy_perform(x->client->curl);
	(void)curl_easy_getinfo(x->client->curl, CURLINFO_RESPONSE_CODE, &x->answer->status);
	(void)curl_easy_getinfo(x->client->curl, CURLINFO_REDIRECT_URL, &location);
	free(x->location);
	x->location = location ? strdup(location) : NULL;
	curl_slist_free_all(headers);
	return code == CURLE_OK ? 0 : network_error(x, code);
}

/* --- waits and redirects --- */

static int pause_for(struct exchange *x, uint64_t seconds)
{
	uint64_t end = clock_monotonic_ns() + seconds * NS_PER_S;

	while (clock_monotonic_ns() < end) {
		const struct timespec piece = {.tv_nsec = PIECE_MS * 1000000L};

		if (report(x) < 0)
			return x->failed;
		(void)nanosleep(&piece, NULL); /* early is fine */
	}
	return 0;
}

/* Waits as long as a busy registry asks for. */
static int wait_for(struct exchange *x, unsigned count)
{
	curl_off_t wanted = 0;

	(void)curl_easy_getinfo(x->client->curl, CURLINFO_RETRY_AFTER, &wanted);
	if (wanted > WAIT_S_MAX)
		return error_set(x->e, ERROR_HOST, EBUSY,
			"the registry is busy and wants to be asked again in %lld s: try again "
			"then",
			(long long)wanted);
	return pause_for(x, wanted > 0 ? (uint64_t)wanted : 1u << count);
}

static bool is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static bool is_busy(long status)
{
	return status == 429 || status == 503;
}

/* Takes the URL of a redirect. Sets *authorization to NULL if the new host must not get it. */
static int redirect(struct exchange *x, const char **authorization)
{
	char url[SHOWN_BYTES];
	bool same = false;

	if (!x->location || strlen(x->location) >= sizeof(x->url))
		return error_set(x->e, ERROR_BAD_IMAGE, EBADMSG,
			"the registry redirects to nowhere: %s", shown(x->url, true, url));
	if (!oci_redirect_allowed(x->url, x->location, &same))
		return error_set(x->e, ERROR_BAD_IMAGE, EACCES,
			"the registry redirects to where nobody may be sent: %s",
			shown(x->location, false, url));
	memcpy(x->url, x->location, strlen(x->location) + 1);
	if (!same) {
		*authorization = NULL;
		x->elsewhere = true;
	}
	return 0;
}

static int follow(struct exchange *x, const char *authorization)
{
	unsigned redirects = 0, waits = 0;
	int r;

	for (;;) {
		r = perform(x, authorization);
		if (r == 0 && is_redirect(x->answer->status) && !x->request->post)
			r = redirects++ < REDIRECTS_MAX
				    ? redirect(x, &authorization)
				    : error_set(x->e, ERROR_BAD_IMAGE, ELOOP,
					      "the registry redirects more than %d times",
					      REDIRECTS_MAX);
		else if (r == 0 && is_busy(x->answer->status) && waits < WAITS_MAX)
			r = wait_for(x, waits++);
		else
			return r;
		if (r < 0)
			return r;
	}
}

int oci_get(
	struct oci_client *c, const struct oci_request *q, struct oci_answer *ret, struct error *e)
{
	struct error own = {0};
	struct exchange x = {.client = c,
		.request = q,
		.answer = ret,
		.e = e ? e : &own,
		.elsewhere = q->elsewhere};
	int r;

	if (strlen(q->url) >= sizeof(x.url))
		return error_set(
			e, ERROR_BAD_IMAGE, ENAMETOOLONG, "the registry's URL is too long");
	memcpy(x.url, q->url, strlen(q->url) + 1);
	r = follow(&x, q->authorization);
	ret->elsewhere = x.elsewhere;
	free(x.location);
	return r;
}
