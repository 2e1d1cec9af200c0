#include "interpreter/api_reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void api_reply_text(struct exchange *x, unsigned status, const char *text)
{
	exchange_reply(x, status, "text/plain; charset=utf-8", text, strlen(text));
}

void api_reply_json(struct exchange *x, json_t *j)
{
	_cleanup_free_ char *text =
		j ? json_dumps(j, JSON_ENSURE_ASCII | JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	json_decref(j);
	if (text)
		exchange_reply(x, 200, "application/json", text, strlen(text));
	else
		api_reply_text(x, 503, "out of memory");
}

void api_reply_error(struct exchange *x, const struct error *e)
{
	static const unsigned statuses[ERROR_CODES_] = {
		[ERROR_USAGE] = 400,
		[ERROR_NOT_FOUND] = 400, /* of a language; 404 is for contexts */
		[ERROR_LIMIT] = 429,
		[ERROR_NO_SPACE] = 503,
	};
	unsigned status = statuses[e->code];

	api_reply_text(x, status ? status : 500, e->message);
}
