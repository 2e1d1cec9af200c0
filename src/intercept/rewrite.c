#include "intercept/rewrite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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
	const struct rewrite_set *set;
	bool plain;  /* the answer must not be compressed */
	bool hidden; /* secrets that are put are scrubbed from the answer */
	bool coded;  /* likewise, and base64 is made of what is put */
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
	if (j->hidden && scrub_add(j->scrub, n) < 0)
		return fail(j, 431,
			"rules set more than four secrets, or there is no memory: ", s->name,
			strlen(s->name));
	if (j->coded && scrub_add_base64(j->scrub, n, fields_put_bytes(j->out)) < 0)
		return fail(j, 431,
			"credentials have more than four secrets, or one above 24 KiB: ", s->name,
			strlen(s->name)); /* they could come back unseen */
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
	if (n < 0 && strncmp(*text, RULES_NO_SECRET, sizeof(RULES_NO_SECRET) - 1) == 0)
		return fail(j, 502, "only a sandbox's own policy may name secrets", "", 0);
	if (n < 0)
		return fail(j, 502, "a rule names a secret that does not exist: ", name,
			(size_t)(end - name));
	*text = end + 1;
	return put_secret(j, (unsigned)n);
}

static int put_rule(struct job *j, const char *name, const char *text)
{
	const char *at;
	int r = 0;

	fields_begin(j->out, name, strlen(name));
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

/* A text, with the next position of each placeholder in it. So each part of the text is searched
 * once for each placeholder. */
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

/* Returns the next placeholder, or NULL. If two begin at one place, the longer one counts. */
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

/* Writes a text with secrets in place of placeholders. Returns 1 if there were any, 0, or
 * -EINVAL. */
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

/* Writes the plain text of "Basic" credentials, with secrets in place of placeholders, as a field
 * of `plain`. Returns whether there was a placeholder. */
static int replace_in_basic(struct job *j, const struct buf *decoded, struct fields *plain)
{
	struct job inner = *j;
	int found;

	inner.out = plain;
	inner.coded = true;
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

	coded.secret = true;
	p = (char *)buf_reserve(&coded, bytes);
	if (!p)
		return -ENOMEM;
	base64_encode(p, text, n);
	fields_put(j->out, p, bytes);
	buf_commit(&coded, bytes);
	buf_done(&coded);
	return 1;
}

/* Writes "Basic ..." if the credentials have a placeholder. Returns 1 if it did, 0, or an error. */
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

/* --- headers that rules set --- */

static bool is_set(const struct rewrite_set *set, const char *name)
{
	for (unsigned i = 0; set && i < set->count; i++)
		if (http_is_same_name(name, set->headers[i].name))
			return true;
	return false;
}

int rewrite_set_add(struct rewrite_set *set, const struct rules_rule *rule)
{
	struct rules_header *grown = reallocarray(
		set->headers, set->count + rule->header_count, sizeof(set->headers[0]));

	if (!grown)
		return -ENOMEM;
	set->headers = grown;
	for (unsigned i = 0; i < rule->header_count; i++) {
		const struct rules_header *h = &rule->headers[i];
		struct rules_header *copy = &grown[set->count];

		if (is_set(set, h->name))
			continue;
		*copy = (struct rules_header){strdup(h->name), h->value ? strdup(h->value) : NULL};
		set->count++;
		if (!copy->name || (h->value && !copy->value))
			return -ENOMEM;
	}
	return 0;
}

size_t rewrite_set_memory(const struct rewrite_set *set)
{
	size_t bytes = set->count * sizeof(set->headers[0]);

	for (unsigned i = 0; i < set->count; i++) {
		const struct rules_header *h = &set->headers[i];

		bytes += strlen(h->name) + 1 + (h->value ? strlen(h->value) + 1 : 0);
	}
	return bytes;
}

void rewrite_set_done(struct rewrite_set *set)
{
	for (unsigned i = 0; i < set->count; i++) {
		free(set->headers[i].name);
		free(set->headers[i].value);
	}
	free(set->headers);
	*set = (struct rewrite_set){NULL};
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
	if (is_set(j->set, name))
		return true;
	for (unsigned i = 0; j->rule && i < j->rule->header_count; i++)
		if (http_is_same_name(name, j->rule->headers[i].name))
			return true;
	return false;
}

/* Whether a field of the guest goes no further. */
static bool is_dropped(const struct job *j, const struct http_headers *in, const char *name)
{
	static const char *const never[] = {"host", "expect", "http2-settings", NULL};
	static const char *const coded[] = {"accept-encoding", "grpc-accept-encoding",
		"connect-accept-encoding", "sec-websocket-extensions", NULL};

	return http_proxy_is_hop(in, name) || is_one_of(name, never) ||
	       (j->plain && is_one_of(name, coded)) || is_replaced(j, name);
}

static int put_set(struct job *j)
{
	int r = 0;

	j->hidden = true;
	for (unsigned i = 0; i < j->set->count && r == 0; i++)
		if (j->set->headers[i].value)
			r = put_rule(j, j->set->headers[i].name, j->set->headers[i].value);
	j->hidden = false;
	return r;
}

static int rewrite(struct job *j, const struct http_headers *in)
{
	int r = 0;

	for (unsigned i = 0; i < in->count && r == 0; i++)
		if (!is_dropped(j, in, in->items[i].name))
			r = put_field(j, &in->items[i]);
	for (unsigned i = 0; j->rule && i < j->rule->header_count && r == 0; i++)
		if (!is_set(j->set, j->rule->headers[i].name))
			r = put_rule(j, j->rule->headers[i].name, j->rule->headers[i].value);
	r = r ? r : put_set(j);
	if (r == 0 && j->plain && !is_replaced(j, "accept-encoding"))
		fields_add_text(j->out, "accept-encoding", "identity");
	return r;
}

static bool has_reference(const struct rewrite_set *set)
{
	for (unsigned i = 0; i < set->count; i++)
		if (set->headers[i].value && strstr(set->headers[i].value, marker))
			return true;
	return false;
}

int rewrite_request(const struct intercept *intercept, const char *host,
	const struct http_headers *in, const struct rewrite_set *set, bool plain,
	struct scrub *scrub, struct fields *out, struct rewrite_used *used,
	struct rewrite_failure *why)
{
	struct job j = {.intercept = intercept,
		.rule = intercept_find(intercept, host),
		.host = host,
		.scrub = scrub,
		.out = out,
		.used = used,
		.why = why,
		.set = set,
		.plain = plain || scrub_active(scrub) || has_reference(set)};
	int r = rewrite(&j, in);

	r = r ? r : fields_error(out);
	if (r == -EMSGSIZE)
		return fail(&j, 502, "with its secrets the head is larger than 128 KiB", "", 0);
	return r;
}

int rewrite_request_trailers(const struct intercept *intercept, const char *host,
	const struct http_headers *in, const struct rewrite_set *set, struct fields *out)
{
	const struct job j = {.rule = intercept_find(intercept, host), .set = set};

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
