#include "sandbox/bare_command.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { NESTED_MAX = 3, SLEEP_MAX_S = 3600 };

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The line that a shell is started for, or NULL. */
static const char *nested(const char *const *words, int n)
{
	if (n < 3 || strcmp(words[1], "-c") != 0 ||
		(strcmp(base_name(words[0]), "sh") != 0 &&
			strcmp(base_name(words[0]), "bash") != 0))
		return NULL;
	if (n == 5 && strstr(words[2], "-c \"$1\""))
		return words[4];
	return n == 3 ? words[2] : NULL;
}

int bare_command_split(char *line, const char *words[WORDS_MAX])
{
	for (unsigned i = 0; i < NESTED_MAX; i++) {
		int n = words_split(line, words, WORDS_MAX);
		const char *inner = n > 0 ? nested(words, n) : NULL;

		if (!inner)
			return n > 0 ? n : 0;
		line += inner - line; /* which it is a part of */
	}
	return 0;
}

/* The port between the two texts, or 0. */
static uint16_t port_between(const char *command, const char *before, const char *after)
{
	size_t n = strlen(command), b = strlen(before), a = strlen(after);
	char digits[8] = "";
	uint64_t port;

	if (n <= b + a || n - b - a >= sizeof(digits) || !str_starts_with(command, before) ||
		!str_ends_with(command, after))
		return 0;
	memcpy(digits, command + b, n - b - a);
	return str_parse_u64(digits, &port) == 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
}

enum bare_ready bare_ready_parse(const char *command, uint32_t *ret)
{
	static const char sleeps[] = "sleep ";
	uint16_t port;
	char *end;

	if (str_starts_with(command, sleeps)) {
		double s = strtod(command + strlen(sleeps), &end);

		if (*end || end == command + strlen(sleeps) || !(s >= 0 && s <= SLEEP_MAX_S))
			return BARE_READY_COMMAND;
		*ret = (uint32_t)(s * 1000);
		return BARE_READY_SLEEP;
	}
	port = port_between(command, "[ -n \"$(ss -Htuln sport = :", ")\" ]");
	if (!port)
		port = port_between(command, "ss -tuln | grep :", "");
	if (!port)
		return BARE_READY_COMMAND;
	*ret = port;
	return BARE_READY_PORT;
}
