/* Inside the store: maps a row of the table sandboxes to its struct and back. */
#ifndef STORE_SANDBOXES_INTERNAL_H
#define STORE_SANDBOXES_INTERNAL_H

#include "store/db.h"
#include "store/sandboxes.h"

/* In the order of sandbox_read and sandbox_bind. */
#define SANDBOX_COLUMNS                                                                            \
	"id, key_id, template_id, template_alias, build_id, state, created_ns, started_ns, "       \
	"resumed_ns, end_ns, timeout_ns, secure, auto_pause, auto_pause_memory, auto_resume, "     \
	"pause_memory, metadata_json, env_json, envd_token, traffic_token, envd_version, "         \
	"network_json, extra_json, directory, cpus, memory_bytes, disk_bytes, vmm_pid, "           \
	"vmm_start, "                                                                              \
	"internet_access, network_generation, network_names_json, secrets_json, "                  \
	"authority, iam_json"
/* One mark per column. */
#define SANDBOX_MARKS                                                                              \
	"?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "  \
	"?, ?, ?, ?, ?, ?"

/* What of a row's sealed fields is opened; the others are NULL. */
enum sandbox_opened { SANDBOX_NOTHING, SANDBOX_NETWORK, SANDBOX_ALL };

void sandbox_read(struct query *q, enum sandbox_opened what, struct store_sandbox *sb);
void sandbox_bind(struct query *q, const struct store_sandbox *sb);
struct store_sandbox *sandbox_copy(const struct store_sandbox *sb);

int sandbox_not_found(const char *id, struct error *e);

#endif
