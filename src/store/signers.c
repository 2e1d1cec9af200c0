#include "store/signers.h"

#include <errno.h>

#include "store/db.h"
#include "store/text.h"

static int check(const struct store_signer *signer, struct error *e)
{
	int r = text_check("signer", signer->id, STORE_SIGNER_ID_MAX, e);

	if (r == 0 && (signer->sealed_bytes == 0 || signer->sealed_bytes > STORE_SIGNER_SEALED_MAX))
		r = error_set(e, ERROR_INTERNAL, EINVAL, "a signer's sealed bytes");
	return r < 0 ? r : text_check_json("public key", signer->public_json, false, NULL, e);
}

static int drop_older(struct store *s, uint64_t forget_ns, struct error *e)
{
	struct query q = db_query(s, STMT_SIGNER_DROP, "DELETE FROM signers WHERE created_ns < ?");

	query_u64(&q, forget_ns);
	return query_run(&q, NULL, e);
}

static int insert(struct store *s, const struct store_signer *signer, struct error *e)
{
	struct query q = db_query(s, STMT_SIGNER_INSERT,
		"INSERT INTO signers (id, created_ns, public_json, sealed) VALUES (?, ?, ?, ?)");

	query_text(&q, signer->id);
	query_u64(&q, signer->created_ns);
	query_text(&q, signer->public_json);
	query_blob(&q, signer->sealed, signer->sealed_bytes);
	return query_run(&q, NULL, e);
}

int store_signer_add(
	struct store *s, const struct store_signer *signer, uint64_t forget_ns, struct error *e)
{
	int r = check(signer, e);

	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = drop_older(s, forget_ns, e);
	if (r == 0)
		r = insert(s, signer, e);
	return r < 0 ? r : db_durable(s, e);
}

int store_signer_list(struct store *s, int (*each)(void *arg, const struct store_signer *signer),
	void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_SIGNER_LIST,
		"SELECT id, created_ns, public_json, sealed FROM signers "
		"ORDER BY created_ns DESC, id");
	int r;

	while ((r = query_step(&q, e)) > 0) {
		struct store_signer signer = {.id = row_text(&q)};

		signer.created_ns = row_u64(&q);
		signer.public_json = row_text(&q);
		signer.sealed = row_bytes(&q, &signer.sealed_bytes);
		r = each(arg, &signer);
		if (r)
			break;
	}
	return r;
}

int store_signer_count(struct store *s, uint64_t *ret, struct error *e)
{
	struct query q = db_query(s, STMT_SIGNER_COUNT, "SELECT count(*) FROM signers");

	return query_number(&q, ret, e);
}
