#include "sandbox/entry_ping.h"

#include <string.h>

#include "base/buf.h"
#include "proto/json_tree.h"

static bool is_ready(unsigned status, const char *body, size_t n)
{
	const char *reason, *word;
	json_t *root;
	bool ready;

	if (status == 404 || status == 405 || status == 501)
		return true;
	if (status != 200)
		return false;
	root = json_tree_parse(body, n, 0, &reason);
	word = json_tree_word(root, "status");
	ready = !word || strcmp(word, "Healthy") == 0 || strcmp(word, "HealthyBusy") == 0;
	json_decref(root);
	return ready;
}

bool entry_ping(const struct guest_dialler *d, uint16_t port)
{
	struct buf body = BUF_INIT(ENTRY_PING_BODY_MAX);
	unsigned status = guest_http_get(d, port, "/ping", &body);
	bool ready = is_ready(status, (const char *)buf_head(&body), buf_len(&body));

	buf_done(&body);
	return ready;
}
