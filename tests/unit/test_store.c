/* src/store/store, schema, db, keys, tiers: opening, locking, migrating, batches, keys and teams.
 */
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/kept.h"
#include "store/maintain.h"
#include "store/schema.h"
#include "store/templates.h"
#include "store/tiers.h"
#include "test_store_fixture.h"

static void test_open_makes_private_files(void **state)
{
	struct fixture *f = *state;
	const char *const suffixes[] = {"", "-wal", "-shm", ".lock"};
	char path[128];
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", f->path, suffixes[i]);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
	}
	/* A file that was opened up is closed again. */
	store_close(f->s);
	f->s = NULL;
	assert_int_equal(chmod(f->path, 0644), 0);
	ok(f, store_open(f->path, &f->s, &f->e));
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_settings(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(number(f, "PRAGMA synchronous"), 1);
	assert_int_equal(number(f, "PRAGMA foreign_keys"), 1);
	assert_int_equal(number(f, "PRAGMA wal_autocheckpoint"), 0);
	assert_int_equal(number(f, "PRAGMA user_version"), schema_migration_count);
}

/* In another process, as the kernel's lock is between processes. */
static int open_elsewhere(const char *path, char *message, size_t size)
{
	int pipe_fd[2], status = -1;
	struct error e = {0};
	pid_t pid;
	ssize_t n;

	assert_int_equal(pipe(pipe_fd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct store *s = NULL;
		int r = store_open(path, &s, &e);

		(void)!write(pipe_fd[1], e.message, strlen(e.message)); /* the parent checks */
		_exit(-r & 0xff);
	}
	(void)close(pipe_fd[1]);
	n = read(pipe_fd[0], message, size - 1);
	message[n > 0 ? n : 0] = '\0';
	(void)close(pipe_fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void test_second_daemon_is_refused(void **state)
{
	struct fixture *f = *state;
	char message[512], pid[32];

	assert_int_equal(open_elsewhere(f->path, message, sizeof(message)), -EBUSY);
	(void)snprintf(pid, sizeof(pid), "(process %d)", (int)getpid());
	assert_non_null(strstr(message, pid));
	assert_non_null(strstr(message, "MAYFLY_HOME"));
	store_close(f->s);
	f->s = NULL;
	assert_int_equal(open_elsewhere(f->path, message, sizeof(message)), 0);
	ok(f, store_open(f->path, &f->s, &f->e)); /* free again when the process is gone */
}

static void test_open_refuses_what_is_not_a_store(void **state)
{
	struct fixture *f = *state;
	char path[128], missing[160];
	struct store *s = NULL;
	int fd;

	(void)snprintf(missing, sizeof(missing), "%s/none/mayfly.db", f->dir);
	refused(f, ENOENT, ERROR_HOST, store_open(missing, &s, &f->e));
	(void)snprintf(path, sizeof(path), "%s/dir.db", f->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	refused(f, EISDIR, ERROR_HOST, store_open(path, &s, &f->e));
	(void)snprintf(path, sizeof(path), "%s/link.db", f->dir);
	assert_int_equal(symlink(f->path, path), 0);
	refused(f, ELOOP, ERROR_HOST, store_open(path, &s, &f->e));
	(void)snprintf(path, sizeof(path), "%s/text.db", f->dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(write(fd, "not a database\n", 15), 15);
	(void)close(fd);
	refused(f, EUCLEAN, ERROR_INTERNAL, store_open(path, &s, &f->e));
	assert_non_null(strstr(f->e.message, "backup"));
	assert_null(s);
}

static void test_damage_is_noticed(void **state)
{
	struct fixture *f = *state;
	char noise[4096];
	struct stat st;
	int fd;

	for (unsigned i = 0; i < 200; i++) {
		char id[16];
		struct store_sandbox sb;

		(void)snprintf(id, sizeof(id), "i%u", i);
		sb = fixture_sandbox(f, id);
		ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	}
	store_close(f->s);
	f->s = NULL;
	assert_int_equal(stat(f->path, &st), 0);
	memset(noise, 0xa5, sizeof(noise));
	fd = open(f->path, O_WRONLY);
	for (off_t at = 20 * 4096; at < st.st_size; at += 2 * 4096)
		assert_int_equal(pwrite(fd, noise, sizeof(noise), at), sizeof(noise));
	(void)close(fd);
	refused(f, EUCLEAN, ERROR_INTERNAL, store_open(f->path, &f->s, &f->e));
	assert_non_null(strstr(f->e.message, ".recover"));
}

static void set_pragma(struct fixture *f, const char *sql)
{
	sqlite3 *db = NULL;

	store_close(f->s);
	f->s = NULL;
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_newer_and_foreign_files_are_refused(void **state)
{
	struct fixture *f = *state;

	set_pragma(f, "PRAGMA user_version = 4711");
	refused(f, EPROTO, ERROR_HOST, store_open(f->path, &f->s, &f->e));
	assert_non_null(strstr(f->e.message, "newer Mayfly (schema 4711"));
	set_pragma(f, "PRAGMA user_version = 1; PRAGMA application_id = 42");
	refused(f, EPROTO, ERROR_HOST, store_open(f->path, &f->s, &f->e));
	set_pragma(f, "PRAGMA application_id = 0"); /* tables, and no mark of ours */
	refused(f, EPROTO, ERROR_HOST, store_open(f->path, &f->s, &f->e));
	assert_non_null(strstr(f->e.message, "another program"));
}

static const char add_colour[] = "ALTER TABLE sandboxes ADD COLUMN colour TEXT;"
				 "UPDATE sandboxes SET colour = 'green';";
static const char broken[] = "ALTER TABLE sandboxes ADD COLUMN shape TEXT; SELECT nonsense;";

/* schema_migrate with the real list and one more entry. */
static int migrate_with(struct fixture *f, const char *sql)
{
	struct migration list[32];
	unsigned n = schema_migration_count;

	assert_true(n < ARRAY_SIZE(list));
	memcpy(list, schema_migrations, n * sizeof(list[0]));
	list[n].sql = sql;
	return schema_migrate(f->s, list, n + 1, &f->e);
}

static void test_migration(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox sb = fixture_sandbox(f, "i1");
	char backup[128];
	struct store *old = NULL;
	struct stat st;
	unsigned version;

	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	/* One that fails leaves everything as it was. */
	assert_true(migrate_with(f, broken) < 0);
	assert_non_null(strstr(f->e.message, "nonsense"));
	ok(f, schema_version(f->s, &version, &f->e));
	assert_int_equal(version, schema_migration_count);
	assert_int_equal(number(f, "SELECT count(*) FROM pragma_table_info('sandboxes') "
				   "WHERE name = 'shape'"),
		0);
	ok(f, migrate_with(f, add_colour));
	ok(f, schema_version(f->s, &version, &f->e));
	assert_int_equal(version, schema_migration_count + 1);
	assert_int_equal(number(f, "SELECT count(*) FROM sandboxes WHERE colour = 'green'"), 1);
	ok(f, migrate_with(f, add_colour)); /* nothing to do */
	/* The daemon before it refuses the new file and names the copy, which it opens. */
	store_close(f->s);
	f->s = NULL;
	refused(f, EPROTO, ERROR_HOST, store_open(f->path, &f->s, &f->e));
	(void)snprintf(backup, sizeof(backup), "%s.v%u", f->path, schema_migration_count);
	assert_non_null(strstr(f->e.message, backup));
	assert_int_equal(stat(backup, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	ok(f, store_open(backup, &old, &f->e));
	store_close(old);
}

/* A file as the first version left it, with something in each table that changed. */
static void make_version_1(const char *path)
{
	static const char rows[] =
		"PRAGMA application_id = 0x4d617966; PRAGMA user_version = 1;"
		"INSERT INTO teams VALUES ('team', 'default', 1, 5);"
		"INSERT INTO tiers VALUES ('pro', 10, 250, 1);"
		"INSERT INTO keys VALUES ('key', 'old', 'team', zeroblob(32), 'e2b_', 40, 'ab', "
		"'cdef', 5, 0, 0, 7, 0, 0, 0, 0, 0, 'pro');"
		"INSERT INTO sandboxes (id, key_id, template_id, template_alias, state, "
		"created_ns, "
		"started_ns, resumed_ns, end_ns, timeout_ns, secure, auto_pause, "
		"auto_pause_memory, auto_resume, pause_memory, envd_version, cpus, memory_bytes, "
		"disk_bytes, vmm_pid, vmm_start) VALUES "
		"('i1', 'key', 'base', 'base', 0, 1, 2, 2, 9, 9, 0, 0, 0, 0, 0, '0.6.13', 2, 1, 1, "
		"0, 0),"
		"('i2', 'key', 'base', NULL, 0, 1, 3, 3, 9, 9, 0, 0, 0, 0, 0, '0.6.13', 2, 1, 1, "
		"0, 0);"
		"INSERT INTO usage_days VALUES ('key', 20000, 1, 2, 3, 4, 5, 6);";
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, schema_migrations[0].sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, rows, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_version_1_is_brought_up_to_date(void **state)
{
	struct fixture *f = *state;
	_cleanup_(store_sandbox_freep) struct store_sandbox *a = NULL, *b = NULL;
	_cleanup_(store_key_freep) struct store_key *k = NULL;
	char path[128], name[STORE_NAME_MAX + 1];
	struct store_template t = {0};
	struct store_kept kept;
	struct store *s = NULL;

	(void)snprintf(path, sizeof(path), "%s/old.db", f->dir);
	make_version_1(path);
	ok(f, store_open(path, &s, &f->e));
	ok(f, store_sandbox_get(s, "i1", &a, &f->e));
	ok(f, store_sandbox_get(s, "i2", &b, &f->e));
	assert_string_equal(a->template_alias, "base");
	assert_string_equal(b->template_alias, "base");
	assert_int_equal(strlen(a->template_id), STORE_TEMPLATE_ID_BYTES - 1);
	assert_string_equal(a->template_id, b->template_id);
	assert_int_equal(a->internet, STORE_INTERNET_DENIED);
	ok(f, store_template_see(s, "base", 77, &t, &f->e));
	assert_string_equal(t.id, a->template_id);
	assert_true(t.build_count == 1 && t.spawn_count == 2 && t.last_spawned_ns == 3);
	ok(f, store_template_name(s, t.id, name, &f->e));
	assert_string_equal(name, "base");
	ok(f, store_key_get(s, "key", &k, &f->e));
	assert_true(k->limits.max_sandboxes == 7 && !k->limits.manages_keys);
	assert_true(k->limits.max_kept == 0 && k->limits.max_kept_bytes == 0);
	ok(f, store_kept_count(s, "key", &kept, &f->e));
	assert_true(kept.count == 0 && kept.bytes == 0 && kept.promised == 0);
	assert_string_equal(k->limits.tier, "pro");
	assert_null(k->limits.network);
	store_close(s);
	ok(f, store_open(path, &s, &f->e)); /* and stays so */
	store_close(s);
	(void)snprintf(path, sizeof(path), "%s/old.db.v1", f->dir);
	assert_int_equal(access(path, R_OK), 0);
}

static void test_templates(void **state)
{
	struct fixture *f = *state;
	struct store_template t = {0}, again = {0}, other = {0};
	char name[STORE_NAME_MAX + 1];

	ok(f, store_template_see(f->s, "base", 100, &t, &f->e));
	assert_int_equal(strlen(t.build_id), STORE_UUID_BYTES - 1);
	assert_true(t.build_count == 1 && t.spawn_count == 0 && t.last_spawned_ns == 0);
	ok(f, store_template_see(f->s, "other", 100, &other, &f->e));
	assert_string_not_equal(t.id, other.id);
	ok(f, store_template_spawned(f->s, t.id, T0, &f->e));
	ok(f, store_template_spawned(f->s, t.id, T0 - 1, &f->e));
	fixture_reopen(f);
	ok(f, store_template_see(f->s, "base", 100, &again, &f->e));
	assert_string_equal(again.id, t.id);
	assert_string_equal(again.build_id, t.build_id);
	assert_true(again.spawn_count == 2 && again.last_spawned_ns == T0);
	ok(f, store_template_see(f->s, "base", 200, &again, &f->e)); /* built anew */
	assert_string_equal(again.id, t.id);
	assert_string_not_equal(again.build_id, t.build_id);
	assert_true(again.build_count == 2 && again.spawn_count == 2);
	ok(f, store_template_name(f->s, other.id, name, &f->e));
	assert_string_equal(name, "other");
	assert_int_equal(store_template_name(f->s, "base", name, &f->e), -ENOENT);
	refused(f, EINVAL, ERROR_USAGE, store_template_see(f->s, "", 1, &t, &f->e));
}

static void test_backup(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox sb = fixture_sandbox(f, "i1");
	_cleanup_(store_sandbox_freep) struct store_sandbox *got = NULL;
	char path[128];
	struct store *copy = NULL;

	ok(f, store_sandbox_insert(f->s, &sb, &f->e));
	(void)snprintf(path, sizeof(path), "%s/it's a copy.db", f->dir);
	ok(f, store_backup(f->s, path, &f->e));
	refused(f, EEXIST, ERROR_EXISTS, store_backup(f->s, path, &f->e));
	ok(f, store_open(path, &copy, &f->e));
	ok(f, store_sandbox_get(copy, "i1", &got, &f->e));
	store_close(copy);
}

static int exists(struct fixture *f, const char *id)
{
	_cleanup_(store_sandbox_freep) struct store_sandbox *got = NULL;

	return store_sandbox_get(f->s, id, &got, NULL) == 0;
}

static void test_batches(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox a = fixture_sandbox(f, "ia"), b = fixture_sandbox(f, "ib");

	ok(f, store_begin(f->s, &f->e));
	refused(f, EALREADY, ERROR_INTERNAL, store_begin(f->s, &f->e));
	ok(f, store_sandbox_insert(f->s, &a, &f->e));
	store_rollback(f->s);
	assert_false(exists(f, "ia"));
	ok(f, store_begin(f->s, &f->e));
	ok(f, store_sandbox_insert(f->s, &a, &f->e));
	/* A call that fails undoes only itself. */
	refused(f, EEXIST, ERROR_EXISTS, store_sandbox_insert(f->s, &a, &f->e));
	b.metadata_json = "{\"a\":\"b\"}";
	ok(f, store_sandbox_insert(f->s, &b, &f->e));
	ok(f, store_commit(f->s, &f->e));
	refused(f, EINVAL, ERROR_INTERNAL, store_commit(f->s, &f->e));
	store_rollback(f->s);
	fixture_reopen(f);
	assert_true(exists(f, "ia") && exists(f, "ib"));
}

static void test_batch_that_sqlite_undid(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox a = fixture_sandbox(f, "ia"), b = fixture_sandbox(f, "ib");

	ok(f, store_begin(f->s, &f->e));
	ok(f, store_sandbox_insert(f->s, &a, &f->e));
	ok(f, db_exec(f->s, "ROLLBACK", &f->e)); /* as SQLite does after some errors */
	refused(f, ECANCELED, ERROR_INTERNAL, store_sandbox_insert(f->s, &b, &f->e));
	assert_true(store_commit(f->s, &f->e) < 0);
	assert_false(exists(f, "ia") || exists(f, "ib"));
	ok(f, store_sandbox_insert(f->s, &b, &f->e));
}

static void test_another_program_holds_the_lock(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox a = fixture_sandbox(f, "ia");
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	refused(f, EAGAIN, ERROR_INTERNAL, store_sandbox_insert(f->s, &a, &f->e));
	assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	ok(f, store_sandbox_insert(f->s, &a, &f->e));
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* ---- keys ---- */

static void test_key_secret(void **state)
{
	struct fixture *f = *state;
	_cleanup_(store_key_freep) struct store_key *k = NULL;
	char id[STORE_UUID_BYTES], secret[STORE_KEY_SECRET_BYTES];

	assert_int_equal(strlen(f->secret), 44);
	assert_memory_equal(f->secret, "e2b_", 4);
	assert_int_equal(strspn(f->secret + 4, "0123456789abcdef"), 40);
	ok(f, store_key_create(
		      f->s, &(struct store_key_spec){.name = "two"}, T0, id, secret, &f->e));
	assert_string_not_equal(secret, f->secret);
	ok(f, store_key_get(f->s, f->key, &k, &f->e));
	assert_string_equal(k->name, "test");
	assert_string_equal(k->mask_prefix, "e2b_");
	assert_int_equal(k->mask_value_length, 40);
	assert_int_equal(strlen(k->mask_first), 2);
	assert_memory_equal(k->mask_first, f->secret + 4, 2);
	assert_string_equal(k->mask_last, f->secret + 40);
	assert_int_equal(k->created_ns, T0);
	assert_true(k->last_used_ns == 0 && k->revoked_ns == 0 && !k->limits.tier);
}

static bool file_has(const char *path, const char *text)
{
	_cleanup_free_ char *data = NULL;
	size_t n = 0;

	if (file_read(AT_FDCWD, path, 64 << 20, &data, &n) < 0)
		return false;
	return memmem(data, n, text, strlen(text)) != NULL;
}

static void test_key_is_not_in_the_file(void **state)
{
	struct fixture *f = *state;
	char wal[128];

	(void)snprintf(wal, sizeof(wal), "%s-wal", f->path);
	assert_true(file_has(wal, f->key)); /* the id is there: the test looks at the right file */
	assert_false(file_has(wal, f->secret + 4));
	store_close(f->s);
	f->s = NULL;
	assert_true(file_has(f->path, f->key));
	assert_false(file_has(f->path, f->secret + 4));
}

static void test_key_authenticate(void **state)
{
	struct fixture *f = *state;
	_cleanup_(store_key_freep) struct store_key *k = NULL;
	char wrong[STORE_KEY_SECRET_BYTES], *huge = calloc(1, 1 << 20);

	ok(f, store_key_authenticate(f->s, f->secret, T0, &k, &f->e));
	assert_string_equal(k->id, f->key);
	memcpy(wrong, f->secret, sizeof(wrong));
	wrong[43] = wrong[43] == '0' ? '1' : '0';
	memset(huge, 'a', (1 << 20) - 1);
	refused(f, ENOENT, ERROR_NOT_FOUND, store_key_authenticate(f->s, wrong, T0, &k, &f->e));
	assert_null(strstr(f->e.message, wrong));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_key_authenticate(f->s, "", T0, &k, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_key_authenticate(f->s, huge, T0, &k, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_key_authenticate(f->s, "' OR 1 = 1 --", T0, &k, &f->e));
	free(huge);
}

static uint64_t last_used(struct fixture *f)
{
	_cleanup_(store_key_freep) struct store_key *k = NULL;

	ok(f, store_key_get(f->s, f->key, &k, &f->e));
	return k->last_used_ns;
}

static void use(struct fixture *f, uint64_t now_ns)
{
	_cleanup_(store_key_freep) struct store_key *k = NULL;

	ok(f, store_key_authenticate(f->s, f->secret, now_ns, &k, &f->e));
}

static void test_key_use_is_written_once_a_minute(void **state)
{
	struct fixture *f = *state;

	use(f, T0);
	assert_int_equal(last_used(f), T0);
	use(f, T0 + 59 * NS_PER_S);
	assert_int_equal(last_used(f), T0);
	use(f, T0 + 60 * NS_PER_S);
	assert_int_equal(last_used(f), T0 + 60 * NS_PER_S);
	use(f, T0); /* a clock that went back */
	assert_int_equal(last_used(f), T0 + 60 * NS_PER_S);
}

static void test_key_revoke(void **state)
{
	struct fixture *f = *state;
	_cleanup_(store_key_freep) struct store_key *k = NULL;

	ok(f, store_key_revoke(f->s, f->key, T0 + 1, &f->e));
	ok(f, store_key_revoke(f->s, f->key, T0 + 2, &f->e));
	refused(f, EKEYREVOKED, ERROR_NOT_FOUND,
		store_key_authenticate(f->s, f->secret, T0, &k, &f->e));
	ok(f, store_key_get(f->s, f->key, &k, &f->e));
	assert_int_equal(k->revoked_ns, T0 + 1);
	refused(f, ENOENT, ERROR_NOT_FOUND, store_key_revoke(f->s, "none", T0, &f->e));
}

static int count_local(void *arg, const struct store_key *k)
{
	*(unsigned *)arg += strcmp(k->id, STORE_KEY_LOCAL) == 0;
	return 0;
}

static void test_key_local(void **state)
{
	struct fixture *f = *state;
	const struct store_limits limits = {.max_sandboxes = 1};
	unsigned listed = 0;

	ok(f, store_key_list(f->s, NULL, count_local, &listed, &f->e));
	for (int i = 0; i < 2; i++) {
		_cleanup_(store_key_freep) struct store_key *k = NULL;

		ok(f, store_key_local(f->s, T0 + (uint64_t)i, &k, &f->e));
		assert_string_equal(k->id, STORE_KEY_LOCAL);
		assert_string_equal(k->name, "local");
		assert_int_equal(k->created_ns, T0);
		refused(f, ENOENT, ERROR_NOT_FOUND,
			store_key_revoke(f->s, STORE_KEY_LOCAL, T0, &f->e));
		refused(f, ENOENT, ERROR_NOT_FOUND,
			store_key_rename(f->s, STORE_KEY_LOCAL, "x", &f->e));
		refused(f, ENOENT, ERROR_NOT_FOUND,
			store_key_set_limits(f->s, STORE_KEY_LOCAL, &limits, &f->e));
		assert_int_equal(k->revoked_ns, 0);
	}
	ok(f, store_key_list(f->s, NULL, count_local, &listed, &f->e));
	assert_int_equal(listed, 0);
}

static void make_below(struct fixture *f, const char *maker, char ret_id[STORE_UUID_BYTES])
{
	char secret[STORE_KEY_SECRET_BYTES];

	ok(f, store_key_create(f->s, &(struct store_key_spec){.name = "k", .made_by = maker}, T0,
		      ret_id, secret, &f->e));
}

static void test_key_makers(void **state)
{
	struct fixture *f = *state;
	_cleanup_(store_key_freep) struct store_key *k = NULL;
	char ids[STORE_KEY_LINE_MAX + 1][STORE_UUID_BYTES], other[STORE_UUID_BYTES];
	char secret[STORE_KEY_SECRET_BYTES];

	make_below(f, f->key, ids[0]);
	for (unsigned i = 1; i < ARRAY_SIZE(ids); i++)
		make_below(f, ids[i - 1], ids[i]);
	make_below(f, NULL, other);
	ok(f, store_key_get(f->s, ids[0], &k, &f->e));
	assert_string_equal(k->made_by, f->key);
	assert_true(store_key_descends(f->s, ids[0], f->key));
	assert_true(store_key_descends(f->s, ids[1], f->key));
	assert_true(store_key_descends(f->s, ids[STORE_KEY_LINE_MAX - 1], f->key));
	assert_false(store_key_descends(f->s, ids[STORE_KEY_LINE_MAX], f->key)); /* too far */
	assert_false(store_key_descends(f->s, f->key, ids[0]));
	assert_false(store_key_descends(f->s, ids[0], ids[0]));
	assert_false(store_key_descends(f->s, other, f->key));
	assert_false(store_key_descends(f->s, "none", f->key));
	assert_false(store_key_descends(f->s, other, ""));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_key_create(f->s, &(struct store_key_spec){.name = "k", .made_by = "none"}, T0,
			other, secret, &f->e));
}

static void test_key_limits_and_tier(void **state)
{
	struct fixture *f = *state;
	_cleanup_(store_key_freep) struct store_key *k = NULL;
	struct store_tier t = {.name = "pro", .included_minutes = 10};
	struct store_limits l = {.max_sandboxes = 1,
		.creates_per_minute = 2,
		.max_cpus = 3,
		.max_memory_bytes = 4,
		.max_disk_bytes = 5,
		.max_timeout_ns = UINT64_MAX,
		.tier = "pro",
		.network = "off"};

	refused(f, ENOENT, ERROR_NOT_FOUND, store_key_set_limits(f->s, f->key, &l, &f->e));
	ok(f, store_tier_put(f->s, &t, &f->e));
	ok(f, store_key_set_limits(f->s, f->key, &l, &f->e));
	ok(f, store_key_get(f->s, f->key, &k, &f->e));
	assert_int_equal(k->limits.max_sandboxes, 1);
	assert_int_equal(k->limits.creates_per_minute, 2);
	assert_int_equal(k->limits.max_cpus, 3);
	assert_int_equal(k->limits.max_memory_bytes, 4);
	assert_int_equal(k->limits.max_disk_bytes, 5);
	assert_int_equal(k->limits.max_timeout_ns, INT64_MAX);
	assert_string_equal(k->limits.tier, "pro");
	assert_string_equal(k->limits.network, "off");
	refused(f, EBUSY, ERROR_EXISTS, store_tier_remove(f->s, "pro", &f->e));
	ok(f, store_key_rename(f->s, f->key, "other", &f->e));
	l.tier = l.network = NULL;
	ok(f, store_key_set_limits(f->s, f->key, &l, &f->e));
	store_key_free(TAKE_PTR(k));
	ok(f, store_key_get(f->s, f->key, &k, &f->e));
	assert_null(k->limits.network);
	ok(f, store_tier_remove(f->s, "pro", &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND, store_tier_remove(f->s, "pro", &f->e));
}

static int count_key(void *arg, const struct store_key *k)
{
	return fixture_count(arg, k);
}

static int stop_at_key(void *arg, const struct store_key *k)
{
	return 7;
}

static int keep_team(void *arg, const struct store_team *t)
{
	struct store_team *first = arg;

	if (!first->created_ns) {
		first->created_ns = 1;
		first->is_default = t->is_default;
	}
	return 0;
}

static void test_key_list_and_teams(void **state)
{
	struct fixture *f = *state;
	char team[STORE_UUID_BYTES], id[STORE_UUID_BYTES], secret[STORE_KEY_SECRET_BYTES];
	struct store_team first = {0};
	unsigned all = 0, mine = 0;

	ok(f, store_team_create(f->s, "red", T0, team, &f->e));
	ok(f, store_key_create(f->s, &(struct store_key_spec){.name = "k", .team_id = team}, T0, id,
		      secret, &f->e));
	ok(f, store_key_list(f->s, NULL, count_key, &all, &f->e));
	ok(f, store_key_list(f->s, team, count_key, &mine, &f->e));
	assert_int_equal(all, 2);
	assert_int_equal(mine, 1);
	assert_int_equal(store_key_list(f->s, NULL, stop_at_key, NULL, &f->e), 7);
	ok(f, store_team_list(f->s, keep_team, &first, &f->e));
	assert_true(first.is_default);
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_key_create(f->s,
			&(struct store_key_spec){.name = "k", .team_id = "no-such-team"}, T0, id,
			secret, &f->e));
	refused(f, ENOENT, ERROR_NOT_FOUND,
		store_key_create(f->s,
			&(struct store_key_spec){.name = "k",
				.team_id = "much-longer-than-any-identifier-of-a-team-may-ever-be"},
			T0, id, secret, &f->e));
	fixture_reopen(f);
	assert_int_equal(number(f, "SELECT count(*) FROM teams WHERE is_default"), 1);
}

static void test_names_are_checked(void **state)
{
	struct fixture *f = *state;
	char id[STORE_UUID_BYTES], secret[STORE_KEY_SECRET_BYTES], name[STORE_NAME_MAX + 2];
	const char *const bad[] = {"", NULL, "\xff", "\xc0\xaf", "\xed\xa0\x80", "a\xe2\x82",
		"\xf4\x90\x80\x80", name};
	const char *const good[] = {
		"'; DROP TABLE keys; --", "\"quoted\"", "\xf0\x9f\xa6\x80", "line\nbreak", "%s%n"};

	memset(name, 'n', sizeof(name));
	name[STORE_NAME_MAX + 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		refused(f, EINVAL, ERROR_USAGE,
			store_key_create(f->s, &(struct store_key_spec){.name = bad[i]}, T0, id,
				secret, &f->e));
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		_cleanup_(store_key_freep) struct store_key *k = NULL;

		ok(f, store_key_create(f->s, &(struct store_key_spec){.name = good[i]}, T0, id,
			      secret, &f->e));
		ok(f, store_key_get(f->s, id, &k, &f->e));
		assert_string_equal(k->name, good[i]);
	}
}

static int read_again(void *arg, const struct store_key *k)
{
	struct fixture *f = arg;
	unsigned n = 0;

	return store_key_list(f->s, NULL, count_key, &n, &f->e) || n != 1;
}

static void test_callbacks_may_come_back(void **state)
{
	struct fixture *f = *state;

	ok(f, store_key_list(f->s, NULL, read_again, f, &f->e));
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_open_makes_private_files),
		TEST(test_settings),
		TEST(test_second_daemon_is_refused),
		TEST(test_open_refuses_what_is_not_a_store),
		TEST(test_damage_is_noticed),
		TEST(test_newer_and_foreign_files_are_refused),
		TEST(test_migration),
		TEST(test_version_1_is_brought_up_to_date),
		TEST(test_templates),
		TEST(test_backup),
		TEST(test_batches),
		TEST(test_batch_that_sqlite_undid),
		TEST(test_another_program_holds_the_lock),
		TEST(test_key_secret),
		TEST(test_key_is_not_in_the_file),
		TEST(test_key_authenticate),
		TEST(test_key_use_is_written_once_a_minute),
		TEST(test_key_revoke),
		TEST(test_key_local),
		TEST(test_key_makers),
		TEST(test_key_limits_and_tier),
		TEST(test_key_list_and_teams),
		TEST(test_names_are_checked),
		TEST(test_callbacks_may_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
