/* src/store against what kills it: the daemon's death at any point, a log cut by the host's death,
 * a full disk. What was acknowledged must be there, and nothing that was not asked for. */
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/activity.h"
#include "store/db.h"
#include "store/events.h"
#include "store/usage.h"
#include "test_store_fixture.h"

/* ---- kill -9 at random points ---- */

enum { ROUNDS = 200, SLOTS = 48, TRIPLE = 3, DETAILS_BYTES = 12000, RECORDS = 7 };

enum op {
	OP_INSERT,
	OP_DELETE,
	OP_END,
	OP_PAUSE,
	OP_TRIPLE,
	OP_USAGE,
	OP_EVENT,
	OP_ACTIVITY,
	OPS_
};

/* Written to the pipe before a call (done = 0) and when it has returned 0 (done = 1). */
struct note {
	uint32_t op, slot, done;
	uint64_t value;
};

struct slot {
	bool exists;
	uint32_t state;
	uint64_t end_ns;
};

struct model {
	struct slot slots[SLOTS];
	bool triple;	     /* three sandboxes that come and go together */
	uint64_t usage;	     /* of the runs before this one */
	uint64_t run_usage;  /* of this one, as acknowledged */
	uint64_t activity;   /* number of acknowledged records */
	uint64_t event;	     /* highest acknowledged id */
	struct note pending; /* the call that was under way */
	unsigned calls;
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void slot_id(unsigned slot, char id[16])
{
	(void)snprintf(id, 16, "islot%u", slot);
}

static int insert(struct store *s, const char *key, const char *id, uint64_t end_ns)
{
	const struct fixture f = {0};
	struct store_sandbox sb = fixture_sandbox(&f, id);

	sb.key_id = key;
	sb.end_ns = end_ns;
	sb.metadata_json = "{\"a\":\"b\",\"c\":\"d\"}";
	return store_sandbox_insert(s, &sb, NULL);
}

static int do_triple(struct store *s, const char *key, bool there)
{
	int r = store_begin(s, NULL);

	for (unsigned i = 0; r == 0 && i < TRIPLE; i++) {
		char id[16];

		slot_id(SLOTS + i, id);
		r = there ? store_sandbox_delete(s, id, NULL) : insert(s, key, id, T0);
	}
	return r == 0 ? store_commit(s, NULL) : r;
}

static int do_event(struct store *s, const char *key, uint64_t *ret_id)
{
	static char details[DETAILS_BYTES + 16];
	const struct store_retention keep = {.events_max = 50};
	const struct store_event ev = {.type = STORE_EVENT_PAUSED,
		.at_ns = T0,
		.sandbox_id = "i",
		.key_id = key,
		.details_json = details};
	bool more;

	/* Large, so that the log is moved into the file now and then. */
	(void)snprintf(details, sizeof(details), "{\"x\":\"%0*d\"}", DETAILS_BYTES, 7);
	return store_event_add(s, &ev, ret_id, NULL) || store_maintain(s, T0, &keep, &more, NULL);
}

/* n->value: how many there are already. Few are kept, so that old ones go. */
static int do_activity(struct store *s, const char *key, uint64_t value)
{
	const struct store_activity_bounds bounds = {.sandbox_bytes = 20000};
	struct store_activity list[RECORDS];
	char text[RECORDS][64];

	store_activity_bound(s, &bounds);
	for (unsigned i = 0; i < RECORDS; i++) {
		(void)snprintf(text[i], sizeof(text[i]), "{\"number\":%llu}",
			(unsigned long long)(value + i));
		list[i] = (struct store_activity){.at_ns = value + i, .record = text[i]};
	}
	return store_activity_add(s, "iactive", key, list, RECORDS, 0, T0, NULL, NULL);
}

static int do_call(
	struct store *s, const char *key, uint64_t run, struct note *n, struct slot *slot)
{
	struct store_sandbox change = {.state = STORE_PAUSED};
	struct store_counters c = {.uptime_us = n->value, .net_in_bytes = n->value};
	char id[16];

	slot_id(n->slot, id);
	switch ((enum op)n->op) {
	case OP_INSERT:
		*slot = (struct slot){true, STORE_RUNNING, n->value};
		return insert(s, key, id, n->value);
	case OP_DELETE:
		slot->exists = false;
		return store_sandbox_delete(s, id, NULL);
	case OP_END:
		slot->end_ns = n->value;
		return store_sandbox_set_end(s, id, n->value, NULL);
	case OP_PAUSE:
		slot->state = STORE_PAUSED;
		return store_sandbox_update(
			s, id, STORE_ANY_STATE, STORE_SET_STATE, &change, NULL, NULL);
	case OP_USAGE:
		return store_usage_record(s, "imetered", key, run, &c, T0, NULL);
	case OP_EVENT:
		return do_event(s, key, &n->value);
	case OP_ACTIVITY:
		return do_activity(s, key, n->value);
	default:
		return do_triple(s, key, n->value != 0);
	}
}

/* A call that makes sense in the model's state. */
static struct note choose(struct model *m, uint64_t *rng)
{
	struct note n = {.op = (uint32_t)(next_random(rng) % OPS_),
		.slot = (uint32_t)(next_random(rng) % SLOTS)};
	const struct slot *slot = &m->slots[n.slot];

	n.value = T0 + next_random(rng) % 1000000;
	if (n.op <= OP_PAUSE && !slot->exists)
		n.op = OP_INSERT;
	else if (n.op == OP_INSERT || (n.op == OP_END && slot->state == STORE_PAUSED))
		n.op = OP_DELETE;
	if (n.op == OP_USAGE)
		n.value = m->run_usage += 1 + next_random(rng) % 1000;
	if (n.op == OP_TRIPLE)
		n.value = m->triple;
	if (n.op == OP_ACTIVITY)
		n.value = m->activity;
	return n;
}

static void work(const struct fixture *f, struct model *m, uint64_t run, int fd)
{
	uint64_t rng = run * UINT64_C(0x9e3779b97f4a7c15) + 1;
	struct store *s = NULL;

	if (store_open(f->path, &s, NULL) < 0)
		_exit(1);
	for (;;) {
		struct note n = choose(m, &rng);

		if (write(fd, &n, sizeof(n)) != sizeof(n) ||
			do_call(s, f->key, run, &n, &m->slots[n.slot]) != 0)
			_exit(2);
		if (n.op == OP_TRIPLE)
			m->triple = !m->triple;
		if (n.op == OP_ACTIVITY)
			m->activity += RECORDS;
		n.done = 1;
		if (write(fd, &n, sizeof(n)) != sizeof(n))
			_exit(3);
	}
}

static void apply(struct model *m, const struct note *n)
{
	struct slot *slot = &m->slots[n->slot];

	m->calls++;
	switch ((enum op)n->op) {
	case OP_INSERT:
		*slot = (struct slot){true, STORE_RUNNING, n->value};
		break;
	case OP_DELETE:
		slot->exists = false;
		break;
	case OP_END:
		slot->end_ns = n->value;
		break;
	case OP_PAUSE:
		slot->state = STORE_PAUSED;
		break;
	case OP_USAGE:
		m->run_usage = n->value;
		break;
	case OP_EVENT:
		m->event = n->value;
		break;
	case OP_ACTIVITY:
		m->activity = n->value + RECORDS;
		break;
	default:
		m->triple = !m->triple;
	}
}

static void read_notes(struct model *m, int fd)
{
	struct note n;

	m->pending = (struct note){.op = OPS_};
	while (read(fd, &n, sizeof(n)) == sizeof(n)) {
		if (n.done)
			apply(m, &n);
		m->pending = n.done ? (struct note){.op = OPS_} : n;
	}
}

static struct slot read_slot(struct fixture *f, unsigned i)
{
	_cleanup_(store_sandbox_freep) struct store_sandbox *sb = NULL;
	struct slot slot = {0};
	char id[16];

	slot_id(i, id);
	if (store_sandbox_get(f->s, id, &sb, NULL) == 0)
		slot = (struct slot){true, sb->state, sb->end_ns};
	return slot;
}

static bool same_slot(const struct slot *a, const struct slot *b)
{
	return a->exists == b->exists &&
	       (!a->exists || (a->state == b->state && a->end_ns == b->end_ns));
}

static void check_slots(struct fixture *f, struct model *m)
{
	struct model after = *m; /* with the pending call done */
	bool there;

	if (m->pending.op < OPS_)
		apply(&after, &m->pending);
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot is = read_slot(f, i);

		if (!same_slot(&is, &m->slots[i]) && !same_slot(&is, &after.slots[i]))
			fail_msg("slot %u: exists %d state %u, expected %d %u", i, is.exists,
				is.state, m->slots[i].exists, m->slots[i].state);
		m->slots[i] = is;
	}
	there = read_slot(f, SLOTS).exists;
	for (unsigned i = 1; i < TRIPLE; i++)
		assert_int_equal(read_slot(f, SLOTS + i).exists, there);
	assert_true(there == m->triple || there == after.triple);
	m->triple = there;
}

static int keep_total(void *arg, const struct store_key_usage *u)
{
	*(struct store_counters *)arg = u->total;
	return 0;
}

/* There is one. Nothing was recorded yet when it is missing. */
static int keep_sandbox(void *arg, const struct store_sandbox_usage *u)
{
	assert_string_equal(u->sandbox_id, "imetered");
	*(struct store_counters *)arg = u->total;
	return 0;
}

static void check_usage(struct fixture *f, struct model *m)
{
	struct store_counters total = {0}, days = {0};
	uint64_t want = m->usage + m->run_usage;

	ok(f, store_usage_sandboxes(f->s, f->key, 0, 1, keep_sandbox, &total, &f->e));
	if (total.uptime_us != want)
		assert_int_equal(total.uptime_us,
			m->pending.op == OP_USAGE ? m->usage + m->pending.value : want);
	ok(f, store_usage_keys(f->s, f->key, 0, T0 * 2, keep_total, &days, &f->e));
	assert_int_equal(days.uptime_us, total.uptime_us);
	assert_int_equal(days.net_in_bytes, total.net_in_bytes);
	m->usage = total.uptime_us;
	m->run_usage = 0;
}

static int keep_event(void *arg, const struct store_event *ev)
{
	*(uint64_t *)arg = ev->id;
	return 0;
}

static void check_events(struct fixture *f, struct model *m)
{
	const struct store_event_filter newest = {.limit = 1};
	uint64_t id = 0;

	ok(f, store_event_list(f->s, &newest, keep_event, &id, &f->e));
	assert_true(id == m->event || (m->pending.op == OP_EVENT && id == m->event + 1));
	m->event = id;
}

struct numbers {
	uint64_t count, first, next;
};

static int keep_number(void *arg, const struct store_activity *a)
{
	struct numbers *n = arg;

	if (n->count++ == 0)
		n->first = n->next = a->at_ns;
	assert_int_equal(a->at_ns, n->next++);
	return 0;
}

/* In order, without a gap, and no call's records by half. */
static void check_activity(struct fixture *f, struct model *m)
{
	struct numbers n = {0};
	struct store_activity_log log = {0};

	ok(f, store_activity_list(
		      f->s, "iactive", 0, 0, STORE_ACTIVITY_LIST_MAX, keep_number, &n, &f->e));
	(void)store_activity_get(f->s, "iactive", NULL, &log, NULL); /* none was added yet */
	assert_int_equal(n.first, log.dropped);
	if (n.next != m->activity)
		assert_true(m->pending.op == OP_ACTIVITY && n.next == m->pending.value + RECORDS);
	m->activity = n.next;
}

static void check_file(struct fixture *f)
{
	struct query q = db_query_once(f->s, "PRAGMA integrity_check");

	assert_int_equal(query_step(&q, &f->e), 1);
	assert_string_equal(row_text(&q), "ok");
	query_done(&q);
	q = db_query_once(f->s, "PRAGMA foreign_key_check");
	assert_int_equal(query_step(&q, &f->e), 0);
	query_done(&q);
}

static void run_round(struct fixture *f, struct model *m, uint64_t run, unsigned microseconds)
{
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	/* A writer that fills the pipe would wait instead of being killed at work. */
	(void)fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		work(f, m, run, fds[1]);
	(void)close(fds[1]);
	if (run % 2) /* the others may be killed before their first call */
		assert_int_equal(poll(&(struct pollfd){.fd = fds[0], .events = POLLIN}, 1, -1), 1);
	(void)usleep(microseconds);
	assert_int_equal(kill(pid, SIGKILL), 0);
	read_notes(m, fds[0]);
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static void test_killed_daemon(void **state)
{
	struct fixture *f = *state;
	struct model m = {0};
	uint64_t rng = (uint64_t)getpid() << 20 | 1;

	store_close(f->s);
	f->s = NULL;
	/* on a busy machine some rounds end before the first call */
	for (uint64_t run = 1; run <= ROUNDS || m.calls <= ROUNDS; run++) {
		run_round(f, &m, run, (unsigned)(next_random(&rng) % 40000));
		ok(f, store_open(f->path, &f->s, &f->e));
		check_slots(f, &m);
		check_usage(f, &m);
		check_events(f, &m);
		check_activity(f, &m);
		check_file(f);
		store_close(f->s);
		f->s = NULL;
	}
	print_message("%u kills, %u acknowledged calls\n", ROUNDS, m.calls);
	assert_true(m.calls >= ROUNDS / 2);
}

/* ---- the host dies: the end of the log is missing ---- */

enum { COMMITS = 120, SYNCED = 60, CUTS = 60 };

static void copy_file(const char *from, const char *to, size_t max)
{
	_cleanup_free_ char *data = NULL;
	size_t n = 0;
	int fd;

	assert_int_equal(file_read(AT_FDCWD, from, 64 << 20, &data, &n), 0);
	fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	n = n < max ? n : max;
	assert_int_equal(write(fd, data, n), n);
	(void)close(fd);
}

/* How many of i0, i1, ... are there; none may be missing before one that is there. */
static unsigned count_prefix(struct fixture *f, struct store *s)
{
	uint64_t all = 0;
	unsigned n = 0;

	for (;; n++) {
		_cleanup_(store_sandbox_freep) struct store_sandbox *sb = NULL;
		char id[16];

		(void)snprintf(id, sizeof(id), "i%u", n);
		if (store_sandbox_get(s, id, &sb, NULL) < 0)
			break;
	}
	ok(f, store_sandbox_count(s, NULL, STORE_ANY_STATE, &all, &f->e));
	assert_int_equal(all, n);
	return n;
}

static void test_cut_log(void **state)
{
	struct fixture *f = *state;
	char wal[128], copy[128], copy_wal[160];
	size_t synced_bytes = 0, bytes;
	struct stat st;

	(void)snprintf(wal, sizeof(wal), "%s-wal", f->path);
	(void)snprintf(copy, sizeof(copy), "%s/copy.db", f->dir);
	(void)snprintf(copy_wal, sizeof(copy_wal), "%s-wal", copy);
	for (unsigned i = 0; i < COMMITS; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "i%u", i);
		assert_int_equal(insert(f->s, f->key, id, T0), 0);
		if (i + 1 == SYNCED) {
			ok(f, store_sync(f->s, &f->e));
			assert_int_equal(stat(wal, &st), 0);
			synced_bytes = (size_t)st.st_size;
		}
	}
	assert_int_equal(stat(wal, &st), 0);
	bytes = (size_t)st.st_size;
	assert_true(synced_bytes > 0 && bytes > synced_bytes);
	for (unsigned i = 0; i <= CUTS; i++) {
		size_t cut =
			bytes - bytes * i / CUTS / 2; /* whole to half; half is before SYNCED */
		struct store *s = NULL;
		unsigned n;

		copy_file(f->path, copy, SIZE_MAX);
		copy_file(wal, copy_wal, cut);
		ok(f, store_open(copy, &s, &f->e));
		n = count_prefix(f, s);
		assert_true(n <= COMMITS && (cut < synced_bytes || n >= SYNCED));
		store_close(s);
	}
}

/* ---- a full disk ---- */

enum { DISK_BYTES = 24 << 20, FILLER_JSON = 30000 };

static int mount_small_disk(const char *dir)
{
	char options[64];

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	(void)snprintf(options, sizeof(options), "size=%d,mode=700", DISK_BYTES);
	return mount("mayfly-test", dir, "tmpfs", 0, options);
}

static void fill_disk(const char *path)
{
	static char zeros[65536];
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	while (write(fd, zeros, 512) > 0)
		;
	(void)close(fd);
}

static int insert_large(struct fixture *f, unsigned i)
{
	static char json[FILLER_JSON + 16];
	struct store_sandbox sb;
	char id[16];

	(void)snprintf(json, sizeof(json), "{\"x\":\"%0*d\"}", FILLER_JSON, 7);
	(void)snprintf(id, sizeof(id), "i%u", i);
	sb = fixture_sandbox(f, id);
	sb.extra_json = json;
	error_clear(&f->e);
	return store_sandbox_insert(f->s, &sb, &f->e);
}

static unsigned insert_until_full(struct fixture *f, unsigned from)
{
	int r = 0;

	while (r == 0 && from < 10000) {
		r = insert_large(f, from);
		from += r == 0;
	}
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(f->e.code, ERROR_NO_SPACE);
	return from;
}

static void change_everything(struct fixture *f, unsigned n)
{
	struct store_sandbox paused = {.state = STORE_PAUSED, .end_ns = T0};

	for (unsigned i = 0; i < n; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "i%u", i);
		ok(f, store_sandbox_set_end(f->s, id, T0 + i, &f->e));
		if (i % 3 == 0)
			ok(f, store_sandbox_update(f->s, id, STORE_ANY_STATE,
				      STORE_SET_STATE | STORE_SET_END, &paused, NULL, &f->e));
	}
}

static void test_full_disk(void **state)
{
	struct fixture *f = *state;
	char disk[80], filler[128];
	unsigned n;
	int r;

	(void)snprintf(disk, sizeof(disk), "%s/disk", f->dir);
	assert_int_equal(mkdir(disk, 0700), 0);
	if (mount_small_disk(disk) < 0) {
		print_message("skipped: a small tmpfs needs root and mount namespaces\n");
		skip();
	}
	store_close(f->s);
	f->s = NULL;
	(void)snprintf(f->path, sizeof(f->path), "%s/disk/mayfly.db", f->dir);
	(void)snprintf(filler, sizeof(filler), "%s/disk/filler", f->dir);
	ok(f, store_open(f->path, &f->s, &f->e));
	ok(f, store_key_create(f->s, &(struct store_key_spec){.name = "test"}, T0, f->key,
		      f->secret, &f->e));
	for (n = 0; n < 20; n++)
		ok(f, insert_large(f, n));
	fill_disk(filler);
	/* The reserve may take some rows, then new ones are refused and the rest goes on. */
	n = insert_until_full(f, n);
	print_message("full after %u rows\n", n);
	change_everything(f, n);
	assert_int_equal(insert_large(f, n), -ENOSPC);
	ok(f, store_sandbox_delete(f->s, "i0", &f->e));
	check_file(f);
	/* Nothing of it is lost by the daemon's death, and it starts when there is space again. */
	assert_int_equal(unlink(filler), 0);
	for (unsigned i = 0; (r = insert_large(f, 20000)) == -ENOSPC && i < 50; i++)
		(void)usleep(100000);
	assert_int_equal(r, 0);
	fixture_reopen(f);
	for (unsigned i = 1; i < n; i++) {
		_cleanup_(store_sandbox_freep) struct store_sandbox *sb = NULL;
		char id[16];

		(void)snprintf(id, sizeof(id), "i%u", i);
		ok(f, store_sandbox_get(f->s, id, &sb, &f->e));
		assert_int_equal(sb->state, i % 3 == 0 ? STORE_PAUSED : STORE_RUNNING);
	}
	store_close(f->s);
	f->s = NULL;
	assert_int_equal(umount2(disk, MNT_DETACH), 0);
}

/* The disk is full because of the database itself, with no space ever coming back. */
static void test_full_of_ourselves(void **state)
{
	struct fixture *f = *state;
	char disk[80];
	unsigned n;
	uint64_t count = 0;

	(void)snprintf(disk, sizeof(disk), "%s/disk", f->dir);
	assert_int_equal(mkdir(disk, 0700), 0);
	if (mount_small_disk(disk) < 0) {
		print_message("skipped: a small tmpfs needs root and mount namespaces\n");
		skip();
	}
	store_close(f->s);
	f->s = NULL;
	(void)snprintf(f->path, sizeof(f->path), "%s/disk/mayfly.db", f->dir);
	ok(f, store_open(f->path, &f->s, &f->e));
	ok(f, store_key_create(f->s, &(struct store_key_spec){.name = "test"}, T0, f->key,
		      f->secret, &f->e));
	n = insert_until_full(f, 0);
	print_message("full after %u rows\n", n);
	/* Deleting makes room inside the file. */
	for (unsigned i = 0; i < n / 2; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "i%u", i);
		ok(f, store_sandbox_delete(f->s, id, &f->e));
	}
	ok(f, store_sandbox_count(f->s, NULL, STORE_ANY_STATE, &count, &f->e));
	assert_int_equal(count, n - n / 2);
	check_file(f);
	store_close(f->s);
	f->s = NULL;
	assert_int_equal(umount2(disk, MNT_DETACH), 0);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_killed_daemon),
		TEST(test_cut_log),
		TEST(test_full_disk),
		TEST(test_full_of_ourselves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
