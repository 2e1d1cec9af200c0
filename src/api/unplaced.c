#include "api/unplaced.h"

#include <stddef.h>

#include "http/reply.h"

/* E2B has no code for other errors: the request is wrong, or exceeds the key's limits. */
static const struct {
	const char *error_code, *should_retry;
} words[ERROR_CODES_] = {
	[ERROR_INTERNAL] = {"internal_server_error", NULL},
	[ERROR_NO_SPACE] = {"sandbox_capacity_unavailable", "true"},
	[ERROR_TIMEOUT] = {"sandbox_placement_timeout", "true"},
	[ERROR_INCOMPATIBLE] = {"sandbox_no_compatible_node", "false"},
	[ERROR_HOST] = {"sandbox_create_failed", "true"},
	[ERROR_HOST_SLOW] = {"sandbox_create_failed", "true"},
	[ERROR_SANDBOX] = {"sandbox_create_failed", "true"},
	[ERROR_BAD_IMAGE] = {"sandbox_create_refused", "false"},
	[ERROR_BAD_SNAPSHOT] = {"sandbox_create_refused", "false"},
};

void api_reply_unplaced(struct request *r, const struct error *e)
{
	enum error_code code = e->code < ERROR_CODES_ ? e->code : ERROR_INTERNAL;

	reply_failure_as(r, e, words[code].error_code, words[code].should_retry);
}
