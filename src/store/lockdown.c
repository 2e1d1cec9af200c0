#include "store/lockdown.h"

#include "store/db.h"

int store_lockdown_get(struct store *s, struct store_lockdown *ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_LOCKDOWN_GET,
		"SELECT egress, approvals, keys, since_ns FROM lockdown WHERE only = 1");
	int r = query_step(&q, e);

	*ret = (struct store_lockdown){0};
	if (r <= 0)
		return r;
	ret->egress = row_bool(&q);
	ret->approvals = row_bool(&q);
	ret->keys = row_bool(&q);
	ret->since_ns = row_u64(&q);
	return 0;
}

int store_lockdown_set(struct store *s, const struct store_lockdown *l, struct error *e)
{
	struct query q = db_query(s, STMT_LOCKDOWN_SET,
		"UPDATE lockdown SET egress = ?, approvals = ?, keys = ?, since_ns = ? WHERE only "
		"= 1");
	int r;

	query_u64(&q, l->egress);
	query_u64(&q, l->approvals);
	query_u64(&q, l->keys);
	query_u64(&q, l->since_ns);
	r = query_run(&q, NULL, e);
	return r < 0 ? r : db_durable(s, e);
}
