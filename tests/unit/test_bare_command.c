/* Commands for images without a shell. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "sandbox/bare_command.h"

enum { LINE_BYTES = 512 };

/* The words with | between them; "" for none. */
static void splits(const char *line, const char *wanted)
{
	char copy[LINE_BYTES], all[LINE_BYTES] = "";
	const char *words[WORDS_MAX];
	int n;

	(void)snprintf(copy, sizeof(copy), "%s", line); /* all are short */
	n = bare_command_split(copy, words);
	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		(void)snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? "|" : "",
			words[i]);
	assert_string_equal(all, wanted);
}

static void test_split(void **state)
{
	static const char login[] = "/bin/sh -c 'if x; then exec bash -l -c \"$1\"; fi' sh ";
	char line[LINE_BYTES];

	splits("/app/server --port 80", "/app/server|--port|80");
	splits("/app/server 'a b'", "/app/server|a b");
	splits("/bin/sh -c '/app/server --port 80'", "/app/server|--port|80");
	splits("sh -c 'bash -c /app'", "/app");
	(void)snprintf(line, sizeof(line), "%s'/app/server 1'", login); /* fits */
	splits(line, "/app/server|1");
	(void)snprintf(line, sizeof(line), "%s'a | b'", login); /* likewise */
	splits(line, "");
	splits("/bin/sh -c 'a; b'", "");
	splits("/bin/sh -c 'sh -c \"sh -c x\"'", "");
	splits("/bin/sh script", "/bin/sh|script");
	splits("/bin/sh -c 'x y' name other third", "/bin/sh|-c|x y|name|other|third");
	splits("a $HOME", "");
	splits("", "");
}

static void ready(const char *command, enum bare_ready want, uint32_t number)
{
	uint32_t n = 0;

	assert_int_equal(bare_ready_parse(command, &n), want);
	assert_int_equal(n, number);
}

static void test_ready(void **state)
{
	ready("sleep 20", BARE_READY_SLEEP, 20000);
	ready("sleep 0.5", BARE_READY_SLEEP, 500);
	ready("ss -tuln | grep :8080", BARE_READY_PORT, 8080);
	ready("[ -n \"$(ss -Htuln sport = :8080)\" ]", BARE_READY_PORT, 8080);
	ready("[ -n \"$(ss -Htuln sport = :0)\" ]", BARE_READY_COMMAND, 0);
	ready("[ -n \"$(ss -Htuln sport = :65536)\" ]", BARE_READY_COMMAND, 0);
	ready("[ -n \"$(ss -Htuln sport = :80)\" ] && x", BARE_READY_COMMAND, 0);
	ready("[ -n \"$(ss -Htuln sport = :8000000000000000)\" ]", BARE_READY_COMMAND, 0);
	ready("[ -n \"$(ss -Htuln sport = :)\" ]", BARE_READY_COMMAND, 0);
	ready("sleep", BARE_READY_COMMAND, 0);
	ready("sleep ", BARE_READY_COMMAND, 0);
	ready("sleep -1", BARE_READY_COMMAND, 0);
	ready("sleep nan", BARE_READY_COMMAND, 0);
	ready("sleep 1e9", BARE_READY_COMMAND, 0);
	ready("sleep 1; x", BARE_READY_COMMAND, 0);
	ready("ss -tuln | grep :0", BARE_READY_COMMAND, 0);
	ready("ss -tuln | grep :70000", BARE_READY_COMMAND, 0);
	ready("ss -tuln | grep :80 | x", BARE_READY_COMMAND, 0);
	ready("/app/ready", BARE_READY_COMMAND, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_ready),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
