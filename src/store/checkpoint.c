#include "store/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"

enum { RETRY_MS = 500, PAGE_BYTES = 4096 + 24 }; /* a page in the log, with its header */

struct checkpointer {
	sqlite3 *db;	 /* owned by the thread */
	sqlite3 *writer; /* has the hooks */
	int file_fd, wal_fd;
	void (*done)(void *arg, uint64_t ns); /* called in the writer's thread, or NULL */
	void *arg;
	uint64_t begin_ns; /* start of the current commit */
	pthread_t thread;
	pthread_mutex_t mutex; /* protects what follows */
	pthread_cond_t wake;
	bool wanted, stopping;
	atomic_bool disk_full;
	_Atomic(off_t) reserve_bytes;
};

static bool out_of_space(sqlite3 *db, int rc)
{
	int err = sqlite3_system_errno(db);

	return (rc & 0xff) == SQLITE_FULL ||
	       ((rc & 0xff) == SQLITE_IOERR && (err == ENOSPC || err == EDQUOT));
}

/* Waits for work; false when the thread must end. With `retry`, waits at most RETRY_MS. */
static bool wait_for_work(struct checkpointer *c, bool retry)
{
	uint64_t until_ns = clock_monotonic_ns() + RETRY_MS * NS_PER_MS;
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / NS_PER_S), .tv_nsec = (long)(until_ns % NS_PER_S)};
	bool stopping;

	(void)pthread_mutex_lock(&c->mutex); /* cannot fail for a default mutex */
	while (!c->wanted && !c->stopping) {
		if (!retry)
			(void)pthread_cond_wait(&c->wake, &c->mutex);
		else if (pthread_cond_timedwait(&c->wake, &c->mutex, &until) == ETIMEDOUT)
			break;
	}
	c->wanted = false;
	stopping = c->stopping;
	(void)pthread_mutex_unlock(&c->mutex);
	return !stopping;
}

/* Reserves space behind the end of both files; space that is already reserved costs nothing. False
 * when the disk is full. A file system that cannot reserve space is no reason to refuse rows:
 * true. */
static bool keep_reserve(const struct checkpointer *c, off_t bytes)
{
	struct stat st;

	if (fstat(c->file_fd, &st) < 0)
		return true;
	if (fallocate(c->wal_fd, FALLOC_FL_KEEP_SIZE, 0, bytes) < 0 ||
		fallocate(c->file_fd, FALLOC_FL_KEEP_SIZE, st.st_size, bytes) < 0)
		return errno != ENOSPC && errno != EDQUOT;
	return true;
}

/* One pass; false when it should be retried soon. */
static bool checkpoint(struct checkpointer *c)
{
	int rc = sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	bool full = out_of_space(c->db, rc) || !keep_reserve(c, atomic_load(&c->reserve_bytes));

	atomic_store(&c->disk_full, full);
	/* Other failures are retried too. If they persist, the writer meets them. */
	return rc == SQLITE_OK && !full;
}

static void *run(void *arg)
{
	const struct sched_param none = {0};
	struct checkpointer *c = arg;
	bool retry = false;

	/* The thread wakes while the writer works and must not push it off its CPU. */
	(void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none); /* best effort */
	while (wait_for_work(c, retry))
		retry = !checkpoint(c);
	return NULL;
}

/* Keeps half of the reserve ahead of the log. If that fails, new rows are refused. */
static void extend_reserve(struct checkpointer *c, off_t log_bytes)
{
	off_t have = atomic_load(&c->reserve_bytes);

	if (log_bytes + CHECKPOINT_RESERVE / 2 <= have)
		return;
	if (keep_reserve(c, have + CHECKPOINT_RESERVE))
		atomic_store(&c->reserve_bytes, have + CHECKPOINT_RESERVE);
	else
		atomic_store(&c->disk_full, true);
}

static void wake_thread(struct checkpointer *c)
{
	(void)pthread_mutex_lock(&c->mutex);
	c->wanted = true;
	(void)pthread_cond_signal(&c->wake);
	(void)pthread_mutex_unlock(&c->mutex);
}

static int committing(void *arg)
{
	struct checkpointer *c = arg;

	c->begin_ns = clock_monotonic_ns();
	return 0; /* proceed with the commit */
}

void checkpointer_watch(struct checkpointer *c, void (*done)(void *arg, uint64_t ns), void *arg)
{
	c->done = done;
	c->arg = arg;
	(void)sqlite3_commit_hook(c->writer, committing, c); /* returns the previous hook's arg */
}

/* Runs after each commit of the writer; the log then has `pages` pages. */
static int committed(void *arg, sqlite3 *writer, const char *name, int pages)
{
	struct checkpointer *c = arg;
	off_t log_bytes = (off_t)pages * PAGE_BYTES;
	bool forced = pages >= CHECKPOINT_PAGES_FORCED;

	if (c->done)
		c->done(c->arg, clock_monotonic_ns() - c->begin_ns);
	if (pages < CHECKPOINT_PAGES)
		return SQLITE_OK;
	wake_thread(c);
	extend_reserve(c, log_bytes);
	/* On a full disk the log must not grow beyond its reserve. */
	if (checkpointer_disk_full(c))
		forced = log_bytes + CHECKPOINT_RESERVE / 4 > atomic_load(&c->reserve_bytes);
	/* Under steady writing the thread may never catch up, and SQLite restarts the log only
	 * after all of it is moved. A failure here does not matter to the writer: its commit is
	 * done. */
	if (forced)
		(void)sqlite3_wal_checkpoint_v2(
			writer, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return SQLITE_OK;
}

void checkpointer_renew(struct checkpointer *c)
{
	if (c)
		atomic_store(&c->disk_full, !keep_reserve(c, atomic_load(&c->reserve_bytes)));
}

static int start_thread(struct checkpointer *c)
{
	pthread_condattr_t attr;
	sigset_t all, old;
	int r;

	(void)pthread_mutex_init(&c->mutex, NULL); /* cannot fail with default attributes */
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&c->wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	(void)sigfillset(&all);
	/* Signals to the daemon are for its event loop. */
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&c->thread, NULL, run, c);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

int checkpointer_start(sqlite3 *own, sqlite3 *db, int file_fd, int wal_fd,
	struct checkpointer **ret, struct error *e)
{
	struct checkpointer *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		(void)sqlite3_close(own); /* no statements are open */
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	c->db = own;
	c->writer = db;
	c->file_fd = file_fd;
	c->wal_fd = wal_fd;
	atomic_store(&c->reserve_bytes, CHECKPOINT_RESERVE);
	checkpointer_renew(c);
	c->wanted = true; /* the log of the previous run */
	r = start_thread(c);
	if (r > 0) {
		(void)sqlite3_close(c->db); /* no statements are open */
		free(c);
		return error_set_errno(e, ERROR_INTERNAL, r, "starting a thread");
	}
	(void)sqlite3_wal_hook(db, committed, c); /* returns the previous hook's arg */
	*ret = c;
	return 0;
}

void checkpointer_stop(struct checkpointer *c)
{
	if (!c)
		return;
	(void)sqlite3_wal_hook(c->writer, NULL, NULL);
	(void)sqlite3_commit_hook(c->writer, NULL, NULL);
	(void)pthread_mutex_lock(&c->mutex);
	c->stopping = true;
	(void)pthread_cond_signal(&c->wake);
	(void)pthread_mutex_unlock(&c->mutex);
	(void)pthread_join(c->thread, NULL); /* the thread is ours and joinable */
	(void)sqlite3_close(c->db);	     /* no statements are open */
	(void)pthread_cond_destroy(&c->wake);
	(void)pthread_mutex_destroy(&c->mutex);
	free(c);
}

bool checkpointer_disk_full(const struct checkpointer *c)
{
	return c && atomic_load(&c->disk_full);
}
