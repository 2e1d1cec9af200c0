#include "policy/network_in.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

struct entry {
	const char *who;
	size_t bytes;
	uint16_t port; /* 0: all */
};

static bool is_name(const char *s, size_t n)
{
	static const char good[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

	return n > 0 && n <= NETWORK_IN_NAME_MAX && strspn(s, good) == n;
}

/* Why it is none, or NULL. */
static const char *parse(const char *text, struct entry *ret)
{
	const char *colon = strchr(text, ':');
	uint64_t port = 0;

	*ret = (struct entry){.who = text, .bytes = colon ? (size_t)(colon - text) : strlen(text)};
	if (colon && (str_parse_u64(colon + 1, &port) < 0 || port == 0 || port > UINT16_MAX))
		return "the port must be 1 to 65535";
	ret->port = (uint16_t)port;
	if ((ret->bytes == 1 && text[0] == '*') || is_name(text, ret->bytes))
		return NULL;
	return "it is neither *, nor a sandbox's id or name; a port may follow";
}

int network_in_check(const json_t *network, struct error *e)
{
	const json_t *list = json_object_get(network, "allowIn");
	size_t n = json_array_size(list);

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return error_set(e, ERROR_USAGE, EINVAL, "allowIn must be an array");
	if (n > NETWORK_IN_MAX)
		return error_set(
			e, ERROR_LIMIT, E2BIG, "allowIn has more than %d entries", NETWORK_IN_MAX);
	for (size_t i = 0; i < n; i++) {
		const char *text = json_string_value(json_array_get(list, i)), *why;
		struct entry entry;

		if (!text)
			return error_set(
				e, ERROR_USAGE, EINVAL, "allowIn[%zu] must be a string", i);
		why = parse(text, &entry);
		if (why)
			return error_set(
				e, ERROR_USAGE, EINVAL, "allowIn[%zu] '%.64s': %s", i, text, why);
	}
	return 0;
}

static bool is_one(const struct entry *entry, const char *text)
{
	return text && strlen(text) == entry->bytes && memcmp(text, entry->who, entry->bytes) == 0;
}

bool network_in_runs_code(uint16_t port)
{
	static const uint16_t ports[] = {
		2222,  /* ssh servers without root */
		2345,  /* Delve */
		5005,  /* JDWP */
		5678,  /* debugpy */
		9222,  /* Chrome's DevTools */
		9229,  /* Node.js's inspector */
		49983, /* envd */
		49999, /* the code interpreter */
	};

	for (size_t i = 0; i < ARRAY_SIZE(ports); i++)
		if (ports[i] == port)
			return true;
	return false;
}

static bool has_port(const struct entry *entry, uint16_t port)
{
	return entry->port ? entry->port == port : !network_in_runs_code(port);
}

int network_in_find(const json_t *network, const char *id, const char *name, uint16_t port)
{
	const json_t *list = json_object_get(network, "allowIn");

	for (size_t i = 0; i < json_array_size(list) && i < NETWORK_IN_MAX; i++) {
		const char *text = json_string_value(json_array_get(list, i));
		struct entry entry;

		if (!text || parse(text, &entry) || !has_port(&entry, port))
			continue;
		if (entry.who[0] == '*' || is_one(&entry, id) || is_one(&entry, name))
			return (int)i;
	}
	return -1;
}
