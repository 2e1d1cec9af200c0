/* Which long work runs beside which, and what is cancelled. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/lane.h"

enum { JOBS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static uv_loop_t loop;
static struct lane lane;

/* Under the lock. */
static char begun[JOBS + 1]; /* the names of jobs in the order of their beginning */
static bool may_end[JOBS];

struct test_job {
	struct lane_job job;
	char name[2];
	unsigned index;
	unsigned asked; /* by admit */
	bool done, cancelled;
};
static struct test_job jobs[JOBS];
static unsigned job_count;

static void run(struct lane_job *j)
{
	const struct test_job *t = j->data;

	pthread_mutex_lock(&lock);
	(void)strcat(begun, t->name); /* fits */
	pthread_cond_broadcast(&changed);
	while (!may_end[t->index])
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void done(struct lane_job *j, bool cancelled)
{
	struct test_job *t = j->data;

	assert_false(t->done);
	t->done = true;
	t->cancelled = cancelled;
}

static struct test_job *add(const char *key)
{
	struct test_job *t = &jobs[job_count];

	*t = (struct test_job){
		.index = job_count++, .job = {.key_id = key, .run = run, .done = done, .data = t}};
	t->name[0] = *key;
	lane_add(&lane, &t->job);
	return t;
}

static void let_end(const struct test_job *t)
{
	pthread_mutex_lock(&lock);
	may_end[t->index] = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* Until the job is done. */
static void end(const struct test_job *t)
{
	let_end(t);
	while (!t->done)
		(void)uv_run(&loop, UV_RUN_ONCE); /* there is more to wait for */
}

/* Waits until as many have begun, and tells which. */
static const char *await_begun(size_t count)
{
	static char copy[JOBS + 1];

	pthread_mutex_lock(&lock);
	while (strlen(begun) < count)
		pthread_cond_wait(&changed, &lock);
	strcpy(copy, begun);
	pthread_mutex_unlock(&lock);
	return copy;
}

static unsigned count_of(const char *text, char c)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

static int setup(void **state)
{
	job_count = 0;
	*begun = '\0';
	memset(may_end, 0, sizeof(may_end));
	assert_int_equal(uv_loop_init(&loop), 0);
	lane = (struct lane){.loop = &loop, .max = LANE_MAX, .key_max = LANE_KEY_MAX};
	return 0;
}

static int teardown(void **state)
{
	for (unsigned n = 0; n < job_count; n++)
		let_end(&jobs[n]);
	(void)uv_run(&loop, UV_RUN_DEFAULT); /* to the end */
	for (unsigned n = 0; n < job_count; n++)
		assert_true(jobs[n].done);
	assert_null(lane.waiting);
	assert_null(lane.running);
	assert_int_equal(lane.count, 0);
	assert_int_equal(uv_loop_close(&loop), 0);
	return 0;
}

/* A key's own waits, and others go past. */
static void a_keys_share(void **state)
{
	for (unsigned n = 0; n < LANE_KEY_MAX + 3; n++)
		(void)add("a");
	(void)add("b");
	assert_int_equal(count_of(await_begun(LANE_KEY_MAX + 1), 'a'), LANE_KEY_MAX);
	assert_int_equal(count_of(await_begun(LANE_KEY_MAX + 1), 'b'), 1);
	end(&jobs[1]);
	assert_int_equal(count_of(await_begun(LANE_KEY_MAX + 2), 'a'), LANE_KEY_MAX + 1);
	assert_false(jobs[LANE_KEY_MAX].job.waiting); /* the first that waited */
	assert_true(jobs[LANE_KEY_MAX + 1].job.waiting);
}

static void all_shares(void **state)
{
	static const char *const keys[] = {"a", "b", "c"};

	for (unsigned n = 0; n < 3 * LANE_KEY_MAX; n++)
		(void)add(keys[n % 3]);
	assert_int_equal(strlen(await_begun(LANE_MAX)), LANE_MAX);
	assert_int_equal(lane.count, LANE_MAX);
	for (unsigned n = 0; n < 3 * LANE_KEY_MAX; n++) {
		end(&jobs[n]);
		assert_true(lane.count <= LANE_MAX);
	}
	assert_int_equal(count_of(await_begun(3 * LANE_KEY_MAX), 'c'), LANE_KEY_MAX);
}

/* It never runs, whatever else does; what runs is not touched. */
static void cancelled_before_its_turn(void **state)
{
	struct test_job *first = add("a"), *last = NULL;

	for (unsigned n = 0; n < LANE_KEY_MAX; n++)
		last = add("a");
	(void)await_begun(LANE_KEY_MAX);
	lane_cancel(&first->job);
	lane_cancel(&last->job);
	lane_cancel(&last->job);
	assert_false(last->done); /* not within the call */
	while (!last->done)
		(void)uv_run(&loop, UV_RUN_ONCE); /* as above */
	assert_true(last->cancelled);
	assert_false(first->done);
	assert_int_equal(strlen(await_begun(LANE_KEY_MAX)), LANE_KEY_MAX);
	end(first);
	assert_false(first->cancelled);
}

static void cancel_all(void **state)
{
	for (unsigned n = 0; n < LANE_KEY_MAX + 5; n++)
		(void)add("a");
	(void)await_begun(LANE_KEY_MAX);
	lane_cancel_all(&lane);
	for (unsigned n = 0; n < LANE_KEY_MAX; n++)
		let_end(&jobs[n]);
	(void)uv_run(&loop, UV_RUN_DEFAULT); /* to the end */
	for (unsigned n = 0; n < LANE_KEY_MAX + 5; n++)
		assert_int_equal(jobs[n].cancelled, n >= LANE_KEY_MAX);
	assert_int_equal(strlen(begun), LANE_KEY_MAX);
}

/* Room for two jobs of a key; r is refused, and n never begins. */
static int admit(struct lane_job *j)
{
	struct test_job *t = j->data;

	t->asked++;
	if (*t->name == 'r')
		return -EDQUOT;
	if (*t->name == 'n')
		return -EAGAIN;
	return lane_promised(j->lane, j->key_id).bytes >= 20 ? -EAGAIN : 0;
}

static struct test_job *add_admitted(const char *key)
{
	struct test_job *t = &jobs[job_count];

	*t = (struct test_job){.index = job_count++,
		.job = {.key_id = key,
			.promise = {1, 10, 5},
			.admit = admit,
			.run = run,
			.done = done,
			.data = t}};
	*t->name = *key;
	lane_add(&lane, &t->job);
	return t;
}

static void admitted_one_by_one(void **state)
{
	struct test_job *a[LANE_KEY_MAX];
	struct lane_promise p;

	for (unsigned n = 0; n < LANE_KEY_MAX; n++)
		a[n] = add_admitted("a");
	(void)add_admitted("b");
	assert_int_equal(strlen(await_begun(3)), 3);
	assert_int_equal(count_of(await_begun(3), 'a'), 2);
	p = lane_promised(&lane, "a");
	assert_int_equal(p.states, LANE_KEY_MAX); /* those that wait have their places */
	assert_int_equal(p.bytes, 20);
	p = lane_promised(&lane, NULL);
	assert_int_equal(p.states, LANE_KEY_MAX + 1);
	assert_int_equal(p.bytes, 30);
	assert_int_equal(p.writes, 15);
	assert_int_equal(a[3]->asked, 0); /* the first that waits stands for its key */
	end(a[0]);
	assert_int_equal(count_of(await_begun(4), 'a'), 3);
	lane_cancel(&a[3]->job);
	assert_int_equal(lane_promised(&lane, "a").states, 2);
}

/* The promise of a job holds until its owner has noted what it made. */
static bool last_waits;

static void done_and_look(struct lane_job *j, bool cancelled)
{
	done(j, cancelled);
	last_waits = jobs[2].job.waiting;
}

static void nobody_begins_before_done(void **state)
{
	for (unsigned n = 0; n < 3; n++)
		(void)add_admitted("a");
	jobs[1].job.done = done_and_look;
	(void)await_begun(2);
	assert_true(jobs[2].job.waiting);
	end(&jobs[1]);
	assert_true(last_waits);
	assert_false(jobs[2].job.waiting);
}

static void refused_without_running(void **state)
{
	struct test_job *t = add_admitted("r");

	assert_false(t->done); /* not within the call */
	while (!t->done)
		(void)uv_run(&loop, UV_RUN_ONCE); /* as above */
	assert_true(t->cancelled);
	assert_int_equal(strlen(begun), 0);
	assert_int_equal(lane_promised(&lane, NULL).states, 0);
}

/* No look at the queue asks for more keys than these. */
static void keys_that_are_held(void **state)
{
	static const char *const keys[] = {"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"};

	for (unsigned n = 0; n <= LANE_HELD_MAX; n++)
		(void)add_admitted(keys[n]);
	for (unsigned n = 0; n <= LANE_HELD_MAX; n++)
		assert_int_equal(jobs[n].asked > 0, n < LANE_HELD_MAX);
	lane_cancel_all(&lane);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Work of the loop takes places of the same lane, and gives them back. */
static void test_places(void **state)
{
	struct lane l = {.loop = &loop, .max = 3, .key_max = 2};
	struct lane_job a[3] = {{.key_id = "a"}, {.key_id = "a"}, {.key_id = "a"}};
	struct lane_job b[2] = {{.key_id = "b"}, {.key_id = "b"}};

	assert_true(lane_enter(&l, &a[0]) && lane_enter(&l, &a[1]));
	assert_false(lane_enter(&l, &a[2])); /* its key's share */
	assert_true(lane_enter(&l, &b[0]));
	assert_false(lane_enter(&l, &b[1])); /* all */
	assert_int_equal(lane_count_of(&l, "a"), 2);
	lane_leave(&a[0]);
	assert_true(lane_enter(&l, &b[1]));
	assert_int_equal(l.count, 3);
	lane_leave(&a[1]);
	lane_leave(&b[0]);
	lane_leave(&b[1]);
	assert_int_equal(l.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_keys_share),
		T(all_shares),
		T(cancelled_before_its_turn),
		T(cancel_all),
		T(admitted_one_by_one),
		T(nobody_begins_before_done),
		T(refused_without_running),
		T(keys_that_are_held),
		cmocka_unit_test(test_places),
	};

	(void)setenv("UV_THREADPOOL_SIZE", "16", 1); /* as the daemon */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
