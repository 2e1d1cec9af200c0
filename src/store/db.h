/* Inside the store: the connection, cached statements, transactions, SQLite's errors.
 *
 * A query is prepared once and cached in its slot. Parameters are bound and columns read in order,
 * so only the SQL text says what they are. Typical use:
 *
 *	_cleanup_(query_done) struct query q = db_query(s, STMT_KEY_GET, "SELECT ... WHERE id = ?");
 *
 *	query_text(&q, id);
 *	r = query_step(&q, e);	1 a row, 0 the end, -errno
 *
 * Bound text must live until query_done. */
#ifndef STORE_DB_H
#define STORE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "store/store.h"
#include "store/vault_functions.h"

struct checkpointer;

/* Slots of cached statements, one per SQL text. */
enum stmt {
	STMT_BEGIN,
	STMT_COMMIT,
	STMT_ROLLBACK,
	STMT_SAVEPOINT,
	STMT_RELEASE,
	STMT_ROLLBACK_TO,
	STMT_KEY_INSERT,
	STMT_KEY_BY_HASH,
	STMT_KEY_BY_ID,
	STMT_KEY_USED,
	STMT_KEY_MAKER,
	STMT_KEY_LIST,
	STMT_KEY_RENAME,
	STMT_KEY_LIMITS,
	STMT_KEY_REVOKE,
	STMT_KEY_DROP_DELIVERIES,
	STMT_KEY_DISABLE_WEBHOOKS,
	STMT_TEAM_INSERT,
	STMT_TEAM_DEFAULT,
	STMT_TEAM_LIST,
	STMT_TEAM_IS,
	STMT_SANDBOX_INSERT,
	STMT_SANDBOX_METADATA,
	STMT_SANDBOX_GET,
	STMT_SANDBOX_NEXT,
	STMT_SANDBOX_STATE,
	STMT_SANDBOX_UPDATE,
	STMT_SANDBOX_RENEW,
	STMT_SANDBOX_SET_END,
	STMT_SANDBOX_DELETE,
	STMT_SANDBOX_GARBAGE,
	STMT_SANDBOX_COUNT,
	STMT_SANDBOX_COUNT_ALL,
	STMT_SANDBOX_NEXT_END,
	STMT_SANDBOX_EXPIRED,
	STMT_EVENT_INSERT,
	STMT_EVENT_COUNT,
	STMT_EVENT_REPLACE,
	STMT_EVENT_LIST, /* the first of 6 */
	STMT_EVENT_LIST_LAST = STMT_EVENT_LIST + 5,
	STMT_EVENT_PRUNE,
	STMT_USAGE_GET,
	STMT_USAGE_PUT,
	STMT_USAGE_DAY,
	STMT_USAGE_BY_KEY,
	STMT_USAGE_ALL,
	STMT_USAGE_KEY,
	STMT_USAGE_KEYS,
	STMT_USAGE_DAYS,
	STMT_USAGE_PRUNE,
	STMT_LOCKDOWN_GET,
	STMT_LOCKDOWN_SET,
	STMT_TIER_PUT,
	STMT_TIER_REMOVE,
	STMT_TIER_LIST,
	STMT_TIER_OF_KEY,
	STMT_TIER_STOPPING,
	STMT_TEMPLATE_GET,
	STMT_TEMPLATE_PUT,
	STMT_TEMPLATE_NAME,
	STMT_TEMPLATE_SPAWNED,
	STMT_CATALOG_GET,
	STMT_CATALOG_FIND,
	STMT_CATALOG_FIND_IN_TEAM,
	STMT_CATALOG_COUNT,
	STMT_CATALOG_INSERT,
	STMT_CATALOG_LIST,
	STMT_CATALOG_LIST_ALL,
	STMT_CATALOG_SET_PUBLIC,
	STMT_CATALOG_DROP_LOGS,
	STMT_CATALOG_DROP_BUILDS,
	STMT_CATALOG_DROP_TAGS,
	STMT_CATALOG_DROP,
	STMT_CATALOG_SANDBOXES,
	STMT_CATALOG_SPAWNED,
	STMT_BUILD_INSERT,
	STMT_BUILD_COUNT,
	STMT_BUILD_GET,
	STMT_BUILD_LIST,
	STMT_BUILD_LAST,
	STMT_BUILD_STATUS,
	STMT_BUILD_FINISH,
	STMT_BUILD_FAIL_OPEN,
	STMT_BUILD_LOGGED,
	STMT_BUILD_LOG_PLACE,
	STMT_BUILD_LOG_INSERT,
	STMT_BUILD_LOG_COUNT,
	STMT_BUILD_LOG_BACK,
	STMT_BUILD_LOG_LIST,
	STMT_BUILD_TEMPLATE,
	STMT_TAG_GET,
	STMT_TAG_LIST,
	STMT_TAG_HISTORY,
	STMT_TAG_COUNT_OF,
	STMT_TAG_LIST_OF,
	STMT_TAG_REMOVE_OF,
	STMT_TAG_COUNT,
	STMT_TAG_HIDE,
	STMT_TAG_INSERT,
	STMT_TAG_FORGET,
	STMT_TAG_FORGET_HIDDEN,
	STMT_AGENT_GET,
	STMT_AGENT_FIND,
	STMT_AGENT_COUNT,
	STMT_AGENT_INSERT,
	STMT_AGENT_LIST,
	STMT_AGENT_LIST_ALL,
	STMT_AGENT_SET_CURRENT,
	STMT_AGENT_DROP_ALIASES,
	STMT_AGENT_DROP_VERSIONS,
	STMT_AGENT_DROP,
	STMT_AGENT_ALIAS_COUNT,
	STMT_AGENT_ALIAS_PUT,
	STMT_AGENT_ALIAS_REMOVE,
	STMT_AGENT_ALIAS_GET,
	STMT_AGENT_ALIAS_LIST,
	STMT_AGENT_VERSION_GET,
	STMT_AGENT_VERSION_OF_BUILD,
	STMT_AGENT_VERSION_LIST,
	STMT_AGENT_VERSION_COUNT,
	STMT_AGENT_NUMBER,
	STMT_AGENT_VERSION_INSERT,
	STMT_AGENT_VERSION_FORGET,
	STMT_AGENT_VERSION_READY,
	STMT_AGENT_VERSION_END,
	STMT_AGENT_FAIL_OPEN,
	STMT_AGENT_WARM_GET,
	STMT_AGENT_WARM_SET,
	STMT_AGENT_COLD_SET,
	STMT_KEPT_KEY,
	STMT_KEPT_ALL,
	STMT_KEPT_PAUSED,
	STMT_KEPT_SNAPSHOT,
	STMT_SNAPSHOT_INSERT,
	STMT_SNAPSHOT_BY_ID,
	STMT_SNAPSHOT_BY_NAME,
	STMT_SNAPSHOT_NEWEST_NAMED,
	STMT_SNAPSHOT_LIST,
	STMT_SNAPSHOT_DELETE,
	STMT_CREATION_NEXT,
	STMT_CREATION_PUT,
	STMT_CREATION_DROP,
	STMT_CREATION_FIND,
	STMT_CREATION_PRUNE,
	STMT_SECRET_COUNT,
	STMT_SECRET_COUNT_ALL,
	STMT_SECRET_INSERT,
	STMT_SECRET_UPDATE,
	STMT_SECRET_REMOVE,
	STMT_SECRET_BY_ID,
	STMT_SECRET_BY_NAME,
	STMT_SECRET_LIST,
	STMT_SECRET_FORGET,
	STMT_SIGNER_COUNT,
	STMT_SIGNER_DROP,
	STMT_SIGNER_INSERT,
	STMT_SIGNER_LIST,
	STMT_SAMPLE_SANDBOX,
	STMT_SAMPLE_PUT,
	STMT_SAMPLE_LIST,
	STMT_SAMPLE_LAST,
	STMT_SAMPLE_GARBAGE,
	STMT_SAMPLE_COLLECT,
	STMT_SAMPLE_COLLECTED,
	STMT_ACTIVITY_OWNER_MAKE,
	STMT_ACTIVITY_OWNER,
	STMT_ACTIVITY_OWNER_ADD,
	STMT_ACTIVITY_OWNER_BYTES,
	STMT_ACTIVITY_LOG,
	STMT_ACTIVITY_ENDS,
	STMT_ACTIVITY_ENDS_SET,
	STMT_ACTIVITY_LOG_MAKE,
	STMT_ACTIVITY_LOG_ADD,
	STMT_ACTIVITY_LOG_DROP,
	STMT_ACTIVITY_LOG_REMOVE,
	STMT_ACTIVITY_INSERT,
	STMT_ACTIVITY_REMOVE, /* the first of 3 */
	STMT_ACTIVITY_REMOVE_LAST = STMT_ACTIVITY_REMOVE + 2,
	STMT_ACTIVITY_GET,
	STMT_ACTIVITY_LIST,
	STMT_ACTIVITY_NEWEST,
	STMT_ACTIVITY_END,
	STMT_ACTIVITY_ENDED,
	STMT_APPROVAL_JOIN,
	STMT_APPROVAL_BOUND, /* the first of 3 */
	STMT_APPROVAL_BOUND_LAST = STMT_APPROVAL_BOUND + 2,
	STMT_APPROVAL_ROOM,
	STMT_APPROVAL_INSERT,
	STMT_APPROVAL_DECIDE,
	STMT_APPROVAL_TAKE, /* the first of 3 */
	STMT_APPROVAL_TAKE_LAST = STMT_APPROVAL_TAKE + 2,
	STMT_APPROVAL_USED,
	STMT_APPROVAL_GET,
	STMT_APPROVAL_LIST, /* the first of 3 */
	STMT_APPROVAL_LIST_LAST = STMT_APPROVAL_LIST + 2,
	STMT_APPROVAL_NEXT,
	STMT_APPROVAL_LATE,
	STMT_APPROVAL_MOVE,
	STMT_APPROVAL_CANCEL,
	STMT_APPROVAL_END,
	STMT_APPROVAL_LAPSE,
	STMT_APPROVAL_HELD,
	STMT_APPROVAL_GIVEN,
	STMT_APPROVAL_PRUNE,
	STMT_BUDGET_GET,
	STMT_BUDGET_TOTAL,
	STMT_BUDGET_PUT,
	STMT_BUDGET_SETTLE,
	STMT_BUDGET_END,
	STMT_BUDGET_FORGET,
	STMT_BUDGET_PRUNE,
	STMT_INVOCATION_INSERT,
	STMT_INVOCATION_RUN,
	STMT_INVOCATION_DROP_KEY,
	STMT_INVOCATION_DROP_ALL,
	STMT_INVOCATION_TOTAL,
	STMT_INVOCATION_FINISH,
	STMT_INVOCATION_FAIL_OPEN,
	STMT_INVOCATION_PRUNE,
	STMT_INVOCATION_GET,
	STMT_INVOCATION_LIST,
	STMT_INVOCATION_LIST_BACK,
	STMT_WEBHOOK_INSERT,
	STMT_WEBHOOK_COUNT,
	STMT_WEBHOOK_UPDATE,
	STMT_WEBHOOK_REMOVE,
	STMT_WEBHOOK_LIST,
	STMT_WEBHOOK_MATCH,
	STMT_WEBHOOK_FULL,
	STMT_WEBHOOK_WAKE,
	STMT_WEBHOOK_PARK,
	STMT_WEBHOOK_ADD_QUEUED,
	STMT_DELIVERY_INSERT,
	STMT_DELIVERY_DROP,
	STMT_DELIVERY_NEXT,
	STMT_DELIVERY_DUE,
	STMT_DELIVERY_GET,
	STMT_DELIVERY_CLAIM,
	STMT_DELIVERY_FAILED,
	STMT_DELIVERY_WEBHOOK,
	STMT_DELIVERY_DONE,
	STMTS_,
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *stmts[STMTS_];
	char *path;	     /* owned; absolute, or as the caller gave it */
	int lock_fd;	     /* holds the lock of path + ".lock" */
	int file_fd, wal_fd; /* for fdatasync and the reserve; SQLite has its own descriptors */
	bool in_batch;	     /* between store_begin and store_commit */
	struct store_activity_bounds activity_bounds;
	uint8_t activity_key[32]; /* ACTIVITY_KEY_BYTES */
	bool sync_wanted;	  /* the batch contains a synced call */
	struct checkpointer *checkpointer;
	struct store_vault vault; /* without functions: none is set */
	uint8_t nobody[32];	  /* makes the tokens of what cannot be opened (sealed.h) */
	struct error vault_error; /* of the last value that could not be sealed */
};

/* Opens a connection with our settings. */
int db_connect(const char *path, sqlite3 **ret, struct error *e);
/* Runs SQL that is known at compile time and returns nothing. */
int db_exec(struct store *s, const char *sql, struct error *e);
/* -ENOSPC while the disk is full. Call it before adding rows, so that the rest of the reserve
 * serves updates and deletions. */
int db_check_space(struct store *s, struct error *e);
/* Syncs now, or marks the batch to be synced at its commit. */
int db_durable(struct store *s, struct error *e);

struct opened;

struct query {
	struct store *store;
	sqlite3_stmt *stmt;
	bool owned;	  /* finalized, not cached */
	bool failed_bind; /* query_step reports it */
	bool failed_seal; /* likewise, the store's vault_error */
	int param, column;
	struct opened *opened; /* texts of the row that sealed.h opened */
};

struct query db_query(struct store *s, enum stmt slot, const char *sql);
/* Prepares an uncached query, for SQL that is assembled at run time. */
struct query db_query_once(struct store *s, const char *sql);
void query_done(struct query *q);

void query_text(struct query *q, const char *v); /* NULL is SQL's NULL */
void query_u64(struct query *q, uint64_t v);	 /* values above INT64_MAX are stored as
						  * INT64_MAX */
void query_blob(struct query *q, const void *v, size_t n);
/* Take ownership of v. */
void query_text_taken(struct query *q, char *v);
void query_blob_taken(struct query *q, void *v, size_t n);

int query_step(struct query *q, struct error *e);
/* Steps to the end. *ret_changes (may be NULL) is the number of changed rows. */
int query_run(struct query *q, unsigned *ret_changes, struct error *e);
/* Runs a statement that changes at most `limit` rows. Sets *more when it changed that many. */
int query_run_slice(struct query *q, unsigned limit, bool *more, struct error *e);
/* Reads one number from one row. -ENOENT, without filling e, when there is no row. */
int query_number(struct query *q, uint64_t *ret, struct error *e);

const char *row_text(struct query *q); /* NULL for SQL's NULL; valid until the next step */
uint64_t row_u64(struct query *q);
bool row_bool(struct query *q);
/* NULL for SQL's NULL; valid until the next step. */
const void *row_bytes(struct query *q, size_t *ret_n);
/* Copies at most n bytes; fills the rest with zeros. */
void row_blob(struct query *q, void *out, size_t n);
/* Keeps an opened text until the next step; then it is wiped and freed. Returns it, or NULL when
 * out of memory. */
const char *row_keep(struct query *q, char *text);
/* Copies text, cut at n - 1 bytes. */
void row_copy(struct query *q, char *out, size_t n);

/* For an id: str_random_uuid with an error. */
int db_random_uuid(char out[STORE_UUID_BYTES], struct error *e);

/* A transaction, or a savepoint inside a batch or another transaction. txn_commit ends it; leaving
 * its scope without that undoes it. sync: as a "synced" call. */
struct txn {
	struct store *store;
	bool open, savepoint;
};

int txn_begin(struct txn *t, struct store *s, struct error *e);
int txn_commit(struct txn *t, bool sync, struct error *e);
void txn_end(struct txn *t);

#endif
