/* In which order sandboxes are told of changes (network/renewal.h). What they are told is the
 * test's own. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "network/renewal.h"

static struct fleet fleet;
static char told[256];

void __wrap_network_renew(struct instance *i, const char *name);

void __wrap_network_renew(struct instance *i, const char *name)
{
	size_t n = strlen(told);

	(void)snprintf(told + n, sizeof(told) - n, "%s%s:%s", n ? " " : "", i->sandbox.id, name);
	if (strcmp(name, "s1") == 0)
		renewal_begin(&fleet, "c", ""); /* while s1 is served */
}

static void keys_take_turns(void **state)
{
	static char authority[] = "there is one", a[] = "a", b[] = "b", c[] = "c";
	char *keys[] = {a, b, c};
	struct instance of[3];
	uv_loop_t loop;

	assert_int_equal(uv_loop_init(&loop), 0);
	fleet.loop = &loop;
	for (unsigned i = 0; i < 3; i++) {
		of[i] = (struct instance){.fleet = &fleet,
			.state = INSTANCE_RUNNING,
			.key_id = keys[i],
			.authority = authority,
			.next = fleet.other};
		(void)snprintf(of[i].sandbox.id, sizeof(of[i].sandbox.id), "%s", keys[i]);
		fleet.other = &of[i];
	}
	for (unsigned i = 1; i < 5; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "s%u", i);
		renewal_begin(&fleet, "a", name);
		renewal_begin(&fleet, "a", name); /* is noted once */
	}
	renewal_begin(&fleet, "b", "t1");
	renewal_begin(&fleet, "b", "t2");
	renewal_begin(&fleet, "b", "");
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_string_equal(told, "b: a:s1 c: b:t1 a:s2 b:t2 a:s3 a:s4");
	assert_null(fleet.renewal);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(keys_take_turns)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
