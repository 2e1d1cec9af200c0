#include "store/sandboxes_internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "store/sealed.h"
#include "store/text.h"

static const char *const state_names[STORE_STATES_] = {
	[STORE_RUNNING] = "running",
	[STORE_PAUSING] = "pausing",
	[STORE_PAUSED] = "paused",
	[STORE_SNAPSHOTTING] = "snapshotting",
	[STORE_KILLING] = "killing",
};

const char *store_sandbox_state_name(enum store_sandbox_state state)
{
	return (unsigned)state < STORE_STATES_ ? state_names[state] : "unknown";
}

/* Opens a sealed column if the caller wants what is in it. */
static const char *row_wanted(
	struct query *q, const struct store_sandbox *sb, enum sealed kind, bool wanted)
{
	if (wanted)
		return row_sealed(q, kind, sb->id);
	q->column++;
	return NULL;
}

void sandbox_read(struct query *q, enum sandbox_opened what, struct store_sandbox *sb)
{
	sb->id = row_text(q);
	sb->key_id = row_text(q);
	sb->template_id = row_text(q);
	sb->template_alias = row_text(q);
	sb->build_id = row_text(q);
	sb->state = (enum store_sandbox_state)row_u64(q);
	sb->created_ns = row_u64(q);
	sb->started_ns = row_u64(q);
	sb->resumed_ns = row_u64(q);
	sb->end_ns = row_u64(q);
	sb->timeout_ns = row_u64(q);
	sb->secure = row_bool(q);
	sb->auto_pause = row_bool(q);
	sb->auto_pause_memory = row_bool(q);
	sb->auto_resume = row_bool(q);
	sb->pause_memory = row_bool(q);
	sb->metadata_json = row_text(q);
	sb->env_json = row_wanted(q, sb, SEALED_SANDBOX_ENV, what == SANDBOX_ALL);
	sb->envd_token = row_wanted(q, sb, SEALED_ENVD_TOKEN, what == SANDBOX_ALL);
	sb->traffic_token = row_wanted(q, sb, SEALED_TRAFFIC_TOKEN, what == SANDBOX_ALL);
	sb->envd_version = row_text(q);
	sb->network_json = row_wanted(q, sb, SEALED_SANDBOX_NETWORK, what >= SANDBOX_NETWORK);
	sb->extra_json = row_text(q);
	sb->directory = row_text(q);
	sb->cpus = (uint32_t)row_u64(q);
	sb->memory_bytes = row_u64(q);
	sb->disk_bytes = row_u64(q);
	sb->vmm_pid = (pid_t)row_u64(q);
	sb->vmm_start = row_u64(q);
	sb->internet = (enum store_internet)row_u64(q);
	sb->network_generation = row_u64(q);
	sb->network_names_json = row_text(q);
	sb->secrets_json = row_text(q);
	sb->authority = row_text(q);
	sb->iam_json = row_text(q);
}

void sandbox_bind(struct query *q, const struct store_sandbox *sb)
{
	query_text(q, sb->id);
	query_text(q, sb->key_id);
	query_text(q, sb->template_id);
	query_text(q, sb->template_alias);
	query_text(q, sb->build_id);
	query_u64(q, sb->state);
	query_u64(q, sb->created_ns);
	query_u64(q, sb->started_ns);
	query_u64(q, sb->resumed_ns);
	query_u64(q, sb->end_ns);
	query_u64(q, sb->timeout_ns);
	query_u64(q, sb->secure);
	query_u64(q, sb->auto_pause);
	query_u64(q, sb->auto_pause_memory);
	query_u64(q, sb->auto_resume);
	query_u64(q, sb->pause_memory);
	query_text(q, sb->metadata_json);
	query_sealed(q, SEALED_SANDBOX_ENV, sb->id, sb->env_json);
	query_sealed(q, SEALED_ENVD_TOKEN, sb->id, sb->envd_token);
	query_sealed(q, SEALED_TRAFFIC_TOKEN, sb->id, sb->traffic_token);
	query_text(q, sb->envd_version);
	query_sealed(q, SEALED_SANDBOX_NETWORK, sb->id, sb->network_json);
	query_text(q, sb->extra_json);
	query_text(q, sb->directory);
	query_u64(q, sb->cpus);
	query_u64(q, sb->memory_bytes);
	query_u64(q, sb->disk_bytes);
	query_u64(q, sb->vmm_pid > 0 ? (uint64_t)sb->vmm_pid : 0);
	query_u64(q, sb->vmm_start);
	query_u64(q, sb->internet);
	query_u64(q, sb->network_generation);
	query_text(q, sb->network_names_json);
	query_text(q, sb->secrets_json);
	query_text(q, sb->authority);
	query_text(q, sb->iam_json);
}

static const size_t text_fields[] = {
	offsetof(struct store_sandbox, id),
	offsetof(struct store_sandbox, key_id),
	offsetof(struct store_sandbox, template_id),
	offsetof(struct store_sandbox, template_alias),
	offsetof(struct store_sandbox, build_id),
	offsetof(struct store_sandbox, metadata_json),
	offsetof(struct store_sandbox, env_json),
	offsetof(struct store_sandbox, envd_token),
	offsetof(struct store_sandbox, traffic_token),
	offsetof(struct store_sandbox, envd_version),
	offsetof(struct store_sandbox, network_json),
	offsetof(struct store_sandbox, network_names_json),
	offsetof(struct store_sandbox, secrets_json),
	offsetof(struct store_sandbox, authority),
	offsetof(struct store_sandbox, iam_json),
	offsetof(struct store_sandbox, extra_json),
	offsetof(struct store_sandbox, directory),
};

static const char **text_field(struct store_sandbox *sb, size_t i)
{
	return (const char **)(void *)((char *)sb + text_fields[i]);
}

/* What store_sandbox_free needs to know. */
struct block {
	struct store_sandbox sandbox; /* first: the caller's pointer */
	size_t text_bytes;
	char text[];
};

struct store_sandbox *sandbox_copy(const struct store_sandbox *sb)
{
	struct store_sandbox from = *sb;
	struct block *b;
	size_t n = 0;
	char *p;

	for (size_t i = 0; i < ARRAY_SIZE(text_fields); i++)
		n += *text_field(&from, i) ? strlen(*text_field(&from, i)) + 1 : 0;
	b = malloc(sizeof(*b) + n);
	if (!b)
		return NULL;
	b->sandbox = from;
	b->text_bytes = n;
	p = b->text;
	for (size_t i = 0; i < ARRAY_SIZE(text_fields); i++) {
		const char **field = text_field(&b->sandbox, i);
		size_t len = *field ? strlen(*field) + 1 : 0;

		if (!*field)
			continue;
		*field = memcpy(p, *field, len);
		p += len;
	}
	return &b->sandbox;
}

void store_sandbox_free(struct store_sandbox *sb)
{
	struct block *b = (struct block *)(void *)sb;

	if (!b)
		return;
	explicit_bzero(b->text, b->text_bytes);
	free(b);
}

void store_sandbox_freep(struct store_sandbox **sb)
{
	store_sandbox_free(*sb);
}

int sandbox_not_found(const char *id, struct error *e)
{
	/* The id may be any text from a client. */
	if (text_is_id(id))
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "sandbox %s does not exist", id);
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "no such sandbox");
}
