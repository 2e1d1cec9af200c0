#include "store/sandboxes.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "store/maintain.h"
#include "store/sandboxes_internal.h"
#include "store/sealed.h"
#include "store/text.h"

static void decref_p(json_t **j)
{
	json_decref(*j); /* accepts NULL */
}

static int check_text_fields(const struct store_sandbox *sb, struct error *e)
{
	const struct {
		const char *name, *value;
		size_t max;
		bool optional;
	} fields[] = {
		{"key id", sb->key_id, STORE_ID_MAX, false},
		{"template id", sb->template_id, STORE_NAME_MAX, false},
		{"template alias", sb->template_alias, STORE_NAME_MAX, true},
		{"build id", sb->build_id, STORE_ID_MAX, true},
		{"envd version", sb->envd_version, STORE_ID_MAX, false},
		{"access token", sb->envd_token, STORE_TOKEN_MAX, true},
		{"traffic token", sb->traffic_token, STORE_TOKEN_MAX, true},
		{"directory", sb->directory, STORE_PATH_MAX_BYTES, true},
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++)
		r = fields[i].optional
			    ? text_check_optional(fields[i].name, fields[i].value, fields[i].max, e)
			    : text_check(fields[i].name, fields[i].value, fields[i].max, e);
	return r;
}

static int check_state(enum store_sandbox_state state, struct error *e)
{
	if ((unsigned)state >= STORE_STATES_)
		return error_set(e, ERROR_INTERNAL, EINVAL, "no such sandbox state");
	return 0;
}

static int check_sandbox(const struct store_sandbox *sb, json_t **ret_metadata, struct error *e)
{
	int r = 0;

	if (!text_is_id(sb->id))
		r = error_set(e, ERROR_USAGE, EINVAL, "the sandbox id is not 1-%d of a-z and 0-9",
			STORE_ID_MAX);
	if (r == 0)
		r = check_state(sb->state, e);
	if (r == 0)
		r = check_text_fields(sb, e);
	if (r == 0)
		r = text_check_json("environment", sb->env_json, true, NULL, e);
	if (r == 0)
		r = text_check_json("network", sb->network_json, false, NULL, e);
	if (r == 0)
		r = text_check_json("network names", sb->network_names_json, false, NULL, e);
	if (r == 0)
		r = text_check_json("secrets", sb->secrets_json, false, NULL, e);
	if (r == 0)
		r = text_check_optional("authority", sb->authority, STORE_AUTHORITY_MAX, e);
	if (r == 0)
		r = text_check_json("iam", sb->iam_json, false, NULL, e);
	if (r == 0)
		r = text_check_json("extra", sb->extra_json, false, NULL, e);
	if (r == 0)
		r = text_check_json("metadata", sb->metadata_json, true, ret_metadata, e);
	if (r == 0 && json_object_size(*ret_metadata) > STORE_METADATA_PAIRS_MAX)
		r = error_set(e, ERROR_USAGE, EINVAL, "metadata has more than %d entries",
			STORE_METADATA_PAIRS_MAX);
	return r;
}

static int insert_row(struct store *s, const struct store_sandbox *sb, struct error *e)
{
	struct error why = {0};
	struct query q = db_query(s, STMT_SANDBOX_INSERT,
		"INSERT INTO sandboxes (" SANDBOX_COLUMNS ") VALUES (" SANDBOX_MARKS ")");
	int r;

	sandbox_bind(&q, sb);
	r = query_run(&q, NULL, &why);
	if (r == -EEXIST)
		return error_set(e, ERROR_EXISTS, EEXIST, "sandbox %s exists already", sb->id);
	if (r < 0)
		return error_set(e, why.code, why.err, "%s", why.message);
	return 0;
}

static int insert_metadata(
	struct store *s, const struct store_sandbox *sb, json_t *metadata, struct error *e)
{
	uint64_t seq = (uint64_t)sqlite3_last_insert_rowid(s->db);
	const char *name;
	json_t *value;

	json_object_foreach(metadata, name, value)
	{
		struct query q = db_query(s, STMT_SANDBOX_METADATA,
			"INSERT INTO sandbox_metadata "
			"(key_id, name, value, started_ns, sandbox_id, sandbox) "
			"VALUES (?, ?, ?, ?, ?, ?)");
		int r;

		query_text(&q, sb->key_id);
		query_text(&q, name);
		query_text(&q, json_string_value(value));
		query_u64(&q, sb->started_ns);
		query_text(&q, sb->id);
		query_u64(&q, seq);
		r = query_run(&q, NULL, e);
		if (r < 0)
			return r;
	}
	return 0;
}

int store_sandbox_insert(struct store *s, const struct store_sandbox *sb, struct error *e)
{
	_cleanup_(decref_p) json_t *metadata = NULL;
	_cleanup_(txn_end) struct txn t = {.store = s};
	int r = check_sandbox(sb, &metadata, e);

	if (r == 0)
		r = db_check_space(s, e);
	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r == 0)
		r = insert_row(s, sb, e);
	if (r == 0)
		r = insert_metadata(s, sb, metadata, e);
	if (r == 0)
		r = activity_begin(s, sb->id, e);
	if (r == 0)
		r = txn_commit(&t, sb->state == STORE_PAUSED, e);
	return r;
}

int store_sandbox_get(struct store *s, const char *id, struct store_sandbox **ret, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query(
		s, STMT_SANDBOX_GET, "SELECT " SANDBOX_COLUMNS " FROM sandboxes WHERE id = ?");
	struct store_sandbox sb;
	int r;

	query_text(&q, id);
	r = query_step(&q, e);
	if (r < 0)
		return r;
	if (r == 0)
		return sandbox_not_found(id, e);
	sandbox_read(&q, SANDBOX_ALL, &sb);
	*ret = sandbox_copy(&sb);
	return *ret ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int read_state(
	struct store *s, const char *id, enum store_sandbox_state *ret, struct error *e)
{
	struct query q =
		db_query(s, STMT_SANDBOX_STATE, "SELECT state FROM sandboxes WHERE id = ?");
	uint64_t state = 0;
	int r;

	query_text(&q, id);
	r = query_number(&q, &state, e);
	if (r == -ENOENT)
		return sandbox_not_found(id, e);
	if (r == 0)
		*ret = (enum store_sandbox_state)state;
	return r;
}

static int refuse_state(const char *id, enum store_sandbox_state state, struct error *e)
{
	return error_set(
		e, ERROR_USAGE, EBUSY, "sandbox %s is %s", id, store_sandbox_state_name(state));
}

static int check_changes(unsigned set, const struct store_sandbox *sb, struct error *e)
{
	int r = 0;

	if (set & ~(unsigned)STORE_SET_ALL_)
		r = error_set(e, ERROR_INTERNAL, EINVAL, "no such field of a sandbox");
	if (r == 0 && (set & STORE_SET_STATE))
		r = check_state(sb->state, e);
	if (r == 0 && (set & STORE_SET_NETWORK))
		r = text_check_json("network", sb->network_json, false, NULL, e);
	if (r == 0 && (set & STORE_SET_NETWORK_NAMES))
		r = text_check_json("network names", sb->network_names_json, false, NULL, e);
	if (r == 0 && (set & STORE_SET_AUTHORITY))
		r = text_check_optional("authority", sb->authority, STORE_AUTHORITY_MAX, e);
	if (r == 0 && (set & STORE_SET_EXTRA))
		r = text_check_json("extra", sb->extra_json, false, NULL, e);
	if (r == 0 && (set & STORE_SET_ENV))
		r = text_check_json("environment", sb->env_json, true, NULL, e);
	if (r == 0 && (set & STORE_SET_DIRECTORY))
		r = text_check_optional("directory", sb->directory, STORE_PATH_MAX_BYTES, e);
	return r;
}

/* ?1 is the mask of fields. */
static const char update_sql[] = "UPDATE sandboxes SET"
				 " state = iif(?1 & 1, ?2, state),"
				 " end_ns = iif(?1 & 2, ?3, end_ns),"
				 " resumed_ns = iif(?1 & 4, ?4, resumed_ns),"
				 " vmm_pid = iif(?1 & 8, ?5, vmm_pid),"
				 " vmm_start = iif(?1 & 8, ?6, vmm_start),"
				 " timeout_ns = iif(?1 & 16, ?7, timeout_ns),"
				 " pause_memory = iif(?1 & 32, ?8, pause_memory),"
				 " auto_pause = iif(?1 & 64, ?9, auto_pause),"
				 " auto_pause_memory = iif(?1 & 64, ?10, auto_pause_memory),"
				 " auto_resume = iif(?1 & 64, ?11, auto_resume),"
				 " network_json = iif(?1 & 128, ?12, network_json),"
				 " extra_json = iif(?1 & 256, ?13, extra_json),"
				 " env_json = iif(?1 & 512, ?14, env_json),"
				 " directory = iif(?1 & 1024, ?15, directory),"
				 " internet_access = iif(?1 & 128, ?16, internet_access),"
				 " network_generation = iif(?1 & 128, ?17, network_generation),"
				 " network_names_json = iif(?1 & 2048, ?18, network_names_json),"
				 " authority = iif(?1 & 4096, ?19, authority)"
				 " WHERE id = ?20";

static int update_row(struct store *s, const char *id, unsigned set, const struct store_sandbox *sb,
	struct error *e)
{
	struct query q = db_query(s, STMT_SANDBOX_UPDATE, update_sql);

	query_u64(&q, set);
	query_u64(&q, sb->state);
	query_u64(&q, sb->end_ns);
	query_u64(&q, sb->resumed_ns);
	query_u64(&q, sb->vmm_pid > 0 ? (uint64_t)sb->vmm_pid : 0);
	query_u64(&q, sb->vmm_start);
	query_u64(&q, sb->timeout_ns);
	query_u64(&q, sb->pause_memory);
	query_u64(&q, sb->auto_pause);
	query_u64(&q, sb->auto_pause_memory);
	query_u64(&q, sb->auto_resume);
	query_sealed(
		&q, SEALED_SANDBOX_NETWORK, id, set & STORE_SET_NETWORK ? sb->network_json : NULL);
	query_text(&q, sb->extra_json);
	query_sealed(&q, SEALED_SANDBOX_ENV, id, set & STORE_SET_ENV ? sb->env_json : NULL);
	query_text(&q, sb->directory);
	query_u64(&q, sb->internet);
	query_u64(&q, sb->network_generation);
	query_text(&q, sb->network_names_json);
	query_text(&q, sb->authority);
	query_text(&q, id);
	return query_run(&q, NULL, e);
}

int store_sandbox_update(struct store *s, const char *id, uint32_t from, unsigned set,
	const struct store_sandbox *sb, enum store_sandbox_state *ret_state, struct error *e)
{
	enum store_sandbox_state state = STORE_RUNNING;
	int r = check_changes(set, sb, e);
	bool paused;

	if (r == 0)
		r = read_state(s, id, &state, e);
	if (r < 0)
		return r;
	if (!(from & STORE_STATE_BIT(state))) {
		if (ret_state)
			*ret_state = state;
		return refuse_state(id, state, e);
	}
	r = update_row(s, id, set, sb, e);
	paused = state == STORE_PAUSED || ((set & STORE_SET_STATE) && sb->state == STORE_PAUSED);
	if (r == 0 && paused)
		r = db_durable(s, e);
	if (r == 0 && ret_state)
		*ret_state = set & STORE_SET_STATE ? sb->state : state;
	return r;
}

int store_sandboxes_renew(struct store *s, const char *key_id, const char *id,
	const char *template_id, struct error *e)
{
	struct query q = db_query(s, STMT_SANDBOX_RENEW,
		"UPDATE sandboxes SET network_generation = network_generation + 1 "
		"WHERE key_id = ? AND state = 2 AND (id = ? OR template_id = ?)");

	query_text(&q, key_id);
	query_text(&q, id);
	query_text(&q, template_id);
	return query_run(&q, NULL, e);
}

int store_sandbox_set_end(struct store *s, const char *id, uint64_t end_ns, struct error *e)
{
	struct query q = db_query(s, STMT_SANDBOX_SET_END,
		"UPDATE sandboxes SET end_ns = ? WHERE id = ? AND state IN (0, 3)");
	enum store_sandbox_state state;
	unsigned changes = 0;
	int r;

	query_u64(&q, end_ns);
	query_text(&q, id);
	r = query_run(&q, &changes, e);
	if (r < 0 || changes)
		return r;
	r = read_state(s, id, &state, e);
	return r < 0 ? r : refuse_state(id, state, e);
}

/* A sandbox has many rows of samples: store_maintain removes them later. */
static int mark_garbage(struct store *s, const char *id, struct error *e)
{
	struct query q = db_query(s, STMT_SANDBOX_GARBAGE,
		"INSERT INTO sample_garbage SELECT seq FROM sandboxes WHERE id = ?1 AND "
		"EXISTS (SELECT 1 FROM samples WHERE sandbox = seq)");

	query_text(&q, id);
	return query_run(&q, NULL, e);
}

int store_sandbox_delete(struct store *s, const char *id, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	enum store_sandbox_state state = STORE_RUNNING;
	struct query q;
	int r = read_state(s, id, &state, e);

	if (r == 0)
		r = txn_begin(&t, s, e);
	if (r == 0)
		r = mark_garbage(s, id, e);
	if (r == 0)
		r = activity_end(s, id, clock_realtime_ns(), e);
	if (r == 0)
		r = approvals_end(s, id, clock_realtime_ns(), e);
	if (r == 0)
		r = budgets_end(s, id, e);
	if (r < 0)
		return r;
	q = db_query(s, STMT_SANDBOX_DELETE, "DELETE FROM sandboxes WHERE id = ?");
	query_text(&q, id);
	r = query_run(&q, NULL, e);
	return r < 0 ? r : txn_commit(&t, state == STORE_PAUSED, e);
}

/* Binds the states of the mask for "state IN (?, ?, ?, ?, ?)". Unused marks get a value that no row
 * has. */
static void bind_states(struct query *q, uint32_t states)
{
	for (unsigned i = 0; i < STORE_STATES_; i++)
		query_u64(q, states & STORE_STATE_BIT(i) ? i : STORE_STATES_);
}

int store_sandbox_count(
	struct store *s, const char *key_id, uint32_t states, uint64_t *ret, struct error *e)
{
	struct query q =
		key_id ? db_query(s, STMT_SANDBOX_COUNT,
				 "SELECT count(*) FROM sandboxes "
				 "WHERE state IN (?, ?, ?, ?, ?) AND key_id = ?")
		       : db_query(s, STMT_SANDBOX_COUNT_ALL,
				 "SELECT count(*) FROM sandboxes WHERE state IN (?, ?, ?, ?, ?)");

	bind_states(&q, states);
	if (key_id)
		query_text(&q, key_id);
	return query_number(&q, ret, e);
}

int store_sandbox_next_end(struct store *s, uint64_t *ret_ns, struct error *e)
{
	struct query q = db_query(s, STMT_SANDBOX_NEXT_END,
		"SELECT end_ns FROM sandboxes INDEXED BY sandboxes_end WHERE state = 0 "
		"ORDER BY end_ns LIMIT 1");
	int r;

	r = query_number(&q, ret_ns, e);
	if (r == -ENOENT) {
		*ret_ns = STORE_NEVER_NS;
		r = 0;
	}
	return r;
}
