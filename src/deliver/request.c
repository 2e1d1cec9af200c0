#include "deliver/request.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "config.h"
#include "deliver/tls_limits.h"

struct request {
	CURL *easy;
	struct curl_slist *fields;
	struct deliver_ask ask;
	char *text;	/* the URL, the fields, the body */
	bool refused;	/* because of its address */
	bool large_key; /* the receiver's certificate has one */
	size_t received;
	char why[CURL_ERROR_SIZE];
};

/* --- curl's callbacks --- */

/* Discards the answer: nobody reads it, and it must not cost much. */
static size_t on_answer(char *data, size_t size, size_t n, void *arg)
{
	struct request *r = arg;

	(void)data; /* discarded */
	r->received += size * n;
	return r->received > DELIVER_ANSWER_MAX ? 0 : size * n;
}

/* Checks the address after the name was resolved, so that a name server cannot change its answer in
 * between. */
static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct request *r = arg;

	(void)purpose; /* whatever it is for */
	if (r->ask.public_only &&
		(!address_is_public(&address->addr) || address_is_own(&address->addr))) {
		r->refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void set_options(struct request *r, const char *ca)
{
	const char *body = r->text + r->ask.url_bytes + r->ask.fields_bytes;
	CURL *c = r->easy;
	bool limited = tls_limits_set(c, &r->large_key) == CURLE_OK;

	/* if an option cannot be set for lack of memory, the request fails */
	curl_easy_setopt(c, CURLOPT_URL, r->text);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, limited ? "http,https" : "http");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_PROXY, ""); /* ignores the environment's proxies, too */
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)DELIVER_ATTEMPT_S);
	curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "Mayfly/" MAYFLY_VERSION);
	curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)r->ask.body_bytes);
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, r->fields);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, r);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, r->why);
	curl_easy_setopt(c, CURLOPT_PRIVATE, r);
	if (ca)
		curl_easy_setopt(c, CURLOPT_CAINFO, ca);
}

/* --- from a packet --- */

static bool is_sound(const struct deliver_ask *a, const char *text, size_t n)
{
	return a->version == DELIVER_VERSION && a->url_bytes && a->url_bytes <= n &&
	       a->fields_bytes <= n - a->url_bytes &&
	       a->body_bytes == n - a->url_bytes - a->fields_bytes && !text[a->url_bytes - 1] &&
	       !text[a->url_bytes + a->fields_bytes - 1];
}

static bool add_field(struct request *r, const char *field)
{
	struct curl_slist *grown = curl_slist_append(r->fields, field);

	if (grown)
		r->fields = grown;
	return grown;
}

static bool add_fields(struct request *r)
{
	const char *at = r->text + r->ask.url_bytes, *end = at + r->ask.fields_bytes;
	bool added = add_field(r, "Expect:"); /* removes curl's own header */

	for (; added && at < end; at += strlen(at) + 1)
		added = add_field(r, at);
	return added;
}

struct request *request_new(const void *packet, size_t n, const char *ca)
{
	struct request *r = n >= sizeof(r->ask) ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	memcpy(&r->ask, packet, sizeof(r->ask));
	n -= sizeof(r->ask);
	r->text = malloc(n + 1);
	if (r->text)
		memcpy(r->text, (const char *)packet + sizeof(r->ask), n);
	r->easy = curl_easy_init();
	if (!r->text || !r->easy || !is_sound(&r->ask, r->text, n) || !add_fields(r)) {
		request_free(r);
		return NULL;
	}
	set_options(r, ca);
	return r;
}

CURL *request_handle(const struct request *r)
{
	return r->easy;
}

/* --- its end --- */

void request_conclude(const struct request *r, CURLcode result, struct deliver_said *ret)
{
	bool cut = r->received > DELIVER_ANSWER_MAX; /* we cut it: the status counts */
	long status = 0;

	*ret = (struct deliver_said){.id = r->ask.id, .end = DELIVER_FAILED};
	(void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status); /* 0: none */
	if (result == CURLE_OK || cut) {
		ret->end = DELIVER_ANSWERED;
		ret->status = (uint32_t)status;
		return;
	}
	if (r->refused)
		ret->end = DELIVER_NOT_PUBLIC;
	else if (r->large_key)
		ret->end = DELIVER_LARGE_KEY;
	(void)snprintf(ret->why, sizeof(ret->why), "%s",
		*r->why ? r->why : curl_easy_strerror(result)); /* or cut off */
}

void request_free(struct request *r)
{
	if (r->easy)
		curl_easy_cleanup(r->easy);
	curl_slist_free_all(r->fields);
	free(r->text);
	free(r);
}
