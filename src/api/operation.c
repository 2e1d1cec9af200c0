#include "api/operation.h"

#include <errno.h>

#include "proto/uri.h"

int operation_no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

int operation_query(
	const struct operation *o, const char *name, char *out, size_t cap, struct error *e)
{
	int n = uri_query_get(o->query, name, out, cap);

	if (n == -ENOENT || n == 0)
		return 0;
	return n > 0 ? 1 : error_set(e, ERROR_USAGE, EINVAL, "%s is malformed or too long", name);
}
