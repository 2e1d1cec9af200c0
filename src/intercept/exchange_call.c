/* What a person is shown of a call to a model or an MCP server. The names are the guest's words, so
 * they are written as previews are, and all of them together are bounded. */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "intercept/exchange_internal.h"
#include "intercept/preview.h"

enum { WRITTEN_MAX = 1024 /* of one name, before it is cut */ };

static size_t cut(char *name)
{
	static const char end[] = EXCHANGE_NAMES_CUT;
	size_t n = strlen(name);

	if (n <= EXCHANGE_NAME_MAX)
		return n;
	n = str_cut(name, n, EXCHANGE_NAME_MAX - (sizeof(end) - 1));
	memcpy(name + n, end, sizeof(end));
	return n + sizeof(end) - 1;
}

/* *ret is NULL if there is no room. */
static int write_name(
	struct exchange_call_text *t, const char *name, const struct intercept *i, const char **ret)
{
	struct buf b = BUF_INIT(WRITTEN_MAX);
	int r = preview_write(name, strlen(name), i, &b);
	size_t n = r < 0 ? 0 : cut((char *)buf_head(&b));

	*ret = NULL;
	if (r >= 0 && n < sizeof(t->text) - t->used) {
		*ret = memcpy(t->text + t->used, buf_head(&b), n + 1);
		t->used += n + 1;
	}
	buf_done(&b);
	return r < 0 ? r : 0;
}

static int write_names(struct exchange_call_text *t, const struct call_asked_names *from,
	const struct intercept *i, const char **list, struct exchange_names *ret)
{
	const char *name;
	bool more = from->more;
	unsigned n = 0;
	int r = 0;

	_Static_assert((int)CALL_ASKED_MAX <= (int)EXCHANGE_NAMES_MAX, "they fit");
	for (unsigned at = 0; r == 0 && at < from->count; at++) {
		r = write_name(t, from->names[at], i, &name);
		if (name)
			list[n++] = name;
		more = more || !name;
	}
	if (more)
		list[n++] = EXCHANGE_NAMES_CUT;
	*ret = (struct exchange_names){list, n};
	return r;
}

int exchange_call_write(
	const struct call_asked *asked, const struct intercept *i, struct exchange_call_text *ret)
{
	struct exchange_call *c = &ret->call;
	int r = 0;

	*ret = (struct exchange_call_text){
		.call = {.api = call_api_word(asked->api), .digest = asked->digest}};
	if (asked->model[0])
		r = write_name(ret, asked->model, i, &c->model);
	r = r ? r : write_names(ret, &asked->server_tools, i, ret->server_tools, &c->server_tools);
	r = r ? r : write_names(ret, &asked->tools, i, ret->tools, &c->tools);
	return r ? r : write_names(ret, &asked->methods, i, ret->methods, &c->methods);
}
