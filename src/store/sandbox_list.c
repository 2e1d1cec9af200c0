/* Lists of sandboxes. The SQL is assembled from the filter, because the best index depends on it.
 * One fixed statement with "(? IS NULL OR column = ?)" per filter would read the whole table for
 * one page. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "proto/json_text.h"
#include "store/page.h"
#include "store/sandboxes.h"
#include "store/sandboxes_internal.h"
#include "store/text.h"

enum { SQL_MAX = 8192, BINDS_MAX = 16 + 2 * STORE_FILTER_PAIRS_MAX };

struct bind {
	const char *text; /* NULL: bind the number */
	uint64_t number;
};

/* A statement under construction. Errors are sticky in `bad`. */
struct builder {
	struct buf sql;
	struct bind binds[BINDS_MAX];
	unsigned count;
	bool bad;
};

static void builder_done(struct builder *b)
{
	buf_done(&b->sql);
}

static void add(struct builder *b, const char *sql)
{
	if (buf_add_str(&b->sql, sql) < 0)
		b->bad = true;
}

static void bind(struct builder *b, struct bind v)
{
	if (b->count == BINDS_MAX)
		b->bad = true;
	else
		b->binds[b->count++] = v;
}

static void add_text(struct builder *b, const char *sql, const char *v)
{
	add(b, sql);
	bind(b, (struct bind){.text = v});
}

static void add_number(struct builder *b, const char *sql, uint64_t v)
{
	add(b, sql);
	bind(b, (struct bind){.number = v});
}

/* States that clients see as running; they have their own index. */
enum { RUNNING_STATES = STORE_STATE_BIT(STORE_RUNNING) | STORE_STATE_BIT(STORE_SNAPSHOTTING) };

static bool only_running(const struct store_sandbox_filter *f)
{
	return f->states && !(f->states & ~(uint32_t)RUNNING_STATES);
}

/* Chooses the table to walk. With a key and metadata, it is the metadata table, by the first pair:
 * it has the order of the list. Otherwise it is the sandboxes in order, and pairs are looked up per
 * row. */
static unsigned add_source(struct builder *b, const struct store_sandbox_filter *f)
{
	add(b, "SELECT s.id, s.key_id, s.template_id, s.template_alias, s.build_id, s.state, "
	       "s.created_ns, s.started_ns, s.resumed_ns, s.end_ns, s.timeout_ns, s.secure, "
	       "s.auto_pause, s.auto_pause_memory, s.auto_resume, s.pause_memory, "
	       "s.metadata_json, s.env_json, s.envd_token, s.traffic_token, s.envd_version, "
	       "s.network_json, s.extra_json, s.directory, s.cpus, s.memory_bytes, "
	       "s.disk_bytes, s.vmm_pid, s.vmm_start");
	if (f->key_id && f->metadata_count) {
		add(b, " FROM sandbox_metadata o CROSS JOIN sandboxes s ON s.seq = o.sandbox");
		add_text(b, " WHERE o.key_id = ?", f->key_id);
		add_text(b, " AND o.name = ?", f->metadata[0].key);
		add_text(b, " AND o.value = ?", f->metadata[0].value);
		return 1;
	}
	if (f->key_id && only_running(f))
		add(b, " FROM sandboxes s INDEXED BY sandboxes_running WHERE s.state IN (0, 3)");
	else
		add(b, " FROM sandboxes s WHERE 1");
	if (f->key_id)
		add_text(b, " AND s.key_id = ?", f->key_id);
	return 0;
}

static void add_filters(struct builder *b, const struct store_sandbox_filter *f, unsigned pairs)
{
	if (f->states && (f->states & STORE_ANY_STATE) != STORE_ANY_STATE)
		add_number(b, " AND (? >> s.state) & 1", f->states);
	if (f->template) {
		add_text(b, " AND (s.template_id = ?", f->template);
		add_text(b, " OR s.template_alias = ?", f->template);
		add_text(b, " OR s.extra_json ->> '$." STORE_EXTRA_SNAPSHOT "' = ?)", f->template);
	}
	for (unsigned i = pairs; i < f->metadata_count; i++) {
		add_text(b,
			" AND EXISTS (SELECT 1 FROM sandbox_metadata m WHERE m.sandbox = s.seq"
			" AND m.name = ?",
			f->metadata[i].key);
		add_text(b, " AND m.value = ?)", f->metadata[i].value);
	}
}

/* `o` is the metadata table when the order comes from there. */
static void add_started(struct builder *b, const struct store_sandbox_filter *f, bool from_metadata)
{
	if (!f->started_after_ns)
		return;
	add(b, from_metadata ? " AND o.started_ns" : " AND s.started_ns");
	add_number(b, " >= ?", f->started_after_ns);
}

static void add_order(struct builder *b, const struct store_sandbox_filter *f,
	const struct page *after, bool from_metadata)
{
	const char *started = from_metadata ? "o.started_ns" : "s.started_ns";
	const char *id = from_metadata ? "o.sandbox_id" : "s.id";
	const char *direction = f->ascending ? "" : " DESC";

	if (after) {
		if (buf_printf(&b->sql, " AND (%s, %s) %s ", started, id,
			    f->ascending ? ">" : "<") < 0)
			b->bad = true;
		add_number(b, "(?", after->started_ns);
		add_text(b, ", ?)", after->id);
	}
	if (buf_printf(&b->sql, " ORDER BY %s%s, %s%s", started, direction, id, direction) < 0)
		b->bad = true;
	/* One row more than asked for shows whether there is another page. */
	add_number(b, " LIMIT ?", (uint64_t)f->limit + 1);
}

static int finish(struct builder *b, struct error *e)
{
	if (buf_add_u8(&b->sql, 0) < 0 || b->bad)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return 0;
}

static int build(struct builder *b, const struct store_sandbox_filter *f, const struct page *after,
	struct error *e)
{
	unsigned pairs;

	buf_init(&b->sql, SQL_MAX);
	pairs = add_source(b, f);
	add_filters(b, f, pairs);
	add_started(b, f, pairs > 0);
	add_order(b, f, after, pairs > 0);
	return finish(b, e);
}

/* Walks those that run, whatever the filter: there are fewer of them than of a key's sandboxes. */
static int build_count(struct builder *b, const struct store_sandbox_filter *f, struct error *e)
{
	buf_init(&b->sql, SQL_MAX);
	add(b, "SELECT count(*) FROM sandboxes s INDEXED BY sandboxes_state "
	       "WHERE s.state IN (0, 3)");
	if (f->key_id)
		add_text(b, " AND s.key_id = ?", f->key_id);
	add_filters(b, f, 0);
	add_started(b, f, false);
	return finish(b, e);
}

static struct query query_of(struct store *s, const struct builder *b)
{
	struct query q = db_query_once(s, (const char *)buf_head(&b->sql));

	for (unsigned i = 0; i < b->count; i++) {
		if (b->binds[i].text)
			query_text(&q, b->binds[i].text);
		else
			query_u64(&q, b->binds[i].number);
	}
	return q;
}

static int check_filter(const struct store_sandbox_filter *f, struct page *after, struct error *e)
{
	int r = 0;

	if (f->limit < 1 || f->limit > STORE_LIST_MAX)
		return error_set(e, ERROR_USAGE, EINVAL, "limit is not 1-%d", STORE_LIST_MAX);
	if (f->metadata_count > STORE_FILTER_PAIRS_MAX)
		return error_set(e, ERROR_USAGE, EINVAL, "more than %d metadata filters",
			STORE_FILTER_PAIRS_MAX);
	for (unsigned i = 0; r == 0 && i < f->metadata_count; i++) {
		const struct store_pair *p = &f->metadata[i];

		if (!json_text_is_utf8(p->key, strlen(p->key)) ||
			!json_text_is_utf8(p->value, strlen(p->value)))
			r = error_set(
				e, ERROR_USAGE, EINVAL, "the metadata filter is not valid UTF-8");
	}
	if (r == 0 && f->token && *f->token) {
		r = page_decode(f->token, after, e);
		if (r == 0 && after->ascending != f->ascending)
			r = error_set(e, ERROR_USAGE, EINVAL,
				"the page token is of the other order; list again from the first "
				"page");
	}
	return r;
}

static void remember(struct page *p, const struct store_sandbox *sb, bool ascending)
{
	p->started_ns = sb->started_ns;
	p->ascending = ascending;
	(void)strncpy(p->id, sb->id, sizeof(p->id) - 1); /* checked at insert; p starts zeroed */
	p->id[strnlen(sb->id, sizeof(p->id) - 1)] = '\0';
}

static int give_rows(struct query *q, const struct store_sandbox_filter *f,
	int (*each)(void *arg, const struct store_sandbox *sb), void *arg, char *ret_next,
	struct error *e)
{
	struct page last = {0};
	uint32_t given = 0;
	int r;

	while ((r = query_step(q, e)) > 0) {
		struct store_sandbox sb;

		if (given++ == f->limit) {
			page_encode(&last, ret_next);
			return 0;
		}
		sandbox_read(q, f->network ? SANDBOX_NETWORK : SANDBOX_NOTHING, &sb);
		remember(&last, &sb, f->ascending);
		r = each(arg, &sb);
		if (r)
			return r;
	}
	return r;
}

int store_sandbox_list(struct store *s, const struct store_sandbox_filter *f,
	int (*each)(void *arg, const struct store_sandbox *sb), void *arg,
	char ret_next[STORE_PAGE_TOKEN_BYTES], struct error *e)
{
	_cleanup_(builder_done) struct builder b = {0};
	_cleanup_(query_done) struct query q = {.store = s};
	struct page after = {0};
	int r = check_filter(f, &after, e);

	ret_next[0] = '\0';
	if (r == 0)
		r = build(&b, f, after.id[0] ? &after : NULL, e);
	if (r < 0)
		return r;
	q = query_of(s, &b);
	return give_rows(&q, f, each, arg, ret_next, e);
}

int store_sandbox_count_running(
	struct store *s, const struct store_sandbox_filter *f, uint64_t *ret, struct error *e)
{
	_cleanup_(builder_done) struct builder b = {0};
	_cleanup_(query_done) struct query q = {.store = s};
	struct store_sandbox_filter running = *f;
	struct page unused = {0};
	int r;

	running.states = 0; /* in the statement */
	running.token = NULL;
	r = check_filter(&running, &unused, e);
	if (r == 0)
		r = build_count(&b, &running, e);
	if (r < 0)
		return r;
	q = query_of(s, &b);
	r = query_step(&q, e);
	if (r > 0)
		*ret = row_u64(&q);
	return r < 0 ? r : 0;
}

/* Reads and copies one row at a time, so the callback may change the table. */
int store_sandbox_each(struct store *s, bool secrets,
	int (*each)(void *arg, const struct store_sandbox *sb), void *arg, struct error *e)
{
	uint64_t seq = 0;
	int r;

	for (;;) {
		_cleanup_(store_sandbox_freep) struct store_sandbox *copy = NULL;
		_cleanup_(query_done) struct query q = db_query(s, STMT_SANDBOX_NEXT,
			"SELECT " SANDBOX_COLUMNS ", seq FROM sandboxes WHERE seq > ? "
			"ORDER BY seq LIMIT 1");
		struct store_sandbox sb;

		query_u64(&q, seq);
		r = query_step(&q, e);
		if (r <= 0)
			return r;
		sandbox_read(&q, secrets ? SANDBOX_ALL : SANDBOX_NOTHING, &sb);
		seq = row_u64(&q);
		copy = sandbox_copy(&sb);
		query_done(&q);
		if (!copy)
			return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		r = each(arg, copy);
		if (r)
			return r;
	}
}

struct expired {
	uint64_t end_ns;
	char id[STORE_ID_MAX + 1];
};

int store_sandbox_expired(struct store *s, uint64_t now_ns,
	int (*each)(void *arg, const char *id, uint64_t end_ns), void *arg, bool *ret_more,
	struct error *e)
{
	struct expired found[STORE_EXPIRED_MAX];
	struct query q = db_query(s, STMT_SANDBOX_EXPIRED,
		"SELECT end_ns, id FROM sandboxes INDEXED BY sandboxes_end "
		"WHERE state = 0 AND end_ns <= ? ORDER BY end_ns LIMIT ?");
	unsigned n = 0;
	int r;

	query_u64(&q, now_ns);
	query_u64(&q, STORE_EXPIRED_MAX);
	while (n < STORE_EXPIRED_MAX && (r = query_step(&q, e)) > 0) {
		found[n].end_ns = row_u64(&q);
		row_copy(&q, found[n].id, sizeof(found[n].id));
		n++;
	}
	query_done(&q);
	if (n < STORE_EXPIRED_MAX && r < 0)
		return r;
	*ret_more = n == STORE_EXPIRED_MAX;
	r = 0;
	for (unsigned i = 0; r == 0 && i < n; i++)
		r = each(arg, found[i].id, found[i].end_ns);
	return r;
}
