#include "store/tags.h"

#include <errno.h>

#include "store/db.h"
#include "store/text.h"

#define COLUMNS                                                                                    \
	"t.seq, t.id, t.tag, t.build_id, t.at_ns, ifnull(b.created_ns, s.created_ns), "            \
	"ifnull(b.finished_ns, s.created_ns) FROM tags t "                                         \
	"LEFT JOIN builds b ON b.id = t.build_id LEFT JOIN snapshots s ON s.id = t.build_id "

static void read_row(struct query *q, struct store_tag *t)
{
	t->seq = row_u64(q);
	row_copy(q, t->id, sizeof(t->id));
	row_copy(q, t->tag, sizeof(t->tag));
	row_copy(q, t->build_id, sizeof(t->build_id));
	t->at_ns = row_u64(q);
	t->build_created_ns = row_u64(q);
	t->build_finished_ns = row_u64(q);
}

static int not_found(const char *tag, struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no tag '%.128s'", tag);
}

int store_tag_get(struct store *s, const char *template_id, const char *tag, struct store_tag *ret,
	struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_TAG_GET,
		"SELECT " COLUMNS "WHERE t.template_id = ? AND t.tag = ? AND t.current = 1");
	int r;

	query_text(&q, template_id);
	query_text(&q, tag);
	r = query_step(&q, e);
	if (r <= 0)
		return r < 0 ? r : not_found(tag, e);
	read_row(&q, ret);
	return 0;
}

static int give_rows(struct query *q, int (*each)(void *arg, const struct store_tag *t), void *arg,
	struct error *e)
{
	int r;

	while ((r = query_step(q, e)) > 0) {
		struct store_tag t = {0};

		read_row(q, &t);
		r = each(arg, &t);
		if (r)
			break;
	}
	return r;
}

int store_tag_list(struct store *s, const char *template_id,
	int (*each)(void *arg, const struct store_tag *t), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_TAG_LIST,
		"SELECT " COLUMNS "WHERE t.template_id = ? AND t.current = 1 ORDER BY t.tag");

	query_text(&q, template_id);
	return give_rows(&q, each, arg, e);
}

int store_tag_history(struct store *s, const char *template_id, const char *tag,
	uint64_t before_seq, uint32_t limit, int (*each)(void *arg, const struct store_tag *t),
	void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_TAG_HISTORY,
		"SELECT " COLUMNS "WHERE t.template_id = ? AND t.tag = ? AND t.seq < ? "
		"ORDER BY t.seq DESC LIMIT ?");

	query_text(&q, template_id);
	query_text(&q, tag);
	query_u64(&q, before_seq ? before_seq : INT64_MAX);
	query_u64(&q, limit);
	return give_rows(&q, each, arg, e);
}

int store_tag_list_of(struct store *s, const char *template_id, const char *build_id,
	int (*each)(void *arg, const struct store_tag *t), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_TAG_LIST_OF,
		"SELECT " COLUMNS "WHERE t.build_id = ? AND t.template_id = ? AND t.current = 1 "
		"ORDER BY t.seq");

	query_text(&q, build_id);
	query_text(&q, template_id);
	return give_rows(&q, each, arg, e);
}

int store_tag_count_of(struct store *s, const char *template_id, const char *build_id,
	uint64_t *ret, struct error *e)
{
	struct query q = db_query(s, STMT_TAG_COUNT_OF,
		"SELECT count(*) FROM tags INDEXED BY tags_current WHERE template_id = ? AND "
		"build_id = ? AND current = 1");

	query_text(&q, template_id);
	query_text(&q, build_id);
	return query_number(&q, ret, e);
}

/* --- changes --- */

static int check_room(struct store *s, const char *template_id, struct error *e)
{
	struct query q = db_query(s, STMT_TAG_COUNT,
		"SELECT count(*) FROM tags INDEXED BY tags_current WHERE template_id = ? AND "
		"current = 1");
	uint64_t n = 0;
	int r;

	query_text(&q, template_id);
	r = query_number(&q, &n, e);
	if (r == 0 && n >= STORE_TAGS_MAX)
		r = error_set(e, ERROR_TOO_MANY, ENOBUFS,
			"the template has %d tags already: remove one first", STORE_TAGS_MAX);
	return r == 0 ? db_check_space(s, e) : r;
}

static int hide(struct store *s, const char *template_id, const char *tag, unsigned *ret_changes,
	struct error *e)
{
	struct query q = db_query(s, STMT_TAG_HIDE,
		"UPDATE tags SET current = 0 WHERE template_id = ? AND tag = ? AND current = 1");

	query_text(&q, template_id);
	query_text(&q, tag);
	return query_run(&q, ret_changes, e);
}

static int insert(struct store *s, const char *template_id, const char *tag, const char *build_id,
	uint64_t at_ns, struct error *e)
{
	char id[STORE_UUID_BYTES];
	struct query q;
	int r = db_random_uuid(id, e);

	if (r < 0)
		return r;
	q = db_query(s, STMT_TAG_INSERT,
		"INSERT INTO tags (id, template_id, tag, build_id, at_ns, current) "
		"VALUES (?, ?, ?, ?, ?, 1)");
	query_text(&q, id);
	query_text(&q, template_id);
	query_text(&q, tag);
	query_text(&q, build_id);
	query_u64(&q, at_ns);
	return query_run(&q, NULL, e);
}

static int forget_oldest(struct store *s, const char *template_id, const char *tag, struct error *e)
{
	struct query q = db_query(s, STMT_TAG_FORGET,
		"DELETE FROM tags WHERE template_id = ?1 AND tag = ?2 AND seq <= (SELECT seq FROM "
		"tags WHERE template_id = ?1 AND tag = ?2 ORDER BY seq DESC LIMIT 1 OFFSET ?3)");

	query_text(&q, template_id);
	query_text(&q, tag);
	query_u64(&q, STORE_TAG_HISTORY);
	return query_run(&q, NULL, e);
}

/* Also bounds the history of removed tags, as a client may make and remove any number of tags. */
static int forget_hidden(struct store *s, const char *template_id, struct error *e)
{
	struct query q = db_query(s, STMT_TAG_FORGET_HIDDEN,
		"DELETE FROM tags WHERE template_id = ?1 AND current = 0 AND seq <= (SELECT seq "
		"FROM tags WHERE template_id = ?1 AND current = 0 ORDER BY seq DESC LIMIT 1 "
		"OFFSET ?2)");

	query_text(&q, template_id);
	query_u64(&q, STORE_TAGS_HIDDEN);
	return query_run(&q, NULL, e);
}

int store_tag_assign(struct store *s, const char *template_id, const char *tag,
	const char *build_id, uint64_t at_ns, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	int r = text_check("tag", tag, STORE_TAG_MAX, e);

	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r == 0)
		r = hide(s, template_id, tag, NULL, e);
	if (r == 0)
		r = check_room(s, template_id, e);
	if (r == 0)
		r = insert(s, template_id, tag, build_id, at_ns, e);
	if (r == 0)
		r = forget_oldest(s, template_id, tag, e);
	if (r == 0)
		r = forget_hidden(s, template_id, e);
	return r == 0 ? txn_commit(&t, true, e) : r;
}

int store_tag_remove(struct store *s, const char *template_id, const char *tag, struct error *e)
{
	unsigned changes = 0;
	int r = hide(s, template_id, tag, &changes, e);

	if (r == 0 && changes == 0)
		r = not_found(tag, e);
	return r < 0 ? r : db_durable(s, e);
}

int store_tag_remove_of(struct store *s, const char *build_id, struct error *e)
{
	struct query q = db_query(s, STMT_TAG_REMOVE_OF, "DELETE FROM tags WHERE build_id = ?");
	int r;

	query_text(&q, build_id);
	r = query_run(&q, NULL, e);
	return r < 0 ? r : db_durable(s, e);
}
