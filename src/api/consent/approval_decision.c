#include "api/consent/approval_decision.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "http/reply.h"
#include "network/approvals.h"

static bool take_word(struct request *r, const json_t *body, struct store_approval *d)
{
	const char *word = json_string_value(json_object_get(body, "decision"));

	if (word && strcmp(word, "allow") == 0)
		d->state = STORE_APPROVAL_ALLOWED;
	else if (word && strcmp(word, "deny") == 0)
		d->state = STORE_APPROVAL_DENIED;
	else
		reply_error(r, 400, "decision must be \"allow\" or \"deny\"");
	return d->state != STORE_APPROVAL_WAITING;
}

static bool take_for(struct request *r, const json_t *body, struct store_approval *d)
{
	const json_t *v = json_object_get(body, "for");
	const char *word = json_string_value(v);

	if (!v || json_is_null(v) || (word && store_approval_for_parse(word, &d->scope) == 0))
		return true;
	reply_error(r, 400, "for must be \"once\", \"sandbox\" or \"template\"");
	return false;
}

/* A decision for a template outlives its sandboxes, so it ends by itself in any case. */
static bool take_ttl(struct request *r, const json_t *body, struct store_approval *d)
{
	int64_t s = 0;
	int err = api_integer(body, "ttl", &s);

	d->until_ns = STORE_NEVER_NS;
	if (err == -ENOENT && d->scope == STORE_APPROVAL_TEMPLATE)
		s = APPROVAL_TTL_MAX_S;
	else if (err == -ENOENT)
		return true;
	if (err == -EINVAL || s < 1 || s > APPROVAL_TTL_MAX_S) {
		reply_error(r, 400, "ttl must be a number of seconds, 1 to %d", APPROVAL_TTL_MAX_S);
		return false;
	}
	if (d->scope == STORE_APPROVAL_ONCE) {
		reply_error(
			r, 400, "ttl is for decisions for the sandbox or template: say \"for\"");
		return false;
	}
	d->until_ns = clock_realtime_ns() + (uint64_t)s * NS_PER_S;
	return true;
}

static bool take_reason(struct request *r, const json_t *body, struct store_approval *d)
{
	const json_t *v = json_object_get(body, "reason");

	if (v && !json_is_null(v) &&
		(!json_is_string(v) || json_string_length(v) > STORE_APPROVAL_REASON_MAX)) {
		reply_error(r, 400, "reason must be text of at most %d bytes",
			STORE_APPROVAL_REASON_MAX);
		return false;
	}
	d->reason = json_string_value(v);
	return true;
}

static bool take_unseen(struct request *r, const json_t *body, bool *ret)
{
	const json_t *v = json_object_get(body, "acceptUnseen");

	*ret = json_is_true(v);
	if (!v || json_is_null(v) || json_is_boolean(v))
		return true;
	reply_error(r, 400, "acceptUnseen must be true or false");
	return false;
}

bool approval_decision_take(
	struct request *r, const json_t *body, struct store_approval *ret, bool *ret_accepts_unseen)
{
	*ret = (struct store_approval){.state = STORE_APPROVAL_WAITING};
	return take_word(r, body, ret) && take_for(r, body, ret) && take_ttl(r, body, ret) &&
	       take_reason(r, body, ret) && take_unseen(r, body, ret_accepts_unseen);
}
