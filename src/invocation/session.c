/* The sandboxes of sessions. Each belongs to one version of its agent: an invocation of another
 * version begins in a new one, and the old one ends. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "invocation/invocations_internal.h"
#include "lifecycle/killing.h"
#include "proto/json_tree.h"
#include "store/agents.h"
#include "store/sandboxes.h"

enum { SESSIONS_PAGE = 64 };

static int list(struct fleet *f, const char *key_id, const struct store_pair *pairs, unsigned count,
	int (*each)(void *arg, const struct store_sandbox *sb), void *arg, const char *token,
	char ret_next[STORE_PAGE_TOKEN_BYTES], struct error *e)
{
	const struct store_sandbox_filter filter = {.key_id = key_id,
		.states = ~STORE_STATE_BIT(STORE_KILLING),
		.metadata = pairs,
		.metadata_count = count,
		.limit = SESSIONS_PAGE,
		.token = token};

	return store_sandbox_list(f->store, &filter, each, arg, ret_next, e);
}

/* Ends a sandbox. If that fails, the next invocation or the key's limits meet it again. */
static void end(struct fleet *f, const char *sandbox_id)
{
	struct error e = {0};

	if (killing_begin(f, sandbox_id, "an agent's session", &e) < 0)
		log_error("cannot end a session: %s sandbox=%s", e.message, sandbox_id);
}

/* --- of an invocation --- */

struct found {
	const char *build_id;
	char id[SANDBOX_ID_BYTES]; /* "": none yet */
	char old[SESSIONS_PAGE][SANDBOX_ID_BYTES];
	unsigned old_count;
};

static int note(void *arg, const struct store_sandbox *sb)
{
	struct found *s = arg;
	json_t *metadata = json_tree_stored(sb->metadata_json);
	bool same = strcmp(json_tree_text(metadata, SESSION_BUILD), s->build_id) == 0;
	char *to = same && !*s->id ? s->id : s->old[s->old_count++];

	(void)snprintf(to, SANDBOX_ID_BYTES, "%s", sb->id); /* same size */
	json_decref(metadata);
	return 0;
}

int invocation_find_session(const struct invocation *v, char ret[SANDBOX_ID_BYTES], struct error *e)
{
	const struct store_pair pairs[] = {
		{SESSION_NAME, v->order.session}, {SESSION_AGENT, v->order.agent}};
	struct fleet *f = v->all->fleet;
	struct found s = {.build_id = v->order.build_id};
	char next[STORE_PAGE_TOKEN_BYTES];
	int r = list(f, v->order.key_id, pairs, ARRAY_SIZE(pairs), note, &s, NULL, next, e);

	/* none is in use: one invocation of a session runs at a time */
	for (unsigned n = 0; r == 0 && n < s.old_count; n++)
		end(f, s.old[n]);
	memcpy(ret, s.id, sizeof(s.id));
	return r;
}

bool invocation_has_agent(const struct invocation *v)
{
	struct store_agent agent;
	struct error why = {0};

	return store_agent_get(v->all->fleet->store, v->order.agent_id, &agent, &why) == 0 ||
	       why.code != ERROR_NOT_FOUND;
}

/* --- of an agent --- */

struct idle {
	const struct invocations *all;
	const char *agent_id;
	char ids[SESSIONS_PAGE][SANDBOX_ID_BYTES];
	unsigned count;
};

/* An invocation that uses its sandbox ends it itself (invocation_let_go). */
static bool is_used(const struct idle *s, const char *session)
{
	for (const struct invocation *v = s->all->running; v; v = v->next_running)
		if (v->order.session && strcmp(v->order.session, session) == 0 &&
			strcmp(v->order.agent_id, s->agent_id) == 0)
			return true;
	return false;
}

static int note_idle(void *arg, const struct store_sandbox *sb)
{
	struct idle *s = arg;
	json_t *metadata = json_tree_stored(sb->metadata_json);
	const char *session = json_tree_text(metadata, SESSION_NAME);

	if (*session && !is_used(s, session))
		(void)snprintf(s->ids[s->count++], SANDBOX_ID_BYTES, "%s", sb->id); /* same size */
	json_decref(metadata);
	return 0;
}

/* Those that have no sandbox yet. */
static void end_waiting(struct invocations *all, const char *agent_id)
{
	struct outcome o = {.status = -1};

	outcome_set(&o, INVOCATION_NO_SANDBOX,
		"the agent was removed while the invocation waited for its turn");
	for (struct invocation *v = all->first; v; v = v->next)
		if (v->state == INVOCATION_QUEUED && strcmp(v->order.agent_id, agent_id) == 0)
			invocation_over(v, &o);
}

void invocations_end_agent(
	struct fleet *f, const char *key_id, const char *agent_id, const char *agent)
{
	const struct store_pair pair = {SESSION_AGENT, agent};
	char token[STORE_PAGE_TOKEN_BYTES] = "", next[STORE_PAGE_TOKEN_BYTES] = "";
	struct error e = {0};
	int r;

	end_waiting(f->invocations, agent_id);
	do {
		struct idle s = {.all = f->invocations, .agent_id = agent_id};

		memcpy(token, next, sizeof(token));
		r = list(f, key_id, &pair, 1, note_idle, &s, token, next, &e);
		for (unsigned n = 0; n < s.count; n++)
			end(f, s.ids[n]);
	} while (r == 0 && *next);
	if (r < 0)
		log_error("cannot end the sessions of an agent: %s agent=%s", e.message, agent_id);
}
