/* Commands for images without a shell. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
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

/* As builds on builds on templates make it of what the template starts. */
static void test_inherited(void **state)
{
	static const char moves[] = "cd \"$0\" && exec /bin/sh -c \"$1\"";
	char line[LINE_BYTES] = "/app/server 2";

	for (unsigned i = 0; i < 4; i++) {
		const char *const words[] = {"/bin/sh", "-c", moves, "/app", line};
		struct buf all = BUF_INIT(LINE_BYTES - 1);

		assert_int_equal(words_join(&all, words, ARRAY_SIZE(words)), 0);
		assert_int_equal(buf_add_u8(&all, 0), 0);
		(void)snprintf(line, sizeof(line), "%s", (const char *)buf_head(&all)); /* fits */
		buf_done(&all);
	}
	splits(line, "/app/server|2");
}

static void ready(const char *command, enum bare_ready_kind want, uint32_t number)
{
	struct bare_ready got = bare_ready_parse(command);

	assert_int_equal(got.kind, want);
	assert_int_equal(got.number, number);
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

static void asks(const char *command, enum bare_ready_kind want, const char *text)
{
	struct bare_ready got = bare_ready_parse(command);

	assert_int_equal(got.kind, want);
	assert_string_equal(got.text, text);
}

static void test_files_and_processes(void **state)
{
	char line[LINE_BYTES], path[BARE_READY_TEXT_MAX + 2];

	asks("[ -f /tmp/ready ]", BARE_READY_FILE, "/tmp/ready");
	asks("[ -f ready.txt ]", BARE_READY_FILE, "ready.txt");
	asks("[ -f /tmp/a b ]", BARE_READY_COMMAND, "");
	asks("[ -f $HOME/x ]", BARE_READY_COMMAND, "");
	asks("[ -f ~/x ]", BARE_READY_COMMAND, "");
	asks("[ -f /tmp/? ]", BARE_READY_COMMAND, "");
	asks("[ -f  ]", BARE_READY_COMMAND, "");
	asks("[ -f /a ] && [ -f /b ]", BARE_READY_COMMAND, "");
	asks("[ -d /tmp ]", BARE_READY_COMMAND, "");
	memset(path, 'x', sizeof(path));
	path[BARE_READY_TEXT_MAX + 1] = '\0';
	(void)snprintf(line, sizeof(line), "[ -f %s ]", path); /* fits */
	asks(line, BARE_READY_COMMAND, "");
	asks("pgrep nginx > /dev/null", BARE_READY_PROCESS, "nginx");
	asks("pgrep -f nginx > /dev/null", BARE_READY_COMMAND, "");
	asks("pgrep -x > /dev/null", BARE_READY_COMMAND, "");
	asks("pgrep a+ > /dev/null", BARE_READY_COMMAND, "");
	asks("pgrep nginx", BARE_READY_COMMAND, "");
}

#define CURL "curl -s -o /dev/null -w \"%{http_code}\" "

static void url(const char *place, const char *status, uint32_t port, const char *target)
{
	char line[LINE_BYTES];
	struct bare_ready got;

	(void)snprintf(line, sizeof(line), "%s%s | grep -q \"%s\"", CURL, place, status); /* fits */
	got = bare_ready_parse(line);
	assert_int_equal(got.kind, port ? BARE_READY_URL : BARE_READY_COMMAND);
	if (!port)
		return;
	assert_int_equal(got.number, port);
	assert_int_equal(got.status, strtoul(status, NULL, 10));
	assert_string_equal(got.text, target);
}

static void test_urls(void **state)
{
	url("http://localhost:8080/health?a=b", "200", 8080, "/health?a=b");
	url("http://127.0.0.1/", "204", 80, "/");
	url("http://0.0.0.0:3000", "404", 3000, "/");
	url("http://localhost:8080/", "20", 0, "");
	url("http://localhost:8080/", "2000", 0, "");
	url("http://localhost:8080/", "2.0", 0, "");
	url("http://localhost:8080/", "099", 0, "");
	url("http://localhost:0/", "200", 0, "");
	url("http://localhost:70000/", "200", 0, "");
	url("http://localhost:/", "200", 0, "");
	url("http://localhost.example/", "200", 0, "");
	url("http://localhost:80example/", "200", 0, "");
	url("https://localhost/", "200", 0, "");
	url("http://example.com/", "200", 0, "");
	url("http://localhost/a&b", "200", 0, "");
	url("http://localhost/ | grep -q \"200\" | x", "200", 0, "");
	asks(CURL "http://localhost/", BARE_READY_COMMAND, "");
	asks(" | grep -q \"200\"", BARE_READY_COMMAND, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_inherited),
		cmocka_unit_test(test_ready),
		cmocka_unit_test(test_files_and_processes),
		cmocka_unit_test(test_urls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
