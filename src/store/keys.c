#include "store/keys.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/str.h"
#include "store/db.h"
#include "store/maintain.h"
#include "store/text.h"

enum { SECRET_RANDOM_BYTES = 20, SECRET_INPUT_MAX = 256 };

#define KEY_PREFIX "e2b_"
#define KEY_COLUMNS                                                                                \
	"id, name, team_id, hash, mask_prefix, mask_value_length, mask_first, mask_last, "         \
	"created_ns, last_used_ns, revoked_ns, max_sandboxes, creates_per_minute, max_cpus, "      \
	"max_memory_bytes, max_disk_bytes, max_timeout_ns, tier, manages_keys, max_kept, "         \
	"max_kept_bytes, network, made_by"

static int random_bytes(void *out, size_t n, struct error *e)
{
	if (getrandom(out, n, 0) != (ssize_t)n)
		return error_set_errno(e, ERROR_INTERNAL, errno, "reading random numbers");
	return 0;
}

static int make_secret(char out[STORE_KEY_SECRET_BYTES], struct error *e)
{
	uint8_t random[SECRET_RANDOM_BYTES];
	int r = random_bytes(random, sizeof(random), e);

	if (r < 0)
		return r;
	memcpy(out, KEY_PREFIX, strlen(KEY_PREFIX));
	str_hex(random, sizeof(random), out + strlen(KEY_PREFIX));
	explicit_bzero(random, sizeof(random));
	return 0;
}

static int check_limits(const struct store_limits *l, struct error *e)
{
	int r = text_check_optional("tier", l->tier, STORE_NAME_MAX, e);

	return r ? r : text_check_optional("network", l->network, STORE_KEY_NETWORK_MAX, e);
}

static void bind_limits(struct query *q, const struct store_limits *l)
{
	query_u64(q, l->max_sandboxes);
	query_u64(q, l->creates_per_minute);
	query_u64(q, l->max_cpus);
	query_u64(q, l->max_memory_bytes);
	query_u64(q, l->max_disk_bytes);
	query_u64(q, l->max_timeout_ns);
	query_text(q, l->tier);
	query_u64(q, l->manages_keys);
	query_u64(q, l->max_kept);
	query_u64(q, l->max_kept_bytes);
	query_text(q, l->network);
}

static void read_limits(struct query *q, struct store_limits *l)
{
	l->max_sandboxes = (uint32_t)row_u64(q);
	l->creates_per_minute = (uint32_t)row_u64(q);
	l->max_cpus = (uint32_t)row_u64(q);
	l->max_memory_bytes = row_u64(q);
	l->max_disk_bytes = row_u64(q);
	l->max_timeout_ns = row_u64(q);
	l->tier = row_text(q);
	l->manages_keys = row_bool(q);
	l->max_kept = (uint32_t)row_u64(q);
	l->max_kept_bytes = row_u64(q);
	l->network = row_text(q);
}

static void read_key(struct query *q, struct store_key *k)
{
	k->id = row_text(q);
	k->name = row_text(q);
	k->team_id = row_text(q);
	row_blob(q, k->hash, sizeof(k->hash));
	row_copy(q, k->mask_prefix, sizeof(k->mask_prefix));
	k->mask_value_length = (uint32_t)row_u64(q);
	row_copy(q, k->mask_first, sizeof(k->mask_first));
	row_copy(q, k->mask_last, sizeof(k->mask_last));
	k->created_ns = row_u64(q);
	k->last_used_ns = row_u64(q);
	k->revoked_ns = row_u64(q);
	read_limits(q, &k->limits);
	k->made_by = row_text(q);
}

/* Copies a text behind *at, which moves on. NULL stays NULL. */
static const char *copy_text(char **at, const char *text)
{
	char *copy = *at;
	size_t n = text ? strlen(text) + 1 : 0;

	if (!text)
		return NULL;
	*at += n;
	return memcpy(copy, text, n);
}

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

/* Copies a key into one block: the struct, then its strings. */
static struct store_key *copy_key(const struct store_key *k)
{
	struct store_key *copy = malloc(sizeof(*copy) + text_bytes(k->id) + text_bytes(k->name) +
					text_bytes(k->team_id) + text_bytes(k->made_by) +
					text_bytes(k->limits.tier) + text_bytes(k->limits.network));
	char *at = (char *)(copy + 1);

	if (!copy)
		return NULL;
	*copy = *k;
	copy->id = copy_text(&at, k->id);
	copy->name = copy_text(&at, k->name);
	copy->team_id = copy_text(&at, k->team_id);
	copy->made_by = copy_text(&at, k->made_by);
	copy->limits.tier = copy_text(&at, k->limits.tier);
	copy->limits.network = copy_text(&at, k->limits.network);
	return copy;
}

void store_key_free(struct store_key *k)
{
	free(k);
}

void store_key_freep(struct store_key **k)
{
	free(*k);
}

static int find_team(
	struct store *s, const char *team_id, char ret[STORE_UUID_BYTES], struct error *e)
{
	struct query q;
	int r;

	if (team_id) {
		if (strlen(team_id) >= STORE_UUID_BYTES)
			return error_set(e, ERROR_NOT_FOUND, ENOENT, "no such team");
		memcpy(ret, team_id, strlen(team_id) + 1);
		return 0; /* otherwise the foreign key check fails */
	}
	q = db_query(s, STMT_TEAM_DEFAULT, "SELECT id FROM teams WHERE is_default = 1");
	r = query_step(&q, e);
	if (r > 0)
		row_copy(&q, ret, STORE_UUID_BYTES);
	query_done(&q);
	return r > 0 ? 0 : r < 0 ? r : error_set(e, ERROR_INTERNAL, ENOENT, "no default team");
}

static int insert_key(struct store *s, const struct store_key *k, struct error *e)
{
	struct query q = db_query(s, STMT_KEY_INSERT,
		"INSERT INTO keys (" KEY_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, "
		"?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");

	query_text(&q, k->id);
	query_text(&q, k->name);
	query_text(&q, k->team_id);
	query_blob(&q, k->hash, sizeof(k->hash));
	query_text(&q, k->mask_prefix);
	query_u64(&q, k->mask_value_length);
	query_text(&q, k->mask_first);
	query_text(&q, k->mask_last);
	query_u64(&q, k->created_ns);
	bind_limits(&q, &k->limits);
	query_text(&q, k->made_by);
	return query_run(&q, NULL, e);
}

static void fill_mask(struct store_key *k, const char *secret)
{
	const char *value = secret + strlen(KEY_PREFIX);
	size_t n = strlen(value);

	memcpy(k->mask_prefix, KEY_PREFIX, sizeof(KEY_PREFIX));
	k->mask_value_length = (uint32_t)n;
	memcpy(k->mask_first, value, 2);
	memcpy(k->mask_last, value + n - 4, 4);
}

int store_key_create(struct store *s, const struct store_key_spec *spec, uint64_t now_ns,
	char ret_id[STORE_UUID_BYTES], char ret_secret[STORE_KEY_SECRET_BYTES], struct error *e)
{
	char id[STORE_UUID_BYTES], team[STORE_UUID_BYTES], secret[STORE_KEY_SECRET_BYTES];
	struct store_key k = {.id = id,
		.name = spec->name,
		.team_id = team,
		.made_by = spec->made_by,
		.created_ns = now_ns};
	int r = text_check("name", spec->name, STORE_NAME_MAX, e);

	if (spec->limits)
		k.limits = *spec->limits;
	if (r == 0)
		r = check_limits(&k.limits, e);
	if (r == 0)
		r = find_team(s, spec->team_id, team, e);
	if (r == 0)
		r = db_random_uuid(id, e);
	if (r == 0)
		r = make_secret(secret, e);
	if (r < 0)
		return r;
	(void)SHA256((const uint8_t *)secret, strlen(secret), k.hash); /* returns its output */
	fill_mask(&k, secret);
	r = db_check_space(s, e);
	if (r == 0)
		r = insert_key(s, &k, e);
	if (r == 0)
		r = db_durable(s, e);
	if (r == 0) {
		memcpy(ret_id, id, sizeof(id));
		memcpy(ret_secret, secret, sizeof(secret));
	}
	explicit_bzero(secret, sizeof(secret));
	return r;
}

/* Notes the last use. A failure must not fail the request: a full disk must not lock all clients
 * out. */
static void note_use(struct store *s, const struct store_key *k, uint64_t now_ns)
{
	struct query q;

	if (now_ns < k->last_used_ns + STORE_KEY_USED_S * NS_PER_S)
		return;
	q = db_query(s, STMT_KEY_USED, "UPDATE keys SET last_used_ns = ? WHERE id = ?");
	query_u64(&q, now_ns);
	query_text(&q, k->id);
	(void)query_run(&q, NULL, NULL); /* see above */
}

static int no_such_key(struct error *e, int err)
{
	return error_set(e, ERROR_NOT_FOUND, err, "invalid API key");
}

int store_key_authenticate(struct store *s, const char *secret, uint64_t now_ns,
	struct store_key **ret, struct error *e)
{
	uint8_t hash[STORE_KEY_HASH_BYTES];
	_cleanup_(query_done) struct query q =
		db_query(s, STMT_KEY_BY_HASH, "SELECT " KEY_COLUMNS " FROM keys WHERE hash = ?");
	_cleanup_(store_key_freep) struct store_key *copy = NULL;
	size_t n = strnlen(secret, SECRET_INPUT_MAX);
	struct store_key k = {0};
	int r;

	if (n == SECRET_INPUT_MAX)
		return no_such_key(e, ENOENT);
	(void)SHA256((const uint8_t *)secret, n, hash); /* returns its output */
	query_blob(&q, hash, sizeof(hash));
	r = query_step(&q, e);
	if (r < 0)
		return r;
	if (r > 0)
		read_key(&q, &k);
	if (r == 0 || CRYPTO_memcmp(k.hash, hash, sizeof(hash)) != 0)
		return no_such_key(e, ENOENT);
	if (k.revoked_ns)
		return no_such_key(e, EKEYREVOKED);
	copy = copy_key(&k);
	if (!copy)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	query_done(&q); /* an open read would keep SQLite from restarting the log */
	note_use(s, copy, now_ns);
	*ret = TAKE_PTR(copy);
	return 0;
}

int store_key_get(struct store *s, const char *id, struct store_key **ret, struct error *e)
{
	_cleanup_(query_done) struct query q =
		db_query(s, STMT_KEY_BY_ID, "SELECT " KEY_COLUMNS " FROM keys WHERE id = ?");
	struct store_key k = {0};
	int r;

	query_text(&q, id);
	r = query_step(&q, e);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "no such API key");
	read_key(&q, &k);
	*ret = copy_key(&k);
	return *ret ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

/* Whose id is copied: the maker of a key. Empty: the operator, or no such key. */
static void find_maker(struct store *s, const char *id, char ret[STORE_UUID_BYTES])
{
	_cleanup_(query_done) struct query q =
		db_query(s, STMT_KEY_MAKER, "SELECT ifnull(made_by, '') FROM keys WHERE id = ?");

	*ret = '\0';
	query_text(&q, id);
	if (query_step(&q, NULL) > 0)
		row_copy(&q, ret, STORE_UUID_BYTES);
}

bool store_key_descends(struct store *s, const char *id, const char *maker)
{
	char at[STORE_UUID_BYTES], above[STORE_UUID_BYTES];

	find_maker(s, id, at);
	for (unsigned n = 0; *at && n < STORE_KEY_LINE_MAX; n++) {
		if (strcmp(at, maker) == 0)
			return true;
		find_maker(s, at, above);
		memcpy(at, above, sizeof(at));
	}
	return false;
}

/* Makes the local key. Its hash is all zero; nobody knows a preimage of that. */
static int make_local(struct store *s, uint64_t now_ns, struct error *e)
{
	char team[STORE_UUID_BYTES];
	struct store_key k = {
		.id = STORE_KEY_LOCAL, .name = "local", .team_id = team, .created_ns = now_ns};
	int r = find_team(s, NULL, team, e);

	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = insert_key(s, &k, e);
	return r < 0 ? r : db_durable(s, e);
}

int store_key_local(struct store *s, uint64_t now_ns, struct store_key **ret, struct error *e)
{
	struct error missing = {0};
	int r = store_key_get(s, STORE_KEY_LOCAL, ret, &missing);

	if (r == 0)
		return 0;
	if (r == -ENOENT)
		r = make_local(s, now_ns, e);
	else
		*e = missing;
	return r < 0 ? r : store_key_get(s, STORE_KEY_LOCAL, ret, e);
}

int store_key_list(struct store *s, const char *team_id,
	int (*each)(void *arg, const struct store_key *k), void *arg, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_KEY_LIST,
		"SELECT " KEY_COLUMNS " FROM keys WHERE (?1 IS NULL OR team_id = ?1) "
		"AND id <> '" STORE_KEY_LOCAL "' ORDER BY created_ns, id");
	int r;

	query_text(&q, team_id);
	while ((r = query_step(&q, e)) > 0) {
		struct store_key k = {0};

		read_key(&q, &k);
		r = each(arg, &k);
		if (r)
			break;
	}
	return r;
}

static int no_key(struct error *e)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "no such API key");
}

/* Every change of a key begins here: the built-in one is nobody's to change, not even the
 * operator's, because its secrets, webhooks and agents would go with it. */
static int check_changeable(const char *id, struct error *e)
{
	return strcmp(id, STORE_KEY_LOCAL) == 0 ? no_key(e) : 0;
}

/* Runs a change of one key, and syncs it. */
static int change_key(struct store *s, struct query *q, struct error *e)
{
	unsigned changes = 0;
	int r = query_run(q, &changes, e);

	if (r < 0)
		return r;
	return changes == 0 ? no_key(e) : db_durable(s, e);
}

int store_key_rename(struct store *s, const char *id, const char *name, struct error *e)
{
	struct query q;
	int r = check_changeable(id, e);

	if (r == 0)
		r = text_check("name", name, STORE_NAME_MAX, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_KEY_RENAME, "UPDATE keys SET name = ? WHERE id = ?");
	query_text(&q, name);
	query_text(&q, id);
	return change_key(s, &q, e);
}

int store_key_set_limits(
	struct store *s, const char *id, const struct store_limits *limits, struct error *e)
{
	struct query q;
	int r = check_changeable(id, e);

	if (r == 0)
		r = check_limits(limits, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_KEY_LIMITS,
		"UPDATE keys SET max_sandboxes = ?, creates_per_minute = ?, max_cpus = ?, "
		"max_memory_bytes = ?, max_disk_bytes = ?, max_timeout_ns = ?, tier = ?, "
		"manages_keys = ?, max_kept = ?, max_kept_bytes = ?, network = ? WHERE id = ?");
	bind_limits(&q, limits);
	query_text(&q, id);
	return change_key(s, &q, e);
}

static int run_for_key(struct store *s, struct query *q, const char *id, struct error *e)
{
	query_text(q, id);
	return query_run(q, NULL, e);
}

/* Also drops the deliveries that wait for them. */
static int disable_webhooks(struct store *s, const char *id, struct error *e)
{
	struct query q = db_query(s, STMT_KEY_DROP_DELIVERIES,
		"DELETE FROM deliveries WHERE webhook_id IN "
		"(SELECT id FROM webhooks WHERE key_id = ?)");
	int r = run_for_key(s, &q, id, e);

	if (r < 0)
		return r;
	q = db_query(s, STMT_KEY_DISABLE_WEBHOOKS,
		"UPDATE webhooks SET enabled = 0, queued = 0 WHERE key_id = ?");
	return run_for_key(s, &q, id, e);
}

/* Nobody can use or remove them any more. */
static int forget_secrets(struct store *s, const char *id, struct error *e)
{
	struct query q = db_query(s, STMT_SECRET_FORGET, "DELETE FROM secrets WHERE key_id = ?");

	return run_for_key(s, &q, id, e);
}

int store_key_revoke(struct store *s, const char *id, uint64_t now_ns, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	int r = check_changeable(id, e);
	struct query q;
	unsigned changes = 0;

	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_KEY_REVOKE,
		"UPDATE keys SET revoked_ns = iif(revoked_ns = 0, ?, revoked_ns) WHERE id = ?");
	query_u64(&q, now_ns ? now_ns : 1);
	query_text(&q, id);
	r = query_run(&q, &changes, e);
	if (r == 0 && changes == 0)
		r = no_key(e);
	if (r == 0)
		r = disable_webhooks(s, id, e);
	if (r == 0)
		r = forget_secrets(s, id, e);
	if (r == 0)
		r = budgets_forget_key(s, id, e);
	return r < 0 ? r : txn_commit(&t, true, e);
}

static int insert_team(struct store *s, const char *name, bool is_default, uint64_t now_ns,
	char ret_id[STORE_UUID_BYTES], struct error *e)
{
	struct query q;
	int r = db_random_uuid(ret_id, e);

	if (r < 0)
		return r;
	q = db_query(s, STMT_TEAM_INSERT,
		"INSERT INTO teams (id, name, is_default, created_ns) VALUES (?, ?, ?, ?)");
	query_text(&q, ret_id);
	query_text(&q, name);
	query_u64(&q, is_default);
	query_u64(&q, now_ns);
	return query_run(&q, NULL, e);
}

int keys_ensure_default_team(struct store *s, uint64_t now_ns, struct error *e)
{
	char id[STORE_UUID_BYTES];
	uint64_t n = 0;
	struct query q = db_query_once(s, "SELECT count(*) FROM teams WHERE is_default = 1");
	int r = query_number(&q, &n, e);

	return r < 0 || n ? r : insert_team(s, "default", true, now_ns, id, e);
}

int store_team_create(struct store *s, const char *name, uint64_t now_ns,
	char ret_id[STORE_UUID_BYTES], struct error *e)
{
	int r = text_check("name", name, STORE_NAME_MAX, e);

	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = insert_team(s, name, false, now_ns, ret_id, e);
	return r < 0 ? r : db_durable(s, e);
}

int store_team_list(struct store *s, int (*each)(void *arg, const struct store_team *t), void *arg,
	struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(s, STMT_TEAM_LIST,
		"SELECT id, name, is_default, created_ns FROM teams "
		"ORDER BY is_default DESC, created_ns, id");
	int r;

	while ((r = query_step(&q, e)) > 0) {
		struct store_team t;

		t.id = row_text(&q);
		t.name = row_text(&q);
		t.is_default = row_bool(&q);
		t.created_ns = row_u64(&q);
		r = each(arg, &t);
		if (r)
			break;
	}
	return r;
}

bool store_team_is(struct store *s, const char *id, const char *word)
{
	struct query q;
	bool found;

	if (strcmp(id, word) == 0)
		return true;
	q = db_query(s, STMT_TEAM_IS, "SELECT 1 FROM teams WHERE id = ? AND name = ?");
	query_text(&q, id);
	query_text(&q, word);
	found = query_step(&q, NULL) > 0;
	query_done(&q);
	return found;
}
