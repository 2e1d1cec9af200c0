#include "store/schema.h"

#include <errno.h>
#include <stdio.h>

#include "base/str.h"

/* Marks the file as ours: "Mayf", PRAGMA application_id. */
#define APPLICATION_ID 0x4d617966

/* STRICT tables, so that a column holds its declared type. The indices serve the hot queries;
 * tests/unit/test_store_plan.c ties each query to its index. */
static const char version_1[] =
	"CREATE TABLE teams ("
	"	id TEXT PRIMARY KEY,"
	"	name TEXT NOT NULL,"
	"	is_default INTEGER NOT NULL,"
	"	created_ns INTEGER NOT NULL"
	") STRICT;"
	"CREATE UNIQUE INDEX teams_default ON teams (is_default) WHERE is_default = 1;"

	"CREATE TABLE tiers ("
	"	name TEXT PRIMARY KEY,"
	"	included_minutes INTEGER NOT NULL,"
	"	price_micros INTEGER NOT NULL,"
	"	hard_stop INTEGER NOT NULL"
	") STRICT;"

	"CREATE TABLE keys ("
	"	id TEXT PRIMARY KEY,"
	"	name TEXT NOT NULL,"
	"	team_id TEXT NOT NULL REFERENCES teams (id),"
	"	hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),"
	"	mask_prefix TEXT NOT NULL,"
	"	mask_value_length INTEGER NOT NULL,"
	"	mask_first TEXT NOT NULL,"
	"	mask_last TEXT NOT NULL,"
	"	created_ns INTEGER NOT NULL,"
	"	last_used_ns INTEGER NOT NULL DEFAULT 0,"
	"	revoked_ns INTEGER NOT NULL DEFAULT 0,"
	"	max_sandboxes INTEGER NOT NULL,"
	"	creates_per_minute INTEGER NOT NULL,"
	"	max_cpus INTEGER NOT NULL,"
	"	max_memory_bytes INTEGER NOT NULL,"
	"	max_disk_bytes INTEGER NOT NULL,"
	"	max_timeout_ns INTEGER NOT NULL,"
	"	tier TEXT REFERENCES tiers (name)"
	") STRICT;"
	"CREATE INDEX keys_tier ON keys (tier);"

	/* seq is never reused: what remains of a removed sandbox cannot be taken for another's. */
	"CREATE TABLE sandboxes ("
	"	seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	id TEXT NOT NULL UNIQUE,"
	"	key_id TEXT NOT NULL REFERENCES keys (id),"
	"	template_id TEXT NOT NULL,"
	"	template_alias TEXT,"
	"	build_id TEXT,"
	"	state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4),"
	"	created_ns INTEGER NOT NULL,"
	"	started_ns INTEGER NOT NULL,"
	"	resumed_ns INTEGER NOT NULL,"
	"	end_ns INTEGER NOT NULL,"
	"	timeout_ns INTEGER NOT NULL,"
	"	secure INTEGER NOT NULL,"
	"	auto_pause INTEGER NOT NULL,"
	"	auto_pause_memory INTEGER NOT NULL,"
	"	auto_resume INTEGER NOT NULL,"
	"	pause_memory INTEGER NOT NULL,"
	"	metadata_json TEXT,"
	"	env_json TEXT,"
	"	envd_token TEXT,"
	"	traffic_token TEXT,"
	"	envd_version TEXT NOT NULL,"
	"	network_json TEXT,"
	"	extra_json TEXT,"
	"	directory TEXT,"
	"	cpus INTEGER NOT NULL,"
	"	memory_bytes INTEGER NOT NULL,"
	"	disk_bytes INTEGER NOT NULL,"
	"	vmm_pid INTEGER NOT NULL,"
	"	vmm_start INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX sandboxes_started ON sandboxes (started_ns, id);"
	"CREATE INDEX sandboxes_key ON sandboxes (key_id, started_ns, id);"
	"CREATE INDEX sandboxes_state ON sandboxes (state, key_id);"
	"CREATE INDEX sandboxes_running ON sandboxes (key_id, started_ns, id) "
	"WHERE state IN (0, 3);"
	"CREATE INDEX sandboxes_end ON sandboxes (end_ns) WHERE state = 0;"
	"CREATE INDEX sandboxes_template ON sandboxes (template_id);"

	/* In the order of a list: a page with a metadata filter needs no sort, however many
	 * sandboxes match. */
	"CREATE TABLE sandbox_metadata ("
	"	key_id TEXT NOT NULL,"
	"	name TEXT NOT NULL,"
	"	value TEXT NOT NULL,"
	"	started_ns INTEGER NOT NULL,"
	"	sandbox_id TEXT NOT NULL,"
	"	sandbox INTEGER NOT NULL REFERENCES sandboxes (seq) ON DELETE CASCADE,"
	"	PRIMARY KEY (key_id, name, value, started_ns, sandbox_id)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX sandbox_metadata_sandbox ON sandbox_metadata (sandbox, name, value);"

	/* No foreign key: samples of a removed sandbox are removed later, in slices. */
	"CREATE TABLE samples ("
	"	sandbox INTEGER NOT NULL,"
	"	slot INTEGER NOT NULL,"
	"	at_ns INTEGER NOT NULL,"
	"	cpu_count INTEGER NOT NULL,"
	"	cpu_used_permille INTEGER NOT NULL,"
	"	mem_used_bytes INTEGER NOT NULL,"
	"	mem_total_bytes INTEGER NOT NULL,"
	"	mem_cache_bytes INTEGER NOT NULL,"
	"	disk_used_bytes INTEGER NOT NULL,"
	"	disk_total_bytes INTEGER NOT NULL,"
	"	PRIMARY KEY (sandbox, slot)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE sample_garbage (sandbox INTEGER PRIMARY KEY) STRICT;"

	"CREATE TABLE events ("
	"	id INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	type INTEGER NOT NULL,"
	"	at_ns INTEGER NOT NULL,"
	"	sandbox_id TEXT NOT NULL,"
	"	key_id TEXT NOT NULL REFERENCES keys (id),"
	"	template_id TEXT,"
	"	details_json TEXT"
	") STRICT;"
	"CREATE INDEX events_sandbox ON events (sandbox_id);"
	"CREATE INDEX events_key ON events (key_id);"

	/* total_: of all runs; last_: the last report, by the run `run`. */
	"CREATE TABLE usage_sandboxes ("
	"	sandbox_id TEXT PRIMARY KEY,"
	"	key_id TEXT NOT NULL REFERENCES keys (id),"
	"	run INTEGER NOT NULL,"
	"	first_ns INTEGER NOT NULL,"
	"	last_ns INTEGER NOT NULL,"
	"	total_uptime_us INTEGER NOT NULL,"
	"	total_cpu_us INTEGER NOT NULL,"
	"	total_memory_mib_s INTEGER NOT NULL,"
	"	total_disk_mib_s INTEGER NOT NULL,"
	"	total_net_in_bytes INTEGER NOT NULL,"
	"	total_net_out_bytes INTEGER NOT NULL,"
	"	last_uptime_us INTEGER NOT NULL,"
	"	last_cpu_us INTEGER NOT NULL,"
	"	last_memory_mib_s INTEGER NOT NULL,"
	"	last_disk_mib_s INTEGER NOT NULL,"
	"	last_net_in_bytes INTEGER NOT NULL,"
	"	last_net_out_bytes INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX usage_sandboxes_last ON usage_sandboxes (last_ns);"
	"CREATE INDEX usage_sandboxes_key ON usage_sandboxes (key_id, last_ns);"

	/* day: days since 1970-01-01 UTC. */
	"CREATE TABLE usage_days ("
	"	key_id TEXT NOT NULL REFERENCES keys (id),"
	"	day INTEGER NOT NULL,"
	"	uptime_us INTEGER NOT NULL,"
	"	cpu_us INTEGER NOT NULL,"
	"	memory_mib_s INTEGER NOT NULL,"
	"	disk_mib_s INTEGER NOT NULL,"
	"	net_in_bytes INTEGER NOT NULL,"
	"	net_out_bytes INTEGER NOT NULL,"
	"	PRIMARY KEY (key_id, day)"
	") STRICT, WITHOUT ROWID;"

	"CREATE TABLE webhooks ("
	"	id TEXT PRIMARY KEY,"
	"	key_id TEXT REFERENCES keys (id),"
	"	url TEXT NOT NULL,"
	"	secret TEXT NOT NULL,"
	"	types INTEGER NOT NULL,"
	"	enabled INTEGER NOT NULL,"
	"	created_ns INTEGER NOT NULL,"
	"	queued INTEGER NOT NULL DEFAULT 0,"
	"	dropped INTEGER NOT NULL DEFAULT 0"
	") STRICT;"
	"CREATE TABLE deliveries ("
	"	id INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,"
	"	event_id INTEGER NOT NULL,"
	"	payload TEXT NOT NULL,"
	"	attempts INTEGER NOT NULL DEFAULT 0,"
	"	created_ns INTEGER NOT NULL,"
	"	next_ns INTEGER NOT NULL,"
	"	last_error TEXT"
	") STRICT;"
	"CREATE INDEX deliveries_webhook ON deliveries (webhook_id);"
	"CREATE INDEX deliveries_next ON deliveries (next_ns);";

/* Templates get ids and counters, tiers a currency, keys the right to make keys. In version 1 a
 * template's name was its id, and its sandboxes were told that id. */
static const char version_2[] =
	"ALTER TABLE tiers ADD COLUMN currency TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE keys ADD COLUMN manages_keys INTEGER NOT NULL DEFAULT 0;"

	/* made_s: time of the build that build_id stands for. Rows stay when a template is removed:
	 * a new template of the same name is the same template. */
	"CREATE TABLE templates ("
	"	name TEXT PRIMARY KEY,"
	"	id TEXT NOT NULL UNIQUE,"
	"	build_id TEXT NOT NULL,"
	"	made_s INTEGER NOT NULL,"
	"	build_count INTEGER NOT NULL,"
	"	spawn_count INTEGER NOT NULL,"
	"	last_spawned_ns INTEGER NOT NULL"
	") STRICT;"
	"INSERT INTO templates "
	"SELECT template_id, lower(hex(randomblob(10))), '', 0, 0, count(*), max(started_ns) "
	"FROM sandboxes GROUP BY template_id;"
	"UPDATE sandboxes SET template_alias = template_id, "
	"template_id = (SELECT id FROM templates WHERE name = template_id);";

/* Adds snapshots. */
static const char version_3[] =
	"CREATE TABLE snapshots ("
	"	id TEXT PRIMARY KEY,"
	"	key_id TEXT NOT NULL REFERENCES keys (id),"
	"	name TEXT,"
	"	tag TEXT,"
	"	sandbox_id TEXT NOT NULL,"
	"	template_id TEXT NOT NULL,"
	"	template_alias TEXT NOT NULL,"
	"	created_ns INTEGER NOT NULL,"
	"	cpus INTEGER NOT NULL,"
	"	memory_bytes INTEGER NOT NULL,"
	"	disk_bytes INTEGER NOT NULL,"
	"	own_bytes INTEGER NOT NULL"
	") STRICT;"
	"CREATE UNIQUE INDEX snapshots_name ON snapshots (name, tag, key_id) "
	"WHERE name IS NOT NULL;"
	"CREATE INDEX snapshots_key ON snapshots (key_id);"
	"CREATE INDEX snapshots_created ON snapshots (created_ns, id);";

/* Adds limits for paused sandboxes and snapshots. Disables webhooks of keys that are already
 * revoked. */
static const char version_4[] =
	"ALTER TABLE keys ADD COLUMN max_kept INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE keys ADD COLUMN max_kept_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN kept_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE snapshots ADD COLUMN kept_bytes INTEGER NOT NULL DEFAULT 0;"
	"UPDATE snapshots SET kept_bytes = own_bytes;"
	"CREATE INDEX sandboxes_kept ON sandboxes (key_id, kept_bytes) WHERE state IN (1, 2);"
	"CREATE INDEX snapshots_kept ON snapshots (key_id, kept_bytes);"
	"DROP INDEX snapshots_key;"
	"DELETE FROM deliveries WHERE webhook_id IN (SELECT id FROM webhooks WHERE key_id IN "
	"(SELECT id FROM keys WHERE revoked_ns <> 0));"
	"UPDATE webhooks SET enabled = 0, queued = 0 WHERE key_id IN "
	"(SELECT id FROM keys WHERE revoked_ns <> 0);";

/* Adds creations that clients may repeat. number: ascending per key. */
static const char version_5[] =
	"CREATE TABLE creations ("
	"	id INTEGER PRIMARY KEY,"
	"	key_id TEXT NOT NULL REFERENCES keys (id),"
	"	word TEXT NOT NULL,"
	"	hash BLOB NOT NULL CHECK (length(hash) = 32),"
	"	sandbox_id TEXT NOT NULL,"
	"	number INTEGER NOT NULL,"
	"	created_ns INTEGER NOT NULL"
	") STRICT;"
	"CREATE UNIQUE INDEX creations_word ON creations (key_id, word);"
	"CREATE UNIQUE INDEX creations_number ON creations (key_id, number);"
	"CREATE INDEX creations_created ON creations (created_ns);";

/* Adds what a sandbox may reach. internet_access: enum store_internet. Earlier versions had no
 * network and did not keep what clients said about it, so their sandboxes go on without. */
static const char version_6[] =
	"ALTER TABLE sandboxes ADD COLUMN internet_access INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN network_generation INTEGER NOT NULL DEFAULT 1;"
	"ALTER TABLE sandboxes ADD COLUMN network_names_json TEXT;"
	"UPDATE sandboxes SET internet_access = 2;";

/* Adds the activity of sandboxes, and what they do in the network to their usage. Records of an
 * ended sandbox stay for days, so nothing refers to `sandboxes`. A record's `bytes` are not stored:
 * length(record) and an overhead. activity_totals has a row for each key, and one for all (''). */
static const char version_7[] =
	"CREATE TABLE activity_totals ("
	"	seq INTEGER PRIMARY KEY,"
	"	key_id TEXT NOT NULL UNIQUE,"
	"	bytes INTEGER NOT NULL DEFAULT 0"
	") STRICT;"
	"INSERT INTO activity_totals (seq, key_id) VALUES (0, '');"
	"CREATE TABLE activity_logs ("
	"	seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	sandbox_id TEXT NOT NULL UNIQUE,"
	"	owner INTEGER NOT NULL REFERENCES activity_totals (seq),"
	"	bytes INTEGER NOT NULL DEFAULT 0,"
	"	dropped INTEGER NOT NULL DEFAULT 0,"
	"	lost INTEGER NOT NULL DEFAULT 0,"
	"	ended_ns INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX activity_logs_ended ON activity_logs (ended_ns) WHERE ended_ns > 0;"
	"CREATE TABLE activity ("
	"	id INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	log INTEGER NOT NULL,"
	"	owner INTEGER NOT NULL,"
	"	kind INTEGER NOT NULL,"
	"	at_ns INTEGER NOT NULL,"
	"	record TEXT NOT NULL"
	") STRICT;"
	"CREATE INDEX activity_log ON activity (log, id, kind);"
	"CREATE INDEX activity_owner ON activity (owner);"
	"ALTER TABLE usage_sandboxes ADD COLUMN total_egress_in_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_sandboxes ADD COLUMN total_egress_out_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_sandboxes ADD COLUMN total_flows_allowed INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_sandboxes ADD COLUMN total_flows_denied INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_sandboxes ADD COLUMN last_egress_in_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_sandboxes ADD COLUMN last_egress_out_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_sandboxes ADD COLUMN last_flows_allowed INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_sandboxes ADD COLUMN last_flows_denied INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_days ADD COLUMN egress_in_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_days ADD COLUMN egress_out_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_days ADD COLUMN flows_allowed INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_days ADD COLUMN flows_denied INTEGER NOT NULL DEFAULT 0;";

/* Adds secrets, and what a sandbox has of them. sealed: policy/seal.h. authority: base64 of what is
 * sealed. */
static const char version_8[] = "CREATE TABLE secrets ("
				"	id TEXT PRIMARY KEY,"
				"	key_id TEXT NOT NULL REFERENCES keys (id),"
				"	name TEXT NOT NULL,"
				"	version INTEGER NOT NULL,"
				"	metadata_json TEXT NOT NULL,"
				"	created_ns INTEGER NOT NULL,"
				"	updated_ns INTEGER NOT NULL,"
				"	sealed BLOB NOT NULL"
				") STRICT;"
				"CREATE UNIQUE INDEX secrets_name ON secrets (key_id, name);"
				"ALTER TABLE sandboxes ADD COLUMN secrets_json TEXT;"
				"ALTER TABLE sandboxes ADD COLUMN authority TEXT;";

/* What sandboxes of a key may reach at most. */
static const char version_9[] = "ALTER TABLE keys ADD COLUMN network TEXT;";

/* What sandboxes say of themselves to services, and the keys that sign it. sealed: policy/seal.h.
 */
static const char version_10[] = "CREATE TABLE signers ("
				 "	id TEXT PRIMARY KEY,"
				 "	created_ns INTEGER NOT NULL,"
				 "	public_json TEXT NOT NULL,"
				 "	sealed BLOB NOT NULL"
				 ") STRICT;"
				 "ALTER TABLE sandboxes ADD COLUMN iam_json TEXT;";

/* Adds approvals. state, scope: enum store_approval_state, enum store_approval_for. */
static const char version_11[] =
	"CREATE TABLE approvals ("
	"	seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	id TEXT NOT NULL UNIQUE,"
	"	key_id TEXT NOT NULL,"
	"	sandbox_id TEXT NOT NULL,"
	"	template_id TEXT,"
	"	rule TEXT NOT NULL,"
	"	question TEXT NOT NULL,"
	"	same BLOB NOT NULL,"
	"	target BLOB NOT NULL,"
	"	link_key BLOB NOT NULL,"
	"	asked_ns INTEGER NOT NULL,"
	"	expires_ns INTEGER NOT NULL,"
	"	count INTEGER NOT NULL DEFAULT 1,"
	"	state INTEGER NOT NULL DEFAULT 0,"
	"	decided_ns INTEGER NOT NULL DEFAULT 0,"
	"	decided_by TEXT,"
	"	reason TEXT,"
	"	scope INTEGER NOT NULL DEFAULT 0,"
	"	until_ns INTEGER NOT NULL DEFAULT 0,"
	"	spare INTEGER NOT NULL DEFAULT 0"
	") STRICT;"
	"CREATE UNIQUE INDEX approvals_same ON approvals (sandbox_id, same) WHERE state = 0;"
	"CREATE INDEX approvals_waits ON approvals (key_id) WHERE state = 0;"
	"CREATE INDEX approvals_late ON approvals (expires_ns) WHERE state = 0;"
	"CREATE INDEX approvals_over ON approvals (key_id, seq) WHERE state > 0;"
	"CREATE INDEX approvals_spare ON approvals (sandbox_id, same) WHERE spare = 1;"
	"CREATE INDEX approvals_given ON approvals (sandbox_id, target) WHERE scope = 1;"
	"CREATE INDEX approvals_wide ON approvals (key_id, target) WHERE scope = 2;"
	"CREATE INDEX approvals_key ON approvals (key_id, seq, state);"
	"CREATE INDEX approvals_sandbox ON approvals (sandbox_id, seq, state);";

/* Adds names of webhooks, snapshots of disks only, and what a list of events tells: the id that a
 * webhook's receiver sees, the build, and a bound of events for each key. The indices hold what
 * lists filter by, so that skipped rows cost little. */
static const char version_12[] =
	"ALTER TABLE webhooks ADD COLUMN name TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE snapshots ADD COLUMN memory INTEGER NOT NULL DEFAULT 1;"
	"ALTER TABLE events ADD COLUMN uuid TEXT;"
	"ALTER TABLE events ADD COLUMN build_id TEXT;"
	"DROP INDEX events_sandbox;"
	"DROP INDEX events_key;"
	"CREATE INDEX events_sandbox ON events (sandbox_id, id, type, at_ns, key_id);"
	"CREATE INDEX events_key ON events (key_id, id, type, at_ns);"
	"CREATE TABLE event_totals ("
	"	key_id TEXT PRIMARY KEY,"
	"	count INTEGER NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"INSERT INTO event_totals SELECT key_id, count(*) FROM events GROUP BY key_id;"
	"CREATE TRIGGER events_removed AFTER DELETE ON events BEGIN "
	"UPDATE event_totals SET count = count - 1 WHERE key_id = old.key_id; END;";

/* Templates that clients build, their builds, and what names them. */
static const char version_13[] =
	"CREATE TABLE catalog ("
	"	id TEXT PRIMARY KEY,"
	"	key_id TEXT NOT NULL REFERENCES keys (id),"
	"	name TEXT NOT NULL,"
	"	public INTEGER NOT NULL,"
	"	created_ns INTEGER NOT NULL,"
	"	updated_ns INTEGER NOT NULL,"
	"	build_count INTEGER NOT NULL,"
	"	spawn_count INTEGER NOT NULL,"
	"	last_spawned_ns INTEGER NOT NULL"
	") STRICT;"
	"CREATE UNIQUE INDEX catalog_name ON catalog (key_id, name);"
	"CREATE INDEX catalog_public ON catalog (name, created_ns) WHERE public = 1;"
	"CREATE TABLE builds ("
	"	seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	id TEXT NOT NULL UNIQUE,"
	"	template_id TEXT NOT NULL,"
	"	key_id TEXT NOT NULL,"
	"	status INTEGER NOT NULL,"
	"	tags_json TEXT NOT NULL,"
	"	created_ns INTEGER NOT NULL,"
	"	updated_ns INTEGER NOT NULL,"
	"	finished_ns INTEGER NOT NULL,"
	"	cpus INTEGER NOT NULL,"
	"	memory_mb INTEGER NOT NULL,"
	"	disk_mb INTEGER NOT NULL,"
	"	free_mb INTEGER NOT NULL,"
	"	reason TEXT NOT NULL,"
	"	step TEXT NOT NULL,"
	"	log_count INTEGER NOT NULL,"
	"	log_bytes INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX builds_template ON builds (template_id, seq);"
	"CREATE INDEX builds_open ON builds (key_id) WHERE status IN (1, 2);"
	"CREATE TABLE build_logs ("
	"	build INTEGER NOT NULL,"
	"	n INTEGER NOT NULL,"
	"	at_ns INTEGER NOT NULL,"
	"	level INTEGER NOT NULL,"
	"	step TEXT NOT NULL,"
	"	message TEXT NOT NULL,"
	"	PRIMARY KEY (build, n)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE tags ("
	"	seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	id TEXT NOT NULL,"
	"	template_id TEXT NOT NULL,"
	"	tag TEXT NOT NULL,"
	"	build_id TEXT NOT NULL,"
	"	at_ns INTEGER NOT NULL,"
	"	current INTEGER NOT NULL"
	") STRICT;"
	"CREATE UNIQUE INDEX tags_current ON tags (template_id, tag) WHERE current = 1;"
	"CREATE INDEX tags_history ON tags (template_id, tag, seq);";

/* Finds decisions of a key that hold, and approvals by when they ended, without the others. */
static const char version_14[] =
	"CREATE INDEX approvals_held ON approvals (key_id, until_ns) WHERE scope > 0;"
	"CREATE INDEX approvals_ended ON approvals (CASE WHEN scope > 0 THEN "
	"max(decided_ns, until_ns) ELSE decided_ns END) WHERE state > 0;";

/* What bounds hidden tags, and the logs of a key. Public templates are found by id only. */
static const char version_15[] =
	"DROP INDEX catalog_public;"
	"CREATE INDEX tags_hidden ON tags (template_id, seq) WHERE current = 0;"
	"CREATE INDEX builds_logged ON builds (key_id, seq) WHERE log_count > 0;";

/* Hosted agents. */
static const char version_16[] =
	"CREATE TABLE agents ("
	"	id TEXT PRIMARY KEY,"
	"	key_id TEXT NOT NULL REFERENCES keys (id),"
	"	name TEXT NOT NULL,"
	"	created_ns INTEGER NOT NULL,"
	"	updated_ns INTEGER NOT NULL,"
	"	current INTEGER NOT NULL,"
	"	last INTEGER NOT NULL"
	") STRICT;"
	"CREATE UNIQUE INDEX agents_name ON agents (key_id, name);"
	"CREATE TABLE agent_versions ("
	"	seq INTEGER PRIMARY KEY,"
	"	agent_id TEXT NOT NULL,"
	"	number INTEGER NOT NULL,"
	"	state INTEGER NOT NULL,"
	"	build_id TEXT NOT NULL UNIQUE,"
	"	cpus INTEGER NOT NULL,"
	"	memory_mb INTEGER NOT NULL,"
	"	disk_mb INTEGER NOT NULL,"
	"	timeout_s INTEGER NOT NULL,"
	"	created_ns INTEGER NOT NULL,"
	"	finished_ns INTEGER NOT NULL,"
	"	env_json TEXT NOT NULL,"
	"	secrets_json TEXT NOT NULL,"
	"	protocol INTEGER NOT NULL,"
	"	kind TEXT NOT NULL,"
	"	entry TEXT NOT NULL,"
	"	dir TEXT NOT NULL,"
	"	user TEXT NOT NULL,"
	"	reason TEXT NOT NULL,"
	"	step TEXT NOT NULL"
	") STRICT;"
	"CREATE UNIQUE INDEX agent_versions_number ON agent_versions (agent_id, number);"
	"CREATE INDEX agent_versions_open ON agent_versions (agent_id) WHERE state = 0;"
	"CREATE TABLE agent_aliases ("
	"	agent_id TEXT NOT NULL,"
	"	alias TEXT NOT NULL,"
	"	weights_json TEXT NOT NULL,"
	"	PRIMARY KEY (agent_id, alias)"
	") STRICT, WITHOUT ROWID;";

/* Makes records of activity a chain. Older ones have the number 0 and no hash. */
static const char version_17[] =
	"ALTER TABLE activity ADD COLUMN n INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE activity ADD COLUMN hash BLOB;"
	"ALTER TABLE activity_logs ADD COLUMN n INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE activity_logs ADD COLUMN head BLOB;"
	"ALTER TABLE activity_logs ADD COLUMN anchor INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE activity_logs ADD COLUMN anchor_hash BLOB;"
	"ALTER TABLE activity_logs ADD COLUMN seal BLOB;";

/* Invocations of hosted agents. The row '' of the totals is that of all keys. */
static const char version_18[] =
	"CREATE TABLE invocations ("
	"	seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	id TEXT NOT NULL UNIQUE,"
	"	key_id TEXT NOT NULL,"
	"	agent_id TEXT NOT NULL,"
	"	agent TEXT NOT NULL,"
	"	version INTEGER NOT NULL,"
	"	session TEXT,"
	"	async INTEGER NOT NULL,"
	"	state INTEGER NOT NULL DEFAULT 0,"
	"	sandbox_id TEXT,"
	"	asked_ns INTEGER NOT NULL,"
	"	started_ns INTEGER NOT NULL DEFAULT 0,"
	"	ended_ns INTEGER NOT NULL DEFAULT 0,"
	"	code TEXT,"
	"	message TEXT,"
	"	status INTEGER NOT NULL DEFAULT 0," /* one more than it is: 0 is none */
	"	printed INTEGER NOT NULL DEFAULT 0,"
	"	bytes INTEGER NOT NULL,"
	"	output BLOB,"
	"	errors BLOB"
	") STRICT;"
	"CREATE INDEX invocations_agent ON invocations (agent_id, seq);"
	"CREATE INDEX invocations_open ON invocations (seq) WHERE state < 2;"
	"CREATE INDEX invocations_key ON invocations (key_id, seq) WHERE state = 2;"
	"CREATE INDEX invocations_ended ON invocations (ended_ns) WHERE state = 2;"
	"CREATE TABLE invocation_totals ("
	"	key_id TEXT PRIMARY KEY,"
	"	count INTEGER NOT NULL,"
	"	bytes INTEGER NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"CREATE TRIGGER invocation_added AFTER INSERT ON invocations BEGIN"
	"	INSERT INTO invocation_totals VALUES ('', 1, NEW.bytes), "
	"		(NEW.key_id, 1, NEW.bytes)"
	"		ON CONFLICT (key_id) DO UPDATE SET count = count + 1,"
	"		bytes = bytes + excluded.bytes;"
	"END;"
	"CREATE TRIGGER invocation_changed AFTER UPDATE OF bytes ON invocations BEGIN"
	"	UPDATE invocation_totals SET bytes = bytes + NEW.bytes - OLD.bytes"
	"		WHERE key_id IN ('', NEW.key_id);"
	"END;"
	"CREATE TRIGGER invocation_gone AFTER DELETE ON invocations BEGIN"
	"	UPDATE invocation_totals SET bytes = bytes - OLD.bytes, count = count - 1"
	"		WHERE key_id IN ('', OLD.key_id);"
	"END;";

/* What is used of budgets. A key's own have the sandbox ''. budget_totals counts the rows of a key,
 * and all rows under the key ''. */
static const char version_19[] =
	"CREATE TABLE budgets ("
	"	key_id TEXT NOT NULL,"
	"	sandbox_id TEXT NOT NULL,"
	"	id TEXT NOT NULL,"
	"	day INTEGER NOT NULL," /* since 1970; 0: for ever */
	"	requests INTEGER NOT NULL,"
	"	tokens INTEGER NOT NULL,"
	"	micros INTEGER NOT NULL,"
	"	PRIMARY KEY (key_id, sandbox_id, id, day)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX budgets_sandbox ON budgets (sandbox_id) WHERE sandbox_id != '';"
	"CREATE INDEX budgets_day ON budgets (day) WHERE day > 0;"
	"CREATE TABLE budget_totals ("
	"	key_id TEXT PRIMARY KEY,"
	"	count INTEGER NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"CREATE TRIGGER budget_added AFTER INSERT ON budgets BEGIN"
	"	INSERT INTO budget_totals VALUES ('', 1), (NEW.key_id, 1)"
	"		ON CONFLICT (key_id) DO UPDATE SET count = count + 1;"
	"END;"
	"CREATE TRIGGER budget_gone AFTER DELETE ON budgets BEGIN"
	"	UPDATE budget_totals SET count = count - 1 WHERE key_id IN ('', OLD.key_id);"
	"END;";

/* What a version's snapshot has of its secrets, and how many invocations of it run at once. */
static const char version_20[] =
	"ALTER TABLE agent_versions ADD COLUMN placeholders_json TEXT;"
	"ALTER TABLE agent_versions ADD COLUMN authority TEXT;"
	"ALTER TABLE agent_versions ADD COLUMN concurrency INTEGER NOT NULL DEFAULT 0;";

/* A decision answers a rule as it was when it asked. What the rules of older decisions said is not
 * known, so these end. */
static const char version_21[] =
	"ALTER TABLE approvals ADD COLUMN rule_digest BLOB;"
	"UPDATE approvals SET until_ns = decided_ns WHERE scope > 0 AND until_ns > decided_ns;";

/* What the sandboxes of a version may reach. */
static const char version_22[] = "ALTER TABLE agent_versions ADD COLUMN network_json TEXT;";

/* Why the snapshot of a version has no program that waits. */
static const char version_23[] = "ALTER TABLE agent_versions ADD COLUMN cold TEXT;";

/* What an invocation used. cpu_us: one more than that; 0: nobody knows. */
static const char version_24[] =
	"ALTER TABLE invocations ADD COLUMN cpu_us INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE invocations ADD COLUMN in_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE invocations ADD COLUMN out_bytes INTEGER NOT NULL DEFAULT 0;";

/* Snapshots of a name have tags as builds of a template have (snapshots.h). */
static const char version_25[] =
	"DROP INDEX snapshots_name;"
	"INSERT INTO tags (id, template_id, tag, build_id, at_ns, current) "
	"SELECT lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || "
	"substr(hex(randomblob(2)), 2) || '-8' || substr(hex(randomblob(2)), 2) || '-' || "
	"hex(randomblob(6))), ifnull(key_id || '/' || name, id), ifnull(tag, 'default'), id, "
	"created_ns, 1 FROM snapshots ORDER BY created_ns, id;"
	"ALTER TABLE snapshots DROP COLUMN tag;"
	"CREATE INDEX snapshots_name ON snapshots (name, key_id) WHERE name IS NOT NULL;"
	"CREATE INDEX tags_build ON tags (build_id, seq);";

/* The key that made a key. NULL: the operator did, or nobody knows. */
static const char version_26[] = "ALTER TABLE keys ADD COLUMN made_by TEXT REFERENCES keys (id);"
				 "CREATE INDEX keys_maker ON keys (made_by);";

/* What is secret is sealed (vault.h). key: the name of the key; NULL as long as nothing is sealed.
 * store_vault_set seals what is here already, and sets `done`. */
static const char version_27[] = "CREATE TABLE vault ("
				 "	one INTEGER PRIMARY KEY CHECK (one = 1),"
				 "	key BLOB,"
				 "	done INTEGER NOT NULL"
				 ") STRICT;"
				 "INSERT INTO vault VALUES (1, NULL, 0);";

/* Whether this host is locked down (lockdown.h). */
static const char version_28[] = "CREATE TABLE lockdown ("
				 "	only INTEGER PRIMARY KEY CHECK (only = 1),"
				 "	egress INTEGER NOT NULL,"
				 "	approvals INTEGER NOT NULL,"
				 "	keys INTEGER NOT NULL,"
				 "	since_ns INTEGER NOT NULL"
				 ") STRICT;"
				 "INSERT INTO lockdown VALUES (1, 0, 0, 0, 0);";

const struct migration schema_migrations[] = {
	{version_1},
	{version_2},
	{version_3},
	{version_4},
	{version_5},
	{version_6},
	{version_7},
	{version_8},
	{version_9},
	{version_10},
	{version_11},
	{version_12},
	{version_13},
	{version_14},
	{version_15},
	{version_16},
	{version_17},
	{version_18},
	{version_19},
	{version_20},
	{version_21},
	{version_22},
	{version_23},
	{version_24},
	{version_25},
	{version_26},
	{version_27},
	{version_28},
};
const unsigned schema_migration_count = ARRAY_SIZE(schema_migrations);

static int read_pragma(struct store *s, const char *sql, uint64_t *ret, struct error *e)
{
	struct query q = db_query_once(s, sql);

	return query_number(&q, ret, e);
}

int schema_version(struct store *s, unsigned *ret, struct error *e)
{
	uint64_t v = 0;
	int r = read_pragma(s, "PRAGMA user_version", &v, e);

	if (r == 0)
		*ret = (unsigned)v;
	return r;
}

/* A file without our mark is usable only if it is empty. */
static int check_owner(struct store *s, struct error *e)
{
	uint64_t id = 0, tables = 0;
	int r = read_pragma(s, "PRAGMA application_id", &id, e);

	if (r == 0 && id != APPLICATION_ID)
		r = read_pragma(s, "SELECT count(*) FROM sqlite_schema", &tables, e);
	if (r < 0)
		return r;
	if (id != APPLICATION_ID && (id || tables))
		return error_set(e, ERROR_HOST, EPROTO,
			"%s is a database of another program; move it away or set MAYFLY_HOME to "
			"another directory",
			s->path);
	return 0;
}

static int migrate_one(
	struct store *s, const struct migration *m, unsigned version, struct error *e)
{
	_cleanup_(txn_end) struct txn t = {.store = s};
	char mark[96];
	int r = txn_begin(&t, s, e);

	(void)snprintf(mark, sizeof(mark), "PRAGMA application_id = %u; PRAGMA user_version = %u;",
		(unsigned)APPLICATION_ID, version); /* fits */
	if (r == 0)
		r = db_exec(s, m->sql, e);
	if (r == 0)
		r = db_exec(s, mark, e);
	if (r == 0)
		r = txn_commit(&t, false, e);
	return r;
}

static int backup_before(struct store *s, unsigned version, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s.v%u", s->path, version);
	int r;

	if (!path)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = store_backup(s, path, e);
	if (r == -EEXIST) { /* left by an attempt that failed later; same content */
		error_clear(e);
		return 0;
	}
	if (r < 0)
		error_prefix(e, "backup before bringing the database up to date");
	return r;
}

int schema_migrate(struct store *s, const struct migration *list, unsigned count, struct error *e)
{
	unsigned version = 0;
	int r = check_owner(s, e);

	if (r == 0)
		r = schema_version(s, &version, e);
	if (r < 0)
		return r;
	if (version > count)
		return error_set(e, ERROR_HOST, EPROTO,
			"%s was made by a newer Mayfly (schema %u, this one knows %u); upgrade "
			"Mayfly, "
			"or restore %s.v%u if it is there",
			s->path, version, count, s->path, count);
	if (version > 0 && version < count)
		r = backup_before(s, version, e);
	for (; r == 0 && version < count; version++) {
		r = migrate_one(s, &list[version], version + 1, e);
		if (r < 0)
			error_prefix(e, "bringing the database to schema %u", version + 1);
	}
	return r;
}
