#include "lifecycle/revocation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "lifecycle/killing.h"
#include "network/renewal.h"
#include "store/keys.h"
#include "store/sandboxes.h"

bool revocation_of(struct fleet *f, const char *key_id)
{
	_cleanup_(store_key_freep) struct store_key *key = NULL;

	return store_key_get(f->store, key_id, &key, NULL) < 0 || key->revoked_ns;
}

/* --- all of a key --- */

struct sandboxes {
	char (*ids)[SANDBOX_ID_BYTES];
	size_t count;
};

static int note_one(void *arg, const struct store_sandbox *sb)
{
	struct sandboxes *all = arg;

	(void)snprintf(all->ids[all->count++], SANDBOX_ID_BYTES, "%s", sb->id); /* our ids: fit */
	return 0;
}

/* Killing changes the lists, so they are read first. */
static int kill_page(struct fleet *f, const char *key_id, const char *token,
	char ret_next[STORE_PAGE_TOKEN_BYTES], struct error *e)
{
	const struct store_sandbox_filter filter = {
		.key_id = key_id, .limit = STORE_LIST_MAX, .token = token};
	_cleanup_free_ char(*ids)[SANDBOX_ID_BYTES] = calloc(STORE_LIST_MAX, sizeof(*ids));
	struct sandboxes all = {.ids = ids};
	int r = ids ? store_sandbox_list(f->store, &filter, note_one, &all, ret_next, e)
		    : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	for (size_t n = 0; r == 0 && n < all.count; n++)
		r = killing_begin(f, ids[n], "a revoked key", e);
	return r;
}

static int kill_all(struct fleet *f, const char *key_id, struct error *e)
{
	char token[STORE_PAGE_TOKEN_BYTES] = "", next[STORE_PAGE_TOKEN_BYTES] = "";
	int r;

	do {
		memcpy(token, next, sizeof(token));
		r = kill_page(f, key_id, token, next, e);
	} while (r == 0 && *next);
	return r;
}

static void mark(struct instance *i, const char *key_id)
{
	if (i->key_id && strcmp(i->key_id, key_id) == 0)
		i->revoked = true;
}

static int mark_running(struct instance *i, void *arg)
{
	mark(i, arg);
	return 0;
}

int revocation_apply(struct fleet *f, const char *key_id, bool kill, struct error *e)
{
	char id[STORE_UUID_BYTES];
	int r = store_key_revoke(f->store, key_id, clock_realtime_ns(), e);

	if (r < 0)
		return r;
	(void)snprintf(id, sizeof(id), "%s", key_id); /* from the store: fits */
	(void)instance_each(f, mark_running, id);     /* always 0 */
	for (struct instance *i = f->other; i; i = i->next)
		mark(i, id);
	renewal_begin(f, id, "");
	return kill ? kill_all(f, id, e) : 0;
}
