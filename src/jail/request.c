#include "jail/request.h"

#include <errno.h>
#include <string.h>

struct head {
	uint32_t fd_count, has_cgroup, argc, envc;
};

/* Appends strings; returns the new length or -E2BIG. */
static int put_strings(char *data, int used, char *const *strings, uint32_t *ret_count)
{
	uint32_t n = 0;

	for (; strings[n]; n++) {
		size_t bytes = strlen(strings[n]) + 1;

		if (n == JAIL_STRINGS_MAX || bytes > (size_t)(JAIL_REQUEST_MAX - used))
			return -E2BIG;
		memcpy(data + used, strings[n], bytes);
		used += (int)bytes;
	}
	*ret_count = n;
	return used;
}

int jail_request_encode(const struct jail_request *r, char *data)
{
	struct head h = {.fd_count = r->fd_count, .has_cgroup = r->has_cgroup};
	int used = put_strings(data, sizeof(h), r->argv, &h.argc);

	if (used >= 0)
		used = put_strings(data, used, r->env, &h.envc);
	if (used < 0 || h.argc + h.envc > JAIL_STRINGS_MAX || r->fd_count > JAIL_FDS_MAX)
		return -E2BIG;
	memcpy(data, &h, sizeof(h));
	return used;
}

/* Finds `count` strings from *at on. */
static int take_strings(char **at, const char *end, uint32_t count, char **strings)
{
	for (uint32_t i = 0; i < count; i++) {
		char *zero = memchr(*at, 0, (size_t)(end - *at));

		if (!zero)
			return -EPROTO;
		strings[i] = *at;
		*at = zero + 1;
	}
	strings[count] = NULL;
	return 0;
}

int jail_request_decode(char *data, size_t n, unsigned sent, struct jail_request *ret)
{
	char *at = data + sizeof(struct head), *end = data + n;
	struct head h;

	if (n < sizeof(h))
		return -EPROTO;
	memcpy(&h, data, sizeof(h));
	if (h.argc == 0 || h.argc > JAIL_STRINGS_MAX || h.envc > JAIL_STRINGS_MAX - h.argc ||
		h.has_cgroup > 1 || h.fd_count > JAIL_FDS_MAX ||
		h.fd_count + 2 + h.has_cgroup != sent)
		return -EPROTO;
	ret->fd_count = h.fd_count;
	ret->has_cgroup = h.has_cgroup;
	if (take_strings(&at, end, h.argc, ret->argv) < 0 ||
		take_strings(&at, end, h.envc, ret->env) < 0 || at != end)
		return -EPROTO;
	return 0;
}
