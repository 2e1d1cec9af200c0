#include "sandbox/bare_command.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { NESTED_MAX = 8, SLEEP_MAX_S = 3600 };

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

/* --- what E2B's clients ask --- */

/* Takes what is between the two texts, if it is the whole command and a shell would leave it as it
 * is. */
static bool between(const char *command, const char *before, const char *after,
	char ret[BARE_READY_TEXT_MAX + 1])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-._/:%+,@=?";
	size_t n = strlen(command), b = strlen(before), a = strlen(after);

	if (n <= b + a || n - b - a > BARE_READY_TEXT_MAX || !str_starts_with(command, before) ||
		!str_ends_with(command, after))
		return false;
	memcpy(ret, command + b, n - b - a);
	ret[n - b - a] = '\0';
	return ret[strspn(ret, plain)] == '\0';
}

static bool take_sleep(const char *command, struct bare_ready *ret)
{
	char *end;
	double s;

	if (!between(command, "sleep ", "", ret->text))
		return false;
	s = strtod(ret->text, &end);
	if (*end || end == ret->text || !(s >= 0 && s <= SLEEP_MAX_S))
		return false;
	ret->number = (uint32_t)(s * 1000);
	return true;
}

static bool take_number(const char *digits, uint32_t *ret)
{
	uint64_t n;

	if (str_parse_u64(digits, &n) < 0 || n == 0 || n > UINT16_MAX)
		return false;
	*ret = (uint32_t)n;
	return true;
}

static bool take_port(const char *command, struct bare_ready *ret)
{
	return (between(command, "[ -n \"$(ss -Htuln sport = :", ")\" ]", ret->text) ||
		       between(command, "ss -tuln | grep :", "", ret->text)) &&
	       take_number(ret->text, &ret->number);
}

static bool take_file(const char *command, struct bare_ready *ret)
{
	return between(command, "[ -f ", " ]", ret->text) && !strchr(ret->text, '?');
}

/* Letters that mean more than themselves to pgrep make it a command. */
static bool take_process(const char *command, struct bare_ready *ret)
{
	return between(command, "pgrep ", " > /dev/null", ret->text) &&
	       !strpbrk(ret->text, "?+=,") && ret->text[0] != '-';
}

/* Path and query are left in text. */
static bool take_place(struct bare_ready *ret)
{
	static const char *const hosts[] = {
		"http://localhost", "http://127.0.0.1", "http://0.0.0.0"};
	const char *rest = NULL;
	char port[8] = "80";
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(hosts) && !rest; i++)
		if (str_starts_with(ret->text, hosts[i]))
			rest = ret->text + strlen(hosts[i]);
	if (rest && *rest == ':') {
		n = strspn(++rest, "0123456789");
		if (n == 0 || n >= sizeof(port))
			return false;
		memcpy(port, rest, n);
		port[n] = '\0';
		rest += n;
	}
	if (!rest || (*rest && *rest != '/') || !take_number(port, &ret->number))
		return false;
	memmove(ret->text, *rest ? rest : "/", strlen(*rest ? rest : "/") + 1);
	return true;
}

static bool take_url(const char *command, struct bare_ready *ret)
{
	static const char before[] = "curl -s -o /dev/null -w \"%{http_code}\" ",
			  pipe[] = " | grep -q \"";
	const char *grep = strstr(command, pipe);
	char tail[sizeof(pipe) + 8];
	uint32_t status;

	if (!grep || strlen(grep) != strlen(pipe) + 4) /* three digits and the quote */
		return false;
	memcpy(tail, grep, strlen(grep) + 1);
	if (!between(command, before, tail, ret->text) || !take_place(ret))
		return false;
	tail[strlen(pipe) + 3] = '\0';
	if (!str_ends_with(command, "\"") || !take_number(tail + strlen(pipe), &status))
		return false;
	ret->status = status;
	return status >= 100;
}

struct bare_ready bare_ready_parse(const char *command)
{
	static const struct {
		enum bare_ready_kind kind;
		bool (*take)(const char *command, struct bare_ready *ret);
	} shapes[] = {{BARE_READY_SLEEP, take_sleep}, {BARE_READY_PORT, take_port},
		{BARE_READY_FILE, take_file}, {BARE_READY_PROCESS, take_process},
		{BARE_READY_URL, take_url}};

	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct bare_ready ready = {.kind = shapes[i].kind};

		if (shapes[i].take(command, &ready))
			return ready;
	}
	return (struct bare_ready){.kind = BARE_READY_COMMAND};
}
