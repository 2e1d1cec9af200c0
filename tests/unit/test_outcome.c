/* src/invocation/outcome: how the end of a program is judged. */
#include "invocation/outcome.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/json_text.h"
#include "test.h"

static struct outcome judge(uint32_t flags, uint32_t status, struct outcome_facts f)
{
	const struct agent_exit exit = {.flags = flags, .status = status};
	struct outcome o;

	f.errors_bytes = f.errors ? strlen(f.errors) : 0;
	f.memory_bytes = UINT64_C(2) << 30;
	outcome_of_exit(&o, &exit, &f);
	return o;
}

static void test_ends(void **state)
{
	static const struct {
		uint32_t flags, status;
		struct outcome_facts facts;
		enum invocation_code code;
		const char *words;
	} cases[] = {
		{0, 0, {.printed = true}, INVOCATION_OK, ""},
		{0, 0, {0}, INVOCATION_NO_ANSWER, "standard output"},
		{0, 3, {.printed = true}, INVOCATION_FAILED, "status 3"},
		{AGENT_EXIT_SIGNALED, 11, {0}, INVOCATION_FAILED, "signal 11"},
		{0, 127, {0}, INVOCATION_NOT_STARTED, "command"},
		{0, 127, {.printed = true}, INVOCATION_FAILED, "status 127"},
		{0, 3, {.before = "it read its input"}, INVOCATION_CRASHED_AT_START,
			"status 3 before it read its input"},
		{AGENT_EXIT_SIGNALED, 11, {.before = "it listened"}, INVOCATION_CRASHED_AT_START,
			"signal 11 before it listened"},
		{0, 3, {.printed = true, .before = "it read its input"}, INVOCATION_FAILED,
			"status 3"},
		/* other causes tell more */
		{0, 127, {.before = "it read its input"}, INVOCATION_NOT_STARTED, "command"},
		{0, 0, {.before = "it read its input"}, INVOCATION_NO_ANSWER, "standard output"},
		{0, 1, {.errors = "x\nMemoryError\n", .before = "it read its input"},
			INVOCATION_OUT_OF_MEMORY, "2 GB"},
		{0, 1, {.denied = "a.example", .denied_rule = "r", .before = "it read its input"},
			INVOCATION_NETWORK_DENIED, "a.example (r)"},
		/* the kernel ended something, but not this */
		{0, 1, {.oom = true}, INVOCATION_FAILED, "status 1"},
		{AGENT_EXIT_SIGNALED, 9, {.oom = true}, INVOCATION_OUT_OF_MEMORY, "2 GB"},
		{0, 137, {.oom = true}, INVOCATION_OUT_OF_MEMORY, "--memory"},
		{AGENT_EXIT_SIGNALED, 9, {0}, INVOCATION_FAILED, "signal 9"},
		{0, 1, {.errors = "Traceback\nMemoryError\n"}, INVOCATION_OUT_OF_MEMORY, "2 GB"},
		{0, 1, {.denied = "evil.example", .denied_rule = "rule 2"},
			INVOCATION_NETWORK_DENIED, "evil.example (rule 2)"},
		/* it did without */
		{0, 0, {.printed = true, .denied = "evil.example", .denied_rule = "rule 2"},
			INVOCATION_OK, ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct outcome o = judge(cases[i].flags, cases[i].status, cases[i].facts);

		assert_int_equal(o.code, cases[i].code);
		assert_non_null(strstr(o.message, cases[i].words));
	}
	assert_int_equal(judge(AGENT_EXIT_SIGNALED, 9, (struct outcome_facts){0}).status, 137);
}

static void test_timeout(void **state)
{
	const struct outcome_facts f = {.timeout_ns = 1500 * NS_PER_MS};
	struct outcome o;

	outcome_timeout(&o, &f);
	assert_int_equal(o.code, INVOCATION_TIMEOUT);
	assert_non_null(strstr(o.message, "1.5 s and printed nothing"));
	assert_int_equal(o.status, -1);
}

/* Whatever a guest says, the message is UTF-8. */
static void test_message_is_utf8(void **state)
{
	struct outcome o;
	char text[2 * OUTCOME_MESSAGE_MAX];

	outcome_set(&o, INVOCATION_FAILED, "%s", "a\xff\xc3x\xe2\x82 \xc3\xa4");
	assert_string_equal(o.message, "a??x?? \xc3\xa4");
	for (size_t shift = 0; shift < 4; shift++) {
		memset(text, 'x', shift);
		for (size_t i = shift; i < sizeof(text); i += 4)
			memcpy(text + i, "\xf0\x9f\x98\x80", sizeof(text) - i < 4 ? 1 : 4);
		text[sizeof(text) - 4] = '\0';
		outcome_set(&o, INVOCATION_FAILED, "%s", text);
		assert_true(json_text_is_utf8(o.message, strlen(o.message)));
		assert_null(strchr(o.message, '?'));
		assert_true(strlen(o.message) > OUTCOME_MESSAGE_MAX - 5);
	}
}

static void test_codes(void **state)
{
	for (unsigned i = 0; i < INVOCATION_CODES_; i++) {
		assert_non_null(invocation_code_name(i));
		assert_true(invocation_http_status(i) == 200 || invocation_http_status(i) >= 400);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(invocation_code_name(i), invocation_code_name(k));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_message_is_utf8),
		cmocka_unit_test(test_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
