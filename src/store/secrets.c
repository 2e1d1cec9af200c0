#include "store/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "store/db.h"
#include "store/text.h"

static int check(const struct store_secret *secret, struct error *e)
{
	if (!secret->sealed || secret->sealed_bytes == 0 ||
		secret->sealed_bytes > STORE_SECRET_SEALED_MAX)
		return error_set(e, ERROR_INTERNAL, EINVAL, "a secret's sealed bytes");
	return text_check_json("metadata", secret->metadata_json, true, NULL, e);
}

static int check_name(const char *name, struct error *e)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
	size_t n = strlen(name);

	if (n < 1 || n > STORE_SECRET_NAME_MAX || strspn(name, letters) != n)
		return error_set(e, ERROR_USAGE, EINVAL,
			"a secret's name must be 1 to %d of the characters a-z 0-9 _ -",
			STORE_SECRET_NAME_MAX);
	return 0;
}

static int count_of(struct store *s, const char *key_id, uint64_t *ret, struct error *e)
{
	struct query q =
		db_query(s, STMT_SECRET_COUNT, "SELECT count(*) FROM secrets WHERE key_id = ?");

	query_text(&q, key_id);
	return query_number(&q, ret, e);
}

int store_secret_count(struct store *s, uint64_t *ret, struct error *e)
{
	struct query q = db_query(s, STMT_SECRET_COUNT_ALL, "SELECT count(*) FROM secrets");

	return query_number(&q, ret, e);
}

static int check_room(struct store *s, const char *key_id, struct error *e)
{
	uint64_t n = 0;
	int r = count_of(s, key_id, &n, e);

	if (r == 0 && n >= STORE_SECRETS_MAX)
		r = error_set(e, ERROR_TOO_MANY, ENOBUFS,
			"the key has %d secrets already; remove one first", STORE_SECRETS_MAX);
	return r;
}

static int insert(
	struct store *s, const struct store_secret *secret, const char *id, struct error *e)
{
	struct error why = {0};
	struct query q = db_query(s, STMT_SECRET_INSERT,
		"INSERT INTO secrets (id, key_id, name, version, metadata_json, created_ns, "
		"updated_ns, sealed) VALUES (?, ?, ?, 1, ?, ?5, ?5, ?)");
	int r;

	query_text(&q, id);
	query_text(&q, secret->key_id);
	query_text(&q, secret->name);
	query_text(&q, secret->metadata_json ? secret->metadata_json : "{}");
	query_u64(&q, secret->created_ns);
	query_blob(&q, secret->sealed, secret->sealed_bytes);
	r = query_run(&q, NULL, &why);
	if (r == -EEXIST)
		return error_set(e, ERROR_EXISTS, EEXIST,
			"there is a secret '%s' already: update it, or remove it first",
			secret->name);
	return r < 0 ? error_set(e, why.code, why.err, "%s", why.message) : 0;
}

int store_secret_add(struct store *s, const struct store_secret *secret,
	char ret_id[STORE_SECRET_ID_BYTES], struct error *e)
{
	int r = check_name(secret->name, e);

	if (r == 0)
		r = check(secret, e);
	if (r == 0)
		r = check_room(s, secret->key_id, e);
	if (r == 0)
		r = db_check_space(s, e);
	memcpy(ret_id, "sec_", sizeof("sec_"));
	if (r == 0 && str_random_id(ret_id + 4, STORE_SECRET_ID_BYTES - 4) < 0)
		r = error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	if (r == 0)
		r = insert(s, secret, ret_id, e);
	return r < 0 ? r : db_durable(s, e);
}

static int not_found(struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "there is no such secret");
}

int store_secret_update(struct store *s, const char *key_id, const char *id,
	const struct store_secret *secret, struct error *e)
{
	unsigned changes = 0;
	struct query q;
	int r = check(secret, e);

	if (r < 0)
		return r;
	q = db_query(s, STMT_SECRET_UPDATE,
		"UPDATE secrets SET version = version + 1, sealed = ?, updated_ns = ?, "
		"metadata_json = coalesce(?, metadata_json) WHERE id = ? AND key_id = ?");
	query_blob(&q, secret->sealed, secret->sealed_bytes);
	query_u64(&q, secret->updated_ns);
	query_text(&q, secret->metadata_json);
	query_text(&q, id);
	query_text(&q, key_id);
	r = query_run(&q, &changes, e);
	if (r == 0 && changes == 0)
		r = not_found(e);
	return r < 0 ? r : db_durable(s, e);
}

int store_secret_remove(struct store *s, const char *key_id, const char *id, struct error *e)
{
	struct query q =
		db_query(s, STMT_SECRET_REMOVE, "DELETE FROM secrets WHERE id = ? AND key_id = ?");
	unsigned changes = 0;
	int r;

	query_text(&q, id);
	query_text(&q, key_id);
	r = query_run(&q, &changes, e);
	if (r == 0 && changes == 0)
		r = not_found(e);
	return r < 0 ? r : db_durable(s, e);
}

/* The columns that every list has. */
static void read_row(struct query *q, struct store_secret *secret)
{
	row_copy(q, secret->id, sizeof(secret->id));
	secret->key_id = row_text(q);
	secret->name = row_text(q);
	secret->version = row_u64(q);
	secret->metadata_json = row_text(q);
	secret->created_ns = row_u64(q);
	secret->updated_ns = row_u64(q);
}

int store_secret_get(struct store *s, const char *key_id, const char *id_or_name,
	int (*each)(void *arg, const struct store_secret *secret), void *arg, struct error *e)
{
	bool is_id = str_starts_with(id_or_name, "sec_");
	_cleanup_(query_done) struct query q =
		is_id ? db_query(s, STMT_SECRET_BY_ID,
				"SELECT id, key_id, name, version, metadata_json, created_ns, "
				"updated_ns, sealed FROM secrets WHERE id = ? AND key_id = ?")
		      : db_query(s, STMT_SECRET_BY_NAME,
				"SELECT id, key_id, name, version, metadata_json, created_ns, "
				"updated_ns, sealed FROM secrets WHERE name = ? AND key_id = ?");
	struct store_secret secret;
	int r;

	query_text(&q, id_or_name);
	query_text(&q, key_id);
	r = query_step(&q, e);
	if (r <= 0)
		return r < 0 ? r : not_found(e);
	read_row(&q, &secret);
	secret.sealed = row_bytes(&q, &secret.sealed_bytes);
	return each(arg, &secret);
}

int store_secret_list(struct store *s, const char *key_id, const char *after, uint32_t limit,
	int (*each)(void *arg, const struct store_secret *secret), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_SECRET_LIST,
		"SELECT id, key_id, name, version, metadata_json, created_ns, updated_ns "
		"FROM secrets WHERE key_id = ? AND name > ? ORDER BY name LIMIT ?");
	int r;

	query_text(&q, key_id);
	query_text(&q, after);
	query_u64(&q, limit);
	while ((r = query_step(&q, e)) > 0) {
		struct store_secret secret = {.sealed = NULL};

		read_row(&q, &secret);
		r = each(arg, &secret);
		if (r)
			break;
	}
	return r;
}
