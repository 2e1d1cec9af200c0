#include "intercept/held_headers.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <openssl/evp.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "intercept/preview.h"
#include "intercept/secret_name.h"

enum { WRITTEN_MAX = 2048 };

enum use {
	SHOWN,	  /* digested and shown; all that are not in the table */
	USUAL,	  /* digested, not shown */
	HARMLESS, /* neither */
	ACTION,	  /* shown first, and a decision for longer is about it */
};

/* value: only with it, in any case; NULL: with any. A harmless header must change nothing of what a
 * server does but how it frames, codes or logs. docs/consent.md has the list with the reasons. */
static const struct known {
	const char *name;
	enum use use;
	const char *value;
} table[] = {
	/* what the worker checks, or writes anew */
	{"host", HARMLESS, NULL},
	{"content-length", HARMLESS, NULL}, /* the question has bodyBytes */
	{"transfer-encoding", HARMLESS, NULL},
	{"te", HARMLESS, NULL},
	{"trailer", HARMLESS, NULL},
	{"expect", HARMLESS, NULL},
	{"keep-alive", HARMLESS, NULL},
	{"connection", HARMLESS, "keep-alive"},
	{"connection", HARMLESS, "close"},
	{"connection", USUAL, NULL}, /* it may drop a header */
	/* how the answer is coded */
	{"accept-encoding", HARMLESS, NULL},
	/* who sends it, and when */
	{"user-agent", HARMLESS, NULL},
	{"date", HARMLESS, NULL},
	/* marks for logs, another one in each request */
	{"traceparent", HARMLESS, NULL},
	{"tracestate", HARMLESS, NULL},
	{"b3", HARMLESS, NULL},
	{"x-b3-traceid", HARMLESS, NULL},
	{"x-b3-spanid", HARMLESS, NULL},
	{"x-b3-parentspanid", HARMLESS, NULL},
	{"x-b3-sampled", HARMLESS, NULL},
	{"sentry-trace", HARMLESS, NULL},
	{"uber-trace-id", HARMLESS, NULL},
	{"x-datadog-trace-id", HARMLESS, NULL},
	{"x-datadog-parent-id", HARMLESS, NULL},
	{"x-datadog-sampling-priority", HARMLESS, NULL},
	{"x-amzn-trace-id", HARMLESS, NULL},
	{"x-cloud-trace-context", HARMLESS, NULL},
	{"x-request-id", HARMLESS, NULL},
	{"x-correlation-id", HARMLESS, NULL},
	{"x-client-request-id", HARMLESS, NULL},
	{"amz-sdk-invocation-id", HARMLESS, NULL},
	{"amz-sdk-request", HARMLESS, NULL},
	{"x-stainless-retry-count", HARMLESS, NULL},
	/* what programs send by themselves */
	{"accept", USUAL, "*/*"},
	{"accept", USUAL, "application/json"},
	{"content-type", USUAL, "application/json"},
	{"content-type", USUAL, "application/json; charset=utf-8"},
	{"accept-language", USUAL, NULL},
	{"accept-charset", USUAL, NULL},
	{"cache-control", USUAL, NULL},
	{"pragma", USUAL, NULL},
	{"dnt", USUAL, NULL},
	{"origin", USUAL, NULL},
	{"referer", USUAL, NULL},
	{"priority", USUAL, NULL},
	{"upgrade-insecure-requests", USUAL, NULL},
	{"sec-fetch-dest", USUAL, NULL},
	{"sec-fetch-mode", USUAL, NULL},
	{"sec-fetch-site", USUAL, NULL},
	{"sec-fetch-user", USUAL, NULL},
	{"sec-ch-ua", USUAL, NULL},
	{"sec-ch-ua-mobile", USUAL, NULL},
	{"sec-ch-ua-platform", USUAL, NULL},
	{"x-stainless-arch", USUAL, NULL},
	{"x-stainless-async", USUAL, NULL},
	{"x-stainless-lang", USUAL, NULL},
	{"x-stainless-os", USUAL, NULL},
	{"x-stainless-package-version", USUAL, NULL},
	{"x-stainless-read-timeout", USUAL, NULL},
	{"x-stainless-runtime", USUAL, NULL},
	{"x-stainless-runtime-version", USUAL, NULL},
	{"x-stainless-timeout", USUAL, NULL},
	/* what is done, whatever method and path say */
	{"x-amz-target", ACTION, NULL},
	{"x-amz-copy-source", ACTION, NULL},
	{"x-ms-copy-source", ACTION, NULL},
	{"x-goog-copy-source", ACTION, NULL},
	{"soapaction", ACTION, NULL},
	{"destination", ACTION, NULL},
	{"overwrite", ACTION, NULL},
	{"depth", ACTION, NULL},
	{"x-action", ACTION, NULL},
	{"x-operation", ACTION, NULL},
	{"x-http-method", ACTION, NULL},
	{"x-http-method-override", ACTION, NULL},
	{"x-method-override", ACTION, NULL},
	{"x-original-url", ACTION, NULL},
	{"x-rewrite-url", ACTION, NULL},
	{"x-override-url", ACTION, NULL},
	{"hx-request", ACTION, NULL},
	{"next-action", ACTION, NULL},
	{"prefer", ACTION, NULL},
	/* for whom */
	{"stripe-account", ACTION, NULL},
	{"openai-organization", ACTION, NULL},
	{"openai-project", ACTION, NULL},
	{"x-goog-user-project", ACTION, NULL},
	{"x-tenant-id", ACTION, NULL},
	{"x-organization-id", ACTION, NULL},
	{"x-project-id", ACTION, NULL},
	{"x-account-id", ACTION, NULL},
};

static enum use use_of(const struct http_header *h)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct known *k = &table[i];
		bool same = k->use == ACTION ? http_is_same_name(h->name, k->name)
					     : strcasecmp(h->name, k->name) == 0;

		if (same && (!k->value || strcasecmp(h->value, k->value) == 0))
			return k->use;
	}
	return SHOWN;
}

/* --- digests --- */

struct item {
	const struct http_header *header;
	enum use use;
	unsigned index;
	bool trailer;
};

/* Servers may take an underscore for a hyphen, so the order of such names is kept, too. */
static int folded(char c)
{
	return c == '_' ? '-' : tolower((unsigned char)c);
}

static int compare(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	const char *s = x->header->name, *t = y->header->name;

	for (; *s && folded(*s) == folded(*t); s++)
		t++;
	return *s || *t ? folded(*s) - folded(*t) : x->index < y->index ? -1 : x->index > y->index;
}

static bool add_name(EVP_MD_CTX *c, const char *name)
{
	bool good = true;

	for (; good && *name; name++) {
		uint8_t lower = (uint8_t)tolower((unsigned char)*name);

		good = EVP_DigestUpdate(c, &lower, 1);
	}
	return good && EVP_DigestUpdate(c, "", 1);
}

/* Of each header, its name and its value, each with its NUL. action: of these only. */
static bool digest(
	const struct item *items, unsigned count, bool action, char ret[HELD_HEADERS_DIGEST])
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	uint8_t hash[EVP_MAX_MD_SIZE];
	bool good = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL), any = false;

	for (unsigned i = 0; good && i < count; i++) {
		const struct http_header *h = items[i].header;

		if (items[i].use == HARMLESS || (action && items[i].use != ACTION))
			continue;
		any = true;
		good = EVP_DigestUpdate(c, "\n", items[i].trailer) && add_name(c, h->name) &&
		       EVP_DigestUpdate(c, h->value, h->value_len + 1);
	}
	good = good && EVP_DigestFinal_ex(c, hash, NULL);
	EVP_MD_CTX_free(c);
	ret[0] = '\0';
	if (good && (any || !action))
		str_hex(hash, 32, ret);
	return good;
}

/* --- for people --- */

/* Writes a text into `text`, cut to max bytes. *ret is NULL if there is no room. */
static int write_text(struct held_headers *h, const char *text, size_t max,
	const struct intercept *i, const char **ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(WRITTEN_MAX);
	int r = preview_write(text, strlen(text), i, &b);
	const char *s = (const char *)buf_head(&b);
	size_t n = r < 0 ? 0 : str_cut(s, strlen(s), max);
	bool cut = r > 0 || (r == 0 && s[n]);

	*ret = NULL;
	if (r < 0 || h->used + n + sizeof("...") > sizeof(h->text))
		return r < 0 ? r : 0;
	*ret = memcpy(h->text + h->used, s, n);
	memcpy(h->text + h->used + n, cut ? "..." : "", cut ? sizeof("...") : 1);
	h->used += n + (cut ? sizeof("...") : 1);
	h->cut = h->cut || cut;
	return 0;
}

static int write_value(struct held_headers *h, const struct http_header *from,
	const struct intercept *i, const char **ret)
{
	_cleanup_free_ char *note = NULL;

	if (!secret_name_is_header(from->name))
		return write_text(h, from->value, HELD_HEADER_VALUE_MAX, i, ret);
	note = str_printf("[%zu bytes hidden]", from->value_len);
	return note ? write_text(h, note, HELD_HEADER_VALUE_MAX, NULL, ret) : -ENOMEM;
}

static int show(struct held_headers *h, const struct item *item, const struct intercept *i)
{
	_cleanup_free_ char *name =
		str_printf("%s%s", item->header->name, item->trailer ? " (trailer)" : "");
	struct held_header one = {NULL, NULL};
	int r = name ? 0 : -ENOMEM;

	if (r == 0 && h->count < HELD_HEADERS_MAX) {
		r = write_text(h, name, HELD_HEADER_NAME_MAX, i, &one.name);
		r = r ? r : write_value(h, item->header, i, &one.value);
	}
	if (one.name && one.value)
		h->list[h->count++] = one;
	else
		h->cut = true;
	return r;
}

static int show_all(struct held_headers *h, const struct item *items, unsigned count, enum use use,
	const struct intercept *i)
{
	int r = 0;

	for (unsigned n = 0; r == 0 && n < count; n++)
		if (items[n].use == use)
			r = show(h, &items[n], i);
	return r;
}

/* Programs send no trailers by themselves. */
static void take(struct item *items, unsigned n, const struct http_headers *from, bool trailer)
{
	for (unsigned i = 0; i < from->count; i++, n++) {
		enum use use = use_of(&from->items[i]);

		items[n] = (struct item){
			&from->items[i], trailer && use != ACTION ? SHOWN : use, n, trailer};
	}
}

int held_headers_make(const struct http_headers *from, const struct http_headers *trailers,
	const struct intercept *i, struct held_headers *ret)
{
	unsigned count = from->count + (trailers ? trailers->count : 0);
	_cleanup_free_ struct item *items = calloc(count + 1, sizeof(items[0]));
	int r;

	*ret = (struct held_headers){.count = 0};
	if (!items)
		return -ENOMEM;
	take(items, 0, from, false);
	if (trailers)
		take(items, from->count, trailers, true);
	qsort(items, count, sizeof(items[0]), compare);
	if (!digest(items, count, false, ret->digest) || !digest(items, count, true, ret->action))
		return -ENOMEM;
	r = show_all(ret, items, count, ACTION, i);
	return r ? r : show_all(ret, items, count, SHOWN, i);
}
