/* What a new sandbox is told, and when its clock is told again. */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "sandbox/identity.h"

static const char *const env[] = {"A=B"};
static const struct identity_of new_one = {
	.hostname = "name", .user = "user", .workdir = "", .env = env, .env_count = 1};

static struct agent_conn *conn;

static int open_conn(void **state)
{
	return agent_open(-1, 0, &conn, NULL);
}

static int close_conn(void **state)
{
	agent_close(conn);
	return 0;
}

static char machine_id[33]; /* that was sent last */

/* The types of all messages that wait to be sent, which then are gone; *last: the last IDENTITY's
 * fields. */
static unsigned take_sent(uint8_t types[4], uint32_t *last)
{
	struct agent_rx rx;
	struct agent_frame f;
	const uint8_t *p;
	size_t n = agent_output(conn, &p);
	unsigned count = 0;

	agent_rx_init(&rx);
	assert_int_equal(buf_add(&rx.in, p, n), 0);
	agent_output_done(conn, n);
	while (agent_rx_next(&rx, &f) == 1) {
		struct agent_identity m;

		assert_true(count < 4);
		types[count++] = f.type;
		if (f.type != AGENT_IDENTITY)
			continue;
		assert_int_equal(agent_identity_decode(f.payload, f.length, &m), 0);
		*last = m.fields;
		if (m.fields & AGENT_ID_MACHINE_ID)
			strcpy(machine_id, m.machine_id);
	}
	agent_rx_done(&rx);
	return count;
}

static void queue(struct identity *i, const struct identity_of *of, uint32_t want)
{
	uint8_t types[4];
	uint32_t fields = 0;

	*i = (struct identity){0};
	assert_int_equal(identity_queue(i, conn, of, NULL), 0);
	assert_int_equal(take_sent(types, &fields), 2);
	assert_int_equal(types[0], AGENT_HELLO);
	assert_int_equal(types[1], AGENT_IDENTITY);
	assert_int_equal(fields, want);
}

static void test_fields(void **state)
{
	const uint32_t always = AGENT_ID_CLOCK | AGENT_ID_ENTROPY | AGENT_ID_ENV;
	const uint32_t all =
		always | AGENT_ID_HOSTNAME | AGENT_ID_MACHINE_ID | AGENT_ID_USER | AGENT_ID_WORKDIR;
	struct identity_of of = new_one;
	struct identity i;

	queue(&i, &of, all);
	of.disk_bytes = 1 << 30;
	queue(&i, &of, all | AGENT_ID_DISK);
	of.itself = true;
	of.disk_bytes = 0;
	queue(&i, &of, always);
}

/* The same each time that a sandbox boots, and no two sandboxes'. */
static void test_machine_id(void **state)
{
	struct identity_of of = new_one;
	struct identity i = {0};
	uint8_t types[4];
	uint32_t fields;
	char first[33];

	for (int n = 0; n < 3; n++) {
		of.hostname = n == 1 ? "another" : "name";
		assert_int_equal(identity_queue(&i, conn, &of, NULL), 0);
		assert_int_equal(take_sent(types, &fields), 2);
		assert_int_equal(strspn(machine_id, "0123456789abcdef"), 32);
		if (n == 0)
			strcpy(first, machine_id);
		else if (n == 1)
			assert_string_not_equal(machine_id, first);
		else
			assert_string_equal(machine_id, first);
	}
}

static void hello(struct identity *i, uint32_t facts)
{
	const struct agent_hello_reply h = {.version = 1,
		.version_min = 1,
		.version_max = 1,
		.state = AGENT_STATE_READY,
		.facts = facts,
		.problem = ""};

	assert_int_equal(identity_take_hello(i, &h, "template", NULL), 0);
}

/* Told late, until that is given up. */
static void test_clock_late(void **state)
{
	const struct agent_identity_reply fine = {0};
	uint8_t types[4];
	unsigned again = 0;
	uint32_t fields;
	struct identity i;

	queue(&i, &new_one, 0x7f);
	hello(&i, 0);
	i.told_ns -= NS_PER_S;
	while (identity_take(&i, conn, &fine, NULL) == 0) {
		assert_int_equal(take_sent(types, &fields), 1);
		assert_int_equal(types[0], AGENT_IDENTITY);
		assert_int_equal(fields, AGENT_ID_CLOCK);
		assert_true(++again < 100);
		i.told_ns -= NS_PER_S;
	}
	assert_true(again > 1);
}

static void test_clock_of_the_host(void **state)
{
	const struct agent_identity_reply fine = {0};
	struct identity i;

	queue(&i, &new_one, 0x7f);
	hello(&i, AGENT_FACT_HOST_CLOCK);
	i.told_ns -= NS_PER_S;
	assert_int_equal(identity_take(&i, conn, &fine, NULL), 1);
}

static void test_refusals(void **state)
{
	struct agent_identity_reply failed = {.attempted = 0x7f, .failed = AGENT_ID_HOSTNAME};
	struct agent_hello_reply h = {.version_min = 7, .version_max = 9, .problem = "no shell"};
	struct error e = {0};
	struct identity i;

	queue(&i, &new_one, 0x7f);
	assert_int_equal(identity_take_hello(&i, &h, "old", &e), -EPROTONOSUPPORT);
	assert_non_null(strstr(e.message, "template build --force old"));
	e = (struct error){0};
	h.version = 1;
	h.state = AGENT_STATE_UNUSABLE;
	assert_int_equal(identity_take_hello(&i, &h, "old", &e), -ENOEXEC);
	assert_non_null(strstr(e.message, "no shell"));
	e = (struct error){0};
	failed.errs[2] = EPERM;
	assert_int_equal(identity_take(&i, conn, &failed, &e), -EIO);
	assert_non_null(strstr(e.message, "host name"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_machine_id, open_conn, close_conn),
		cmocka_unit_test_setup_teardown(test_fields, open_conn, close_conn),
		cmocka_unit_test_setup_teardown(test_clock_late, open_conn, close_conn),
		cmocka_unit_test_setup_teardown(test_clock_of_the_host, open_conn, close_conn),
		cmocka_unit_test_setup_teardown(test_refusals, open_conn, close_conn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
