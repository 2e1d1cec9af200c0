/* The daemon's side of connections between sandboxes: how many there may be, and when they are
 * judged. Which sandbox is meant (between_find.h) is the test's own. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "network/between.h"
#include "network/between_find.h"

enum { CALLERS = 10 };

static struct fleet fleet;
static struct instance callers[CALLERS];
static struct between *betweens[CALLERS];
static char key[] = "a key";

static const char *refusal; /* of between_find */
static bool same_target;    /* everybody goes to one sandbox */
static unsigned found;

static char last[256]; /* said to a worker */
static unsigned over;  /* of what was said: that one is over */
static unsigned errors;

static void (*obtained)(void *arg, struct instance *i, bool resumed, const struct error *why);
static void *obtained_arg;
static unsigned obtaining;

const char *__wrap_between_find(struct fleet *f, struct between_caller *caller, const char *to,
	uint16_t port, struct between_found *ret);

const char *__wrap_between_find(struct fleet *f, struct between_caller *caller, const char *to,
	uint16_t port, struct between_found *ret)
{
	*ret = (struct between_found){0};
	if (strcmp(to, "once") != 0)
		(void)snprintf(ret->id, sizeof(ret->id), "%s", to);
	else
		(void)snprintf(ret->id, sizeof(ret->id), "i%u", same_target ? 0 : found++ / 64);
	return refusal;
}

static void say(void *arg, const char *line, int fd)
{
	assert_int_equal(fd, -1);
	(void)snprintf(last, sizeof(last), "%s", line);
	over += !strchr(line, ',');
	errors += strstr(line, "\"error\"") != NULL;
}

static void note(struct instance *target, const json_t *flow)
{
	fail(); /* no sandbox is there that could have an activity */
}

static void obtain(struct fleet *f, const char *id, bool resume,
	void (*fn)(void *arg, struct instance *i, bool resumed, const struct error *why), void *arg,
	struct obtaining **ret)
{
	obtained = fn;
	obtained_arg = arg;
	obtaining++;
	*ret = (struct obtaining *)&obtaining; /* is only given back */
}

static void obtain_cancel(struct obtaining *o)
{
}

static int begin(void **state)
{
	static const struct between_ops ops = {say, note};

	fleet = (struct fleet){.obtain = obtain, .obtain_cancel = obtain_cancel, .stopping = true};
	refusal = NULL;
	same_target = false;
	found = obtaining = over = errors = 0;
	for (unsigned i = 0; i < CALLERS; i++) {
		callers[i] = (struct instance){.fleet = &fleet, .key_id = key};
		(void)snprintf(callers[i].sandbox.id, sizeof(callers[i].sandbox.id), "c%u", i);
		betweens[i] = between_open(&callers[i], &ops, NULL);
		assert_non_null(betweens[i]);
	}
	return 0;
}

static int end(void **state)
{
	for (unsigned i = 0; i < CALLERS; i++)
		between_close(betweens[i]);
	assert_null(fleet.between);
	return 0;
}

static void ask(unsigned caller, unsigned id, bool open)
{
	json_t *said = json_pack(
		"{s:i, s:s, s:i, s:b}", "id", (int)id, "to", "once", "port", 80, "open", (int)open);

	assert_non_null(said);
	between_take(betweens[caller], said);
	json_decref(said);
}

/* As many as may be of each caller but the last. */
static void fill(bool open)
{
	for (unsigned i = 0; i < BETWEEN_OF_KEY; i++) {
		fleet.between_asks.count = 0; /* as if they had time */
		fleet.between_asks.all = (struct rate){0};
		ask(i / BETWEEN_OF_CALLER, 1 + i, open);
	}
}

/* All asks are denied, so they count as no connections. */
static unsigned judged(unsigned callers_of_key)
{
	errors = 0;
	refusal = "it does not";
	for (unsigned i = 0; i < callers_of_key * BETWEEN_PER_SECOND; i++)
		ask(i / BETWEEN_PER_SECOND, 1 + i, false);
	return callers_of_key * BETWEEN_PER_SECOND - errors;
}

static void a_key_asks_so_often(void **state)
{
	unsigned n = judged(CALLERS);

	/* what became free meanwhile comes on top */
	assert_in_range(n, BETWEEN_KEY_PER_SECOND, BETWEEN_KEY_PER_SECOND * 3 / 2);
	assert_non_null(strstr(last, "ECONNREFUSED"));
}

static void a_key_has_a_share(void **state)
{
	fill(false);
	assert_int_equal(obtaining, BETWEEN_OF_KEY);
	ask(CALLERS - 1, 1, false);
	assert_int_equal(obtaining, BETWEEN_OF_KEY);
	assert_non_null(strstr(last, "this key has too many connections"));
	ask(0, BETWEEN_OF_KEY + 1, false);
	assert_non_null(strstr(last, "this sandbox has too many connections"));
}

static void another_key_has_its_own(void **state)
{
	static char other[] = "another key";
	static const struct between_ops ops = {say, note};
	struct instance caller = {.fleet = &fleet, .key_id = other, .sandbox = {.id = "other"}};

	fill(false);
	between_close(betweens[CALLERS - 1]);
	betweens[CALLERS - 1] = between_open(&caller, &ops, NULL);
	ask(CALLERS - 1, 1, false);
	assert_int_equal(obtaining, BETWEEN_OF_KEY + 1);
}

/* Whatever a worker says to be open. No sandbox is there, so all of them are over. */
static void open_ones_are_bounded_too(void **state)
{
	same_target = true;
	for (unsigned i = 0; i < BETWEEN_TO_TARGET; i++)
		ask(i % 2, 1 + i, true);
	assert_int_equal(over, BETWEEN_TO_TARGET);
	ask(2, 1, true);
	ask(2, 1, true); /* it is not known, or this would not be heard */
	assert_int_equal(over, BETWEEN_TO_TARGET + 2);
}

/* What the other sandbox lets in may change while it is resumed. */
static void it_is_judged_when_the_other_is_there(void **state)
{
	struct instance there = {.fleet = &fleet, .sandbox = {.id = "i0"}};

	ask(0, 1, false);
	assert_int_equal(obtaining, 1);
	refusal = "it was said otherwise";
	obtained(obtained_arg, &there, true, NULL);
	assert_non_null(strstr(last, "\"denied\":\"it was said otherwise\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_key_has_a_share, begin, end),
		cmocka_unit_test_setup_teardown(another_key_has_its_own, begin, end),
		cmocka_unit_test_setup_teardown(a_key_asks_so_often, begin, end),
		cmocka_unit_test_setup_teardown(open_ones_are_bounded_too, begin, end),
		cmocka_unit_test_setup_teardown(it_is_judged_when_the_other_is_there, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
