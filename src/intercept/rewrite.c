#include "intercept/rewrite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/base64.h"
#include "proto/http_proxy.h"

static const char marker[] = "${e2b.";

/* One request that is being rewritten. */
struct job {
	const struct intercept *intercept;
	const struct intercept_host *rule; /* or NULL */
	const char *host;
	struct scrub *scrub;
	struct fields *out;
	struct rewrite_used *used;
	struct rewrite_failure *why;
	bool plain; /* the answer must not be compressed */
};

static int fail(struct job *j, unsigned status, const char *text, const char *name, size_t bytes)
{
	j->why->status = status;
	(void)snprintf(j->why->reason, sizeof(j->why->reason), "%s%.*s", text,
		(int)(bytes < 64 ? bytes : 64), name); /* fits */
	return -EINVAL;
}

static int put_secret(struct job *j, unsigned n)
{
	const struct intercept_secret *s = &j->intercept->secrets[n];

	if (!http_is_field_value(s->value.hidden, s->value.bytes))
		return fail(j, 502,
			"a header cannot hold this secret, it has line ends or the like: ", s->name,
			strlen(s->name));
	fields_put(j->out, s->value.hidden, s->value.bytes);
	j->used->bits[n / 64] |= UINT64_C(1) << n % 64;
	return 0;
}

/* --- the rule --- */

/* At "${e2b.". Moves *text behind the closing brace. */
static int put_reference(struct job *j, const char **text)
{
	const char *name = *text + sizeof(marker) - 1, *end = strchr(*text, '}');
	int n;

	if (!end)
		return fail(
			j, 502, "a rule has a reference that does not end: ", *text, strlen(*text));
	n = intercept_reference(j->intercept, name, (size_t)(end - name));
	if (n < 0)
		return fail(j, 502, "a rule names a secret that does not exist: ", name,
			(size_t)(end - name));
	*text = end + 1;
	return put_secret(j, (unsigned)n);
}

static int put_rule(struct job *j, const struct intercept_header *h)
{
	const char *text = h->value, *at;
	int r = 0;

	fields_begin(j->out, h->name, strlen(h->name));
	while (r == 0 && (at = strstr(text, marker))) {
		fields_put(j->out, text, (size_t)(at - text));
		text = at;
		r = put_reference(j, &text);
	}
	fields_put(j->out, text, strlen(text));
	fields_end(j->out, true);
	return r;
}

/* --- placeholders --- */

/* A text, and where each placeholder is next in it. So each is looked for once in each part of the
 * text, however often the others are there. */
struct search {
	const char *text;
	size_t n, at;				 /* all before `at` is done */
	size_t next[INTERCEPT_PLACEHOLDERS_MAX]; /* n: nowhere, or not for this host */
};

static void look_for(struct search *s, const struct intercept_placeholder *p, size_t *next)
{
	const char *found = memmem(s->text + s->at, s->n - s->at, p->text, p->bytes);

	*next = found ? (size_t)(found - s->text) : s->n;
}

static void search_begin(struct search *s, const struct job *j, const char *text, size_t n)
{
	s->text = text;
	s->n = n;
	s->at = 0;
	for (unsigned i = 0; i < j->intercept->placeholder_count; i++) {
		const struct intercept_placeholder *p = &j->intercept->placeholders[i];

		s->next[i] = n;
		if (intercept_placeholder_is_for(p, j->host))
			look_for(s, p, &s->next[i]);
	}
}

/* The next placeholder, the longest if two begin there; or NULL. */
static const struct intercept_placeholder *find(
	const struct job *j, struct search *s, size_t *ret_at)
{
	const struct intercept_placeholder *best = NULL;

	*ret_at = s->n;
	for (unsigned i = 0; i < j->intercept->placeholder_count; i++) {
		const struct intercept_placeholder *p = &j->intercept->placeholders[i];

		if (s->next[i] < s->at) /* one that was within another */
			look_for(s, p, &s->next[i]);
		if (s->next[i] < *ret_at ||
			(best && s->next[i] == *ret_at && p->bytes > best->bytes)) {
			best = p;
			*ret_at = s->next[i];
		}
	}
	return best;
}

/* Puts a text with secrets in place of placeholders. Returns whether there was one, or -EINVAL. */
static int put_replaced(struct job *j, const char *text, size_t n)
{
	const struct intercept_placeholder *p;
	struct search s;
	size_t at;
	int r, found = 0;

	search_begin(&s, j, text, n);
	while (!fields_error(j->out) && (p = find(j, &s, &at))) {
		fields_put(j->out, text + s.at, at - s.at);
		r = put_secret(j, p->secret);
		if (r < 0)
			return r;
		s.at = at + p->bytes;
		found = 1;
	}
	fields_put(j->out, text + s.at, n - s.at);
	return found;
}

/* The plain text of "Basic" credentials with secrets in it, as one field of `plain`. Returns
 * whether there was a placeholder. */
static int replace_in_basic(struct job *j, const struct buf *decoded, struct fields *plain)
{
	struct job inner = *j;
	int found;

	inner.out = plain;
	fields_begin(plain, "", 0);
	found = put_replaced(&inner, (const char *)buf_head(decoded), buf_len(decoded));
	fields_end(plain, true);
	return found < 0 || !fields_error(plain) ? found : fields_error(plain);
}

static int put_base64(struct job *j, const char *text, size_t n)
{
	struct buf coded = BUF_INIT(2 * REWRITE_HEAD_MAX);
	size_t bytes = base64_encoded_len(n);
	char *p;
	int r;

	coded.secret = true;
	p = (char *)buf_reserve(&coded, bytes);
	if (!p)
		return -ENOMEM;
	base64_encode(p, text, n);
	fields_put(j->out, p, bytes);
	r = scrub_add(j->scrub, p, bytes);
	buf_commit(&coded, bytes);
	buf_done(&coded);
	if (r == -E2BIG) /* they could come back unseen */
		return fail(j, 431,
			"the credentials with a secret are too many, or larger than 32 KiB", "", 0);
	return r < 0 ? r : 1;
}

/* Puts "Basic ..." if there is a placeholder in it. Returns whether it did, or an error. */
static int put_basic(struct job *j, const char *value, size_t n)
{
	struct buf decoded = BUF_INIT(REWRITE_HEAD_MAX);
	struct fields plain;
	size_t blanks = 6;
	int found = 0;

	if (n < 7 || strncasecmp(value, "basic ", 6) != 0)
		return 0;
	while (value[blanks] == ' ')
		blanks++;
	if (base64_decode_to(&decoded, value + blanks, n - blanks) == 0 && buf_len(&decoded)) {
		fields_init(&plain, REWRITE_HEAD_MAX / 4 * 3, 1);
		found = replace_in_basic(j, &decoded, &plain);
		if (found > 0) {
			fields_put(j->out, "Basic ", 6);
			found = put_base64(j, fields_value(&plain, 0), plain.items[0].value_bytes);
		}
		fields_done(&plain);
	}
	buf_done(&decoded);
	return found;
}

static int put_field(struct job *j, const struct http_header *f)
{
	int r;

	fields_begin(j->out, f->name, f->name_len);
	r = strcasecmp(f->name, "authorization") == 0 ? put_basic(j, f->value, f->value_len) : 0;
	if (r == 0)
		r = put_replaced(j, f->value, f->value_len);
	fields_end(j->out, r > 0);
	return r < 0 ? r : 0;
}

/* --- requests --- */

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (strcasecmp(name, *list) == 0)
			return true;
	return false;
}

static bool is_replaced(const struct job *j, const char *name)
{
	for (unsigned i = 0; j->rule && i < j->rule->header_count; i++)
		if (strcasecmp(name, j->rule->headers[i].name) == 0)
			return true;
	return false;
}

/* Whether a field of the guest goes no further. */
static bool is_dropped(const struct job *j, const struct http_headers *in, const char *name)
{
	static const char *const never[] = {"host", "expect", "http2-settings", NULL};
	static const char *const coded[] = {"accept-encoding", "sec-websocket-extensions", NULL};

	return http_proxy_is_hop(in, name) || is_one_of(name, never) ||
	       (j->plain && is_one_of(name, coded)) || is_replaced(j, name);
}

static int rewrite(struct job *j, const struct http_headers *in)
{
	int r = 0;

	for (unsigned i = 0; i < in->count && r == 0; i++)
		if (!is_dropped(j, in, in->items[i].name))
			r = put_field(j, &in->items[i]);
	for (unsigned i = 0; j->rule && i < j->rule->header_count && r == 0; i++)
		r = put_rule(j, &j->rule->headers[i]);
	if (r == 0 && j->plain && !is_replaced(j, "accept-encoding"))
		fields_add_text(j->out, "accept-encoding", "identity");
	return r;
}

int rewrite_request(const struct intercept *intercept, const char *host,
	const struct http_headers *in, bool plain, struct scrub *scrub, struct fields *out,
	struct rewrite_used *used, struct rewrite_failure *why)
{
	struct job j = {.intercept = intercept,
		.rule = intercept_find(intercept, host),
		.host = host,
		.scrub = scrub,
		.out = out,
		.used = used,
		.why = why,
		.plain = plain || scrub_active(scrub)};
	int r = rewrite(&j, in);

	r = r ? r : fields_error(out);
	if (r == -EMSGSIZE)
		return fail(&j, 502, "with its secrets the head is larger than 128 KiB", "", 0);
	return r;
}

int rewrite_request_trailers(const struct intercept *intercept, const char *host,
	const struct http_headers *in, struct fields *out)
{
	const struct job j = {.rule = intercept_find(intercept, host)};

	for (unsigned i = 0; i < in->count; i++) {
		const struct http_header *f = &in->items[i];

		if (!is_dropped(&j, in, f->name))
			fields_add(out, f->name, f->name_len, f->value, f->value_len);
	}
	return fields_error(out);
}

/* --- answers --- */

static void put_scrubbed(struct fields *out, const struct http_header *f, const struct scrub *scrub)
{
	unsigned n = out->count;

	fields_add(out, f->name, f->name_len, f->value, f->value_len);
	if (fields_error(out))
		return;
	scrub_text(scrub, fields_name(out, n), f->name_len);
	scrub_text(scrub, fields_value(out, n), f->value_len);
}

int rewrite_answer(const struct http_headers *in, const struct scrub *scrub, struct fields *out)
{
	for (unsigned i = 0; i < in->count; i++)
		if (!http_proxy_is_hop(in, in->items[i].name) &&
			strcasecmp(in->items[i].name, "alt-svc") != 0)
			put_scrubbed(out, &in->items[i], scrub);
	return fields_error(out);
}

bool rewrite_is_coded(const struct http_headers *in)
{
	const struct http_header *f;
	unsigned i = 0;

	while ((f = http_header_each(in, "content-encoding", &i)))
		if (f->value_len && strcasecmp(f->value, "identity") != 0)
			return true;
	return false;
}
