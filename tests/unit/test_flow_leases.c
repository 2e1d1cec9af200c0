/* How many flows workers may have, whatever they say (network/flow_leases.h). */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "fleet/fleet.h"
#include "network/flow_leases.h"
#include "policy/network_floor.h"

static struct network_floor operator_says = {.flows = {.sandbox = 20, .key = 300, .host = 400}};

static struct fleet new_fleet(void)
{
	return (struct fleet){.options.network = &operator_says};
}

/* What the worker says, and what the daemon answers. */
static void expect(struct flow_lease *l, const char *said, const char *want)
{
	json_t *v = json_loads(said, JSON_DECODE_ANY, NULL);
	char *line;

	assert_non_null(v);
	flow_lease_take(l, v);
	json_decref(v);
	line = flow_lease_line(l);
	assert_string_equal(line, want);
	free(line);
}

static void test_lends(void **state)
{
	struct fleet f = new_fleet();
	struct flow_lease *a = flow_lease_open(&f, "a", false),
			  *b = flow_lease_open(&f, "a", false),
			  *c = flow_lease_open(&f, "c", false);

	(void)state; /* none */
	assert_int_equal(f.flows_lent, 3 * FLOW_LEASE_FIRST);
	expect(a, "{\"has\": 2, \"wants\": 250}", "{\"flows\":{\"lent\":250}}");
	expect(b, "{\"has\": 2, \"wants\": 51}", "{\"flows\":{\"lent\":50,\"full\":\"key\"}}");
	expect(c, "{\"has\": 0, \"wants\": 101}", "{\"flows\":{\"lent\":100,\"full\":\"host\"}}");
	expect(a, "{\"has\": 9, \"wants\": 11}", "{\"flows\":{\"lent\":11}}"); /* gives back */
	expect(c, "{\"has\": 100, \"wants\": 101}", "{\"flows\":{\"lent\":101}}");
	assert_int_equal(f.flows_lent, 11 + 50 + 101);
	flow_lease_close(a);
	flow_lease_close(b);
	assert_int_equal(f.flows_lent, 101);
	flow_lease_close(c);
	flow_lease_close(NULL);
	assert_int_equal(f.flows_lent, 0);
	assert_null(f.flow_leases);
}

/* A worker that was taken over gets what its sandbox may have at most, with its datagrams. */
static void test_lies(void **state)
{
	struct fleet f = new_fleet();
	struct flow_lease *l = flow_lease_open(&f, "a", false);

	(void)state; /* none */
	expect(l, "{\"wants\": 1000000000000}", "{\"flows\":{\"lent\":276}}");
	expect(l, "{\"has\": 0, \"wants\": -1}", "{\"flows\":{\"lent\":0}}");
	expect(l, "{\"wants\": 7}", "{\"flows\":{\"lent\":7}}");
	expect(l, "7", "{\"flows\":{\"lent\":7}}");
	expect(l, "{\"wants\": \"x\"}", "{\"flows\":{\"lent\":0}}");
	flow_lease_close(l);
}

/* An earlier daemon has lent what a worker has, so that counts; once. */
static void test_found(void **state)
{
	struct fleet f = new_fleet();
	struct flow_lease *a = flow_lease_open(&f, "a", false), *b = flow_lease_open(&f, "a", true);

	(void)state; /* none */
	expect(a, "{\"has\": 0, \"wants\": 276}", "{\"flows\":{\"lent\":276}}");
	expect(b, "{\"has\": 200, \"wants\": 202}", "{\"flows\":{\"lent\":200,\"full\":\"key\"}}");
	assert_int_equal(f.flows_lent, 476);
	/* both keep what they have, and no more */
	expect(a, "{\"has\": 270, \"wants\": 276}", "{\"flows\":{\"lent\":270,\"full\":\"key\"}}");
	expect(b, "{\"has\": 276, \"wants\": 276}", "{\"flows\":{\"lent\":200,\"full\":\"key\"}}");
	expect(a, "{\"has\": 90, \"wants\": 92}", "{\"flows\":{\"lent\":92}}");
	flow_lease_close(a);
	flow_lease_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lends),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
