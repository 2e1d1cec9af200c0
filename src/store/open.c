#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "store/checkpoint.h"
#include "store/creations.h"
#include "store/db.h"
#include "store/invocations.h"
#include "store/keys.h"
#include "store/maintain.h"
#include "store/schema.h"

/* Takes a lock apart from SQLite's, so that an administrator's sqlite3 can read the file while the
 * daemon runs. It is a POSIX lock, not flock: children do not inherit it, and the kernel reports
 * its owner. */
static int take_lock(struct store *s, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s.lock", s->path);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (!path)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return error_set_errno(e, ERROR_HOST, errno, "opening %s", path);
	if (fcntl(s->lock_fd, F_SETLK, &lock) == 0)
		return 0;
	if (errno != EACCES && errno != EAGAIN)
		return error_set_errno(e, ERROR_HOST, errno, "locking %s", path);
	if (fcntl(s->lock_fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0)
		return error_set(e, ERROR_HOST, EBUSY,
			"another mayfly serve (process %d) uses %s; stop it, or set MAYFLY_HOME to "
			"another directory",
			(int)lock.l_pid, s->path);
	return error_set(e, ERROR_HOST, EBUSY,
		"another mayfly serve uses %s; stop it, or set MAYFLY_HOME to another directory",
		s->path);
}

/* Sets the mode before SQLite opens the file: SQLite gives its log and index the same mode. */
static int make_file(struct store *s, struct error *e)
{
	int fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat st;

	s->file_fd = fd;
	if (fd < 0)
		return error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, errno,
			"opening the database %s", s->path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(e, ERROR_HOST, EINVAL, "%s is not a regular file", s->path);
	if ((st.st_mode & 0777) != 0600 && fchmod(fd, 0600) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "making %s private", s->path);
	return 0;
}

static int check_integrity(struct store *s, struct error *e)
{
	_cleanup_(query_done) struct query q = db_query_once(s, "PRAGMA quick_check(1)");
	const char *verdict;
	int r = query_step(&q, e);

	if (r < 0)
		return r;
	verdict = r > 0 ? row_text(&q) : NULL;
	if (verdict && strcmp(verdict, "ok") == 0)
		return 0;
	return error_set(e, ERROR_INTERNAL, EUCLEAN,
		"the database %s is damaged (%s); stop the daemon, keep a copy of the file, and "
		"restore a backup or run: sqlite3 %s .recover | sqlite3 repaired.db",
		s->path, verdict ? verdict : "no verdict", s->path);
}

/* The log exists only after the first read. */
static int open_log(struct store *s, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s-wal", s->path);

	if (!path)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	s->wal_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (s->wal_fd < 0)
		return error_set_errno(e, ERROR_HOST, errno, "opening %s", path);
	return 0;
}

static int open_database(struct store *s, struct error *e)
{
	sqlite3 *second = NULL;
	int r = take_lock(s, e);

	if (r == 0)
		r = make_file(s, e);
	if (r == 0)
		r = db_connect(s->path, &s->db, e);
	if (r == 0)
		r = check_integrity(s, e);
	if (r == 0)
		r = schema_migrate(s, schema_migrations, schema_migration_count, e);
	if (r == 0)
		r = keys_ensure_default_team(s, clock_realtime_ns(), e);
	if (r == 0)
		r = open_log(s, e);
	if (r == 0)
		r = store_sync(s, e);
	if (r == 0)
		r = db_connect(s->path, &second, e);
	if (r == 0)
		r = checkpointer_start(second, s->db, s->file_fd, s->wal_fd, &s->checkpointer, e);
	return r;
}

int store_open(const char *path, struct store **ret, struct error *e)
{
	_cleanup_(store_closep) struct store *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	s->lock_fd = s->file_fd = s->wal_fd = -1;
	s->path = strdup(path);
	if (!s->path)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = open_database(s, e);
	if (r == 0)
		*ret = TAKE_PTR(s);
	return r;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	store_rollback(s);
	checkpointer_stop(s->checkpointer);
	for (unsigned i = 0; i < STMTS_; i++)
		(void)sqlite3_finalize(s->stmts[i]); /* repeats the error of the last step */
	(void)sqlite3_close(s->db); /* moves the log; if that fails, the next open does it */
	/* Only now: closing any descriptor of a file drops all the process's locks on it. */
	if (s->file_fd >= 0)
		(void)close(s->file_fd); /* nothing was written through it */
	if (s->wal_fd >= 0)
		(void)close(s->wal_fd); /* nothing was written through it */
	if (s->lock_fd >= 0)
		(void)close(s->lock_fd); /* last: releases the lock */
	free(s->path);
	free(s);
}

void store_closep(struct store **s)
{
	store_close(*s);
}

int store_sync(struct store *s, struct error *e)
{
	if (fdatasync(s->wal_fd) == 0)
		return 0;
	return error_set_errno(e,
		errno == ENOSPC || errno == EDQUOT ? ERROR_NO_SPACE : ERROR_INTERNAL, errno,
		"writing the database %s to the disk", s->path);
}

int store_backup(struct store *s, const char *path, struct error *e)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct query q;
	int r;

	if (fd < 0)
		return error_set_errno(
			e, errno == EEXIST ? ERROR_EXISTS : ERROR_HOST, errno, "making %s", path);
	q = db_query_once(s, "VACUUM INTO ?"); /* accepts an empty file */
	query_text(&q, path);
	r = query_run(&q, NULL, e);
	if (r == 0 && fsync(fd) < 0)
		r = error_set_errno(e, ERROR_INTERNAL, errno, "writing %s to the disk", path);
	if (r < 0)
		(void)unlink(path); /* remove the partial copy */
	return r;
}

void store_watch_commits(struct store *s, void (*done)(void *arg, uint64_t ns), void *arg)
{
	checkpointer_watch(s->checkpointer, done, arg);
}

#define INVOCATION_LIFE_NS (STORE_INVOCATION_DAYS * 86400 * NS_PER_S)

int store_maintain(struct store *s, uint64_t now_ns, const struct store_retention *r,
	bool *ret_more, struct error *e)
{
	struct store_retention keep = r ? *r : (struct store_retention){0};
	bool more = false;
	int rc;

	if (!keep.events_ns)
		keep.events_ns = 30 * 86400 * NS_PER_S;
	if (!keep.events_max)
		keep.events_max = 1000000;
	if (!keep.activity_ns)
		keep.activity_ns = 7 * 86400 * NS_PER_S;
	if (!keep.sandbox_usage_ns)
		keep.sandbox_usage_ns = 400 * 86400 * NS_PER_S;
	rc = samples_collect(s, &more, e);
	if (rc == 0)
		rc = events_prune(s, now_ns > keep.events_ns ? now_ns - keep.events_ns : 0,
			keep.events_max, &more, e);
	if (rc == 0)
		rc = usage_prune(s,
			now_ns > keep.sandbox_usage_ns ? now_ns - keep.sandbox_usage_ns : 0, &more,
			e);
	if (rc == 0)
		rc = activity_prune(
			s, now_ns > keep.activity_ns ? now_ns - keep.activity_ns : 0, &more, e);
	if (rc == 0)
		rc = approvals_prune(
			s, now_ns > keep.events_ns ? now_ns - keep.events_ns : 0, &more, e);
	if (rc == 0)
		rc = budgets_prune(s, now_ns, &more, e);
	if (rc == 0)
		rc = invocations_prune(
			s, now_ns > INVOCATION_LIFE_NS ? now_ns - INVOCATION_LIFE_NS : 0, &more, e);
	if (rc == 0)
		rc = creations_prune(s,
			now_ns > STORE_CREATION_LIFE_NS ? now_ns - STORE_CREATION_LIFE_NS : 0,
			&more, e);
	if (rc == 0)
		*ret_more = more;
	return rc;
}
