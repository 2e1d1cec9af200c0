/* Life-cycle events of a key's sandboxes, as E2B lists them: GET /events/sandboxes and
 * /events/sandboxes/{id}. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "fleet/events.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "proto/uri.h"
#include "store/events.h"

enum { EVENTS_MAX = 100, EVENTS_USUAL = 10, WORD_MAX = 512 };

/* --- the query (false: answered) --- */

static bool take_offset(struct request *r, uint64_t *ret)
{
	unsigned long long v;
	int err = uri_query_u64(r->head->query, "offset", STORE_EVENTS_KEY_MAX, &v);

	if (err == 0)
		*ret = v;
	else if (err != -ENOENT)
		reply_error(r, 400, "offset must be a number from 0 to %d", STORE_EVENTS_KEY_MAX);
	return err == 0 || err == -ENOENT;
}

static bool take_order(struct request *r, bool *ret)
{
	char word[8];
	int n = uri_query_get(r->head->query, "orderAsc", word, sizeof(word));

	if (n == -ENOENT)
		return true;
	*ret = n > 0 && strcmp(word, "true") == 0;
	if (!*ret && (n < 0 || strcmp(word, "false") != 0)) {
		reply_error(r, 400, "orderAsc must be true or false");
		return false;
	}
	return true;
}

/* One value of `types`: words with commas between them. */
static bool add_types(struct request *r, char *words, uint32_t *types)
{
	char *rest = words, *word;

	while ((word = strsep(&rest, ","))) {
		uint32_t more = event_types_of(word);

		if (!more) {
			reply_error(r, 400,
				"'%.64s' is no type of event: sandbox.lifecycle.created, killed, "
				"paused, resumed, updated or checkpointed",
				word);
			return false;
		}
		*types |= more;
	}
	return true;
}

/* `types` may be given several times. */
static bool take_types(struct request *r, uint32_t *types)
{
	const char *cursor = r->head->query;
	struct uri_pair p;
	char words[WORD_MAX];

	while (uri_query_next(&cursor, &p)) {
		if (p.key_len != 5 || memcmp(p.key, "types", 5) != 0)
			continue;
		if (uri_decode(p.value, p.value_len, true, words, sizeof(words)) < 0) {
			reply_error(r, 400, "types is too long or badly encoded");
			return false;
		}
		if (!add_types(r, words, types))
			return false;
	}
	return true;
}

/* --- the list --- */

static int add_event(void *arg, const struct store_event *ev)
{
	return json_array_append_new(arg, event_json(ev)) < 0 ? -ENOMEM : 0;
}

static void list(struct request *r, const char *key_id, const char *sandbox_id)
{
	struct store_event_filter f = {.key_id = key_id,
		.sandbox_id = sandbox_id,
		.limit = api_limit(r, EVENTS_MAX, EVENTS_USUAL)};
	struct error e = {0};
	json_t *events;
	int err;

	if (!f.limit || !take_offset(r, &f.offset) || !take_order(r, &f.ascending) ||
		!take_types(r, &f.types))
		return;
	if (!f.types)
		f.types = event_life_cycle();
	events = json_array();
	err = store_event_list(fleet_of(r)->store, &f, add_event, events, &e);
	if (err == 0) {
		reply_json(r, 200, events);
		return;
	}
	json_decref(events);
	if (e.code == ERROR_NONE)
		(void)error_set(&e, ERROR_INTERNAL, -err, "out of memory");
	reply_failure(r, &e);
}

void api_events(struct request *r)
{
	list(r, auth_scope(r), NULL);
}

void api_events_of(struct request *r)
{
	char id[ROUTE_SANDBOX_ID_MAX + 1];

	if (api_find_logged(r, id))
		list(r, auth_scope(r), id);
}
