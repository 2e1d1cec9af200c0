#include "store/snapshots.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/db.h"
#include "store/page.h"
#include "store/tags.h"
#include "store/text.h"

#define COLUMNS                                                                                    \
	"id, key_id, name, sandbox_id, template_id, template_alias, created_ns, cpus, "            \
	"memory_bytes, disk_bytes, own_bytes, memory"

static const char name_chars[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
static const char tag_chars[] = "abcdefghijklmnopqrstuvwxyz0123456789_-.";

static void read_row(struct query *q, struct store_snapshot *sn)
{
	row_copy(q, sn->id, sizeof(sn->id));
	row_copy(q, sn->key_id, sizeof(sn->key_id));
	row_copy(q, sn->name, sizeof(sn->name));
	row_copy(q, sn->sandbox_id, sizeof(sn->sandbox_id));
	row_copy(q, sn->template_id, sizeof(sn->template_id));
	row_copy(q, sn->template_alias, sizeof(sn->template_alias));
	sn->created_ns = row_u64(q);
	sn->cpus = (uint32_t)row_u64(q);
	sn->memory_bytes = row_u64(q);
	sn->disk_bytes = row_u64(q);
	sn->own_bytes = row_u64(q);
	sn->memory = row_u64(q);
}

static int check_word(const char *what, const char *s, const char *chars, struct error *e)
{
	size_t n = strlen(s);

	if (n < 1 || n > STORE_SNAPSHOT_NAME_MAX || strspn(s, chars) != n)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the %s of a snapshot is 1 to %d of the characters a-z 0-9 _ -%s", what,
			STORE_SNAPSHOT_NAME_MAX, chars == tag_chars ? " ." : "");
	return 0;
}

static int check(const struct store_snapshot *sn, const char *tag, struct error *e)
{
	int r = 0;

	if (!text_is_id(sn->id) || strlen(sn->id) != STORE_SNAPSHOT_ID_BYTES - 1)
		r = error_set(e, ERROR_USAGE, EINVAL, "the id of a snapshot is 20 of a-z 0-9");
	if (r == 0 && *sn->name)
		r = check_word("name", sn->name, name_chars, e);
	return r == 0 ? check_word("tag", tag, tag_chars, e) : r;
}

/* The same in SQL: TEMPLATE, and in the schema. */
void store_snapshot_template(
	const struct store_snapshot *sn, char ret[STORE_SNAPSHOT_TEMPLATE_BYTES])
{
	const bool named = *sn->name;

	(void)snprintf(ret, STORE_SNAPSHOT_TEMPLATE_BYTES, "%s%s%s", named ? sn->key_id : sn->id,
		named ? "/" : "", sn->name); /* fits */
}

#define TEMPLATE "ifnull(s.key_id || '/' || s.name, s.id)"

static int insert(struct store *s, const struct store_snapshot *sn, struct error *e)
{
	struct query q = db_query(s, STMT_SNAPSHOT_INSERT,
		"INSERT INTO snapshots (" COLUMNS ") "
		"VALUES (?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?, ?, ?)");

	query_text(&q, sn->id);
	query_text(&q, sn->key_id);
	query_text(&q, sn->name);
	query_text(&q, sn->sandbox_id);
	query_text(&q, sn->template_id);
	query_text(&q, sn->template_alias);
	query_u64(&q, sn->created_ns);
	query_u64(&q, sn->cpus);
	query_u64(&q, sn->memory_bytes);
	query_u64(&q, sn->disk_bytes);
	query_u64(&q, sn->own_bytes);
	query_u64(&q, sn->memory);
	return query_run(&q, NULL, e);
}

int store_snapshot_insert(
	struct store *s, const struct store_snapshot *sn, const char *tag, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	char template[STORE_SNAPSHOT_TEMPLATE_BYTES];
	int r = check(sn, tag, e);

	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r == 0)
		r = insert(s, sn, e);
	store_snapshot_template(sn, template);
	if (r == 0)
		r = store_tag_assign(s, template, tag, sn->id, sn->created_ns, e);
	return r == 0 ? txn_commit(&t, true, e) : r;
}

/* Returns 1 when found. */
static int find_by_id(struct store *s, const char *key_id, const char *id,
	struct store_snapshot *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_SNAPSHOT_BY_ID,
		"SELECT " COLUMNS " FROM snapshots WHERE id = ? AND (?2 IS NULL OR key_id = ?2)");
	int r;

	query_text(&q, id);
	query_text(&q, key_id);
	r = query_step(&q, e);
	if (r > 0)
		read_row(&q, ret);
	return r;
}

static struct query newest_named(struct store *s)
{
	return db_query(s, STMT_SNAPSHOT_NEWEST_NAMED,
		"SELECT " COLUMNS " FROM snapshots WHERE id = (SELECT id FROM ("
		"SELECT s.id, max(s.created_ns) FROM snapshots s INDEXED BY snapshots_name "
		"CROSS JOIN tags t ON t.template_id = " TEMPLATE " AND t.tag = ?2 "
		"AND t.current = 1 AND t.build_id = s.id WHERE s.name = ?1))");
}

static struct query named(struct store *s)
{
	return db_query(s, STMT_SNAPSHOT_BY_NAME,
		"SELECT " COLUMNS " FROM snapshots WHERE id = (SELECT build_id FROM tags "
		"WHERE template_id = ?3 || '/' || ?1 AND tag = ?2 AND current = 1)");
}

static int find_by_name(struct store *s, const char *key_id, const char *name, const char *tag,
	struct store_snapshot *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = key_id ? named(s) : newest_named(s);
	int r;

	query_text(&q, name);
	query_text(&q, tag);
	if (key_id)
		query_text(&q, key_id);
	r = query_step(&q, e);
	if (r > 0)
		read_row(&q, ret);
	return r;
}

static int not_found(struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such snapshot");
}

int store_snapshot_find(struct store *s, const char *key_id, const char *word, const char *tag,
	struct store_snapshot *ret, struct error *e)
{
	struct store_snapshot found = {0};
	int r = find_by_id(s, key_id, word, &found, e);

	if (r == 0)
		r = find_by_name(s, key_id, word, tag, &found, e);
	if (r < 0)
		return r;
	if (r == 0)
		return not_found(e);
	*ret = found;
	return 0;
}

/* --- lists --- */

static const char list_sql[] =
	"SELECT " COLUMNS " FROM snapshots s WHERE (?1 IS NULL OR key_id = ?1) "
	"AND (?2 IS NULL OR sandbox_id = ?2) AND (?3 IS NULL OR name = ?3) "
	"AND (?4 IS NULL OR EXISTS (SELECT 1 FROM tags t WHERE t.template_id = " TEMPLATE
	" AND t.tag = ?4 AND t.current = 1 AND t.build_id = s.id)) "
	"AND (created_ns, id) < (?5, ?6) ORDER BY created_ns DESC, id DESC LIMIT ?7";

/* There are few snapshots, so one statement without an index per filter will do. */
static struct query list_query(
	struct store *s, const struct store_snapshot_filter *f, const struct page *after)
{
	struct query q = db_query(s, STMT_SNAPSHOT_LIST, list_sql);

	query_text(&q, f->key_id);
	query_text(&q, f->sandbox_id);
	query_text(&q, f->name);
	query_text(&q, f->tag);
	query_u64(&q, *after->id ? after->started_ns : STORE_NEVER_NS);
	query_text(&q, after->id);
	query_u64(&q, (uint64_t)f->limit + 1); /* one row more shows whether there is another
					        * page */
	return q;
}

static int give_rows(struct query *q, const struct store_snapshot_filter *f,
	int (*each)(void *arg, const struct store_snapshot *sn), void *arg, char *ret_next,
	struct error *e)
{
	struct store_snapshot sn = {0};
	struct page last = {0};
	uint32_t given = 0;
	int r;

	while ((r = query_step(q, e)) > 0) {
		if (given++ == f->limit) {
			page_encode(&last, ret_next);
			return 0;
		}
		read_row(q, &sn);
		last.started_ns = sn.created_ns;
		memcpy(last.id, sn.id, sizeof(sn.id));
		r = each(arg, &sn);
		if (r)
			return r;
	}
	return r;
}

int store_snapshot_list(struct store *s, const struct store_snapshot_filter *f,
	int (*each)(void *arg, const struct store_snapshot *sn), void *arg,
	char ret_next[STORE_PAGE_TOKEN_BYTES], struct error *e)
{
	struct page after = {0};
	int r = 0;

	ret_next[0] = '\0';
	if (f->limit < 1 || f->limit > STORE_SNAPSHOTS_LIST_MAX)
		r = error_set(
			e, ERROR_USAGE, EINVAL, "limit is not 1-%d", STORE_SNAPSHOTS_LIST_MAX);
	if (r == 0 && f->token && *f->token)
		r = page_decode(f->token, &after, e);
	if (r < 0)
		return r;

	_cleanup_(query_done) struct query q = list_query(s, f, &after);

	return give_rows(&q, f, each, arg, ret_next, e);
}

int store_snapshot_delete(struct store *s, const char *id, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	unsigned changes = 0;
	struct query q;
	int r = txn_begin(&t, s, e);

	if (r < 0)
		return r;
	q = db_query(s, STMT_SNAPSHOT_DELETE, "DELETE FROM snapshots WHERE id = ?");
	query_text(&q, id);
	r = query_run(&q, &changes, e);
	if (r == 0 && !changes)
		r = not_found(e);
	if (r == 0)
		r = store_tag_remove_of(s, id, e);
	return r == 0 ? txn_commit(&t, true, e) : r;
}
