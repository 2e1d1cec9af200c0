/* The sandboxes that exist. A row is inserted, and deleted, before the client is told.
 *
 * Tokens, environment and network are sealed (vault.h). */
#ifndef STORE_SANDBOXES_H
#define STORE_SANDBOXES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "store/store.h"

/* Only RUNNING sandboxes have an active deadline. What the daemon's recovery does with a row in
 * each state:
 *
 *   RUNNING       its vmm process lives: adopt it; otherwise it crashed: delete
 *   PAUSING       vmm lives: back to RUNNING; otherwise PAUSED when its snapshot is complete
 *   PAUSED        keep; no process; end_ns is the time of the pause
 *   SNAPSHOTTING  as RUNNING, and drop the unfinished snapshot
 *   KILLING       finish the kill, delete */
enum store_sandbox_state {
	STORE_RUNNING,
	STORE_PAUSING,
	STORE_PAUSED,
	STORE_SNAPSHOTTING,
	STORE_KILLING,
	STORE_STATES_, /* number of states */
};

#define STORE_STATE_BIT(state) (1u << (state))
#define STORE_ANY_STATE	       (STORE_STATE_BIT(STORE_STATES_) - 1)

/* "running", "pausing", ... */
const char *store_sandbox_state_name(enum store_sandbox_state state);

enum {
	STORE_METADATA_PAIRS_MAX = 128, /* of one sandbox */
	STORE_FILTER_PAIRS_MAX = 16,	/* of one list query */
	STORE_LIST_MAX = 1000,		/* rows of one list query */
	STORE_AUTHORITY_MAX = 32 * 1024,
	STORE_EXPIRED_MAX = 256, /* ids per call of store_sandbox_expired */
};

/* In extra_json: true for a sandbox that serves one request of the daemon, and ends with it. */
#define STORE_EXTRA_TRANSIENT "transient"
/* In extra_json: true for a paused sandbox whose agent did not answer. Its memory would bring that
 * state back. */
#define STORE_EXTRA_UNRESPONSIVE "unresponsive"
/* In extra_json, of a sandbox that stands still (lifecycle/freeze.h): what is left of its life, and
 * the end that it was given, in ns. */
#define STORE_EXTRA_FROZEN_LEFT "frozenLeft"
#define STORE_EXTRA_FROZEN_END	"frozenEnd"
/* In extra_json: true for a sandbox that the daemon pauses as it waits for a person
 * (lifecycle/wait_pause.h). */
#define STORE_EXTRA_WAITS "waits"

/* In extra_json: the id of the snapshot that the sandbox was made from, or its parent. Clients see
 * it as the sandbox's template. */
#define STORE_EXTRA_SNAPSHOT "snapshot"

/* In extra_json: an array of directories. Files that are written outside them are recorded
 * (network/reports.h). */
#define STORE_EXTRA_FILES_OUTSIDE "filesOutside"

/* allow_internet_access, as the client gave it. */
enum store_internet { STORE_INTERNET_UNSAID, STORE_INTERNET_ALLOWED, STORE_INTERNET_DENIED };

/* get and list return NULL for text fields that may be NULL. */
struct store_sandbox {
	const char *id;	    /* [a-z0-9]+ */
	const char *key_id; /* the owner; must exist in keys */
	const char *template_id;
	const char *template_alias; /* or NULL */
	const char *build_id;	    /* or NULL */
	enum store_sandbox_state state;
	uint64_t created_ns; /* when the request was accepted */
	uint64_t started_ns; /* first start, never changes; lists are ordered by it */
	uint64_t resumed_ns; /* start of the current run; equals started_ns until the first
			      * resume */
	uint64_t end_ns;     /* deadline, or STORE_NEVER_NS */
	uint64_t timeout_ns; /* as given at create, for auto-resume */
	bool secure;
	bool auto_pause;
	bool auto_pause_memory;
	bool auto_resume;
	bool pause_memory;	   /* whether the last pause kept memory */
	const char *metadata_json; /* object of strings, or NULL */
	const char *env_json;	   /* object of strings, or NULL; secret */
	const char *envd_token;	   /* or NULL; secret */
	const char *traffic_token; /* or NULL; secret */
	const char *envd_version;
	const char *network_json; /* object, or NULL; may hold a proxy's password: secret */
	enum store_internet internet;
	uint64_t network_generation;	/* grows when network_json or internet change */
	const char *network_names_json; /* object, or NULL; names that got addresses of their own */
	/* Variables that hold placeholders of secrets, as api.md's `secrets`; object, or NULL. */
	const char *secrets_json;
	const char *authority;	/* its CA, sealed (policy/authority.h), or NULL */
	const char *iam_json;	/* its tokens (policy/iam.h); object, or NULL */
	const char *extra_json; /* object, or NULL; further data of the daemon */
	const char *directory;	/* absolute path of the sandbox's files, or NULL */
	uint32_t cpus;
	uint64_t memory_bytes;
	uint64_t disk_bytes;
	pid_t vmm_pid;	    /* 0: none */
	uint64_t vmm_start; /* field 22 of /proc/pid/stat; distinguishes processes that reuse a
			     * pid */
};

/* Frees what store_sandbox_get returns (one block, wiped first). Accepts NULL. */
void store_sandbox_free(struct store_sandbox *sb);
void store_sandbox_freep(struct store_sandbox **sb);

/* ERROR_EXISTS -EEXIST when the id is taken; -ENOENT when the key does not exist. Synced when the
 * state is PAUSED. */
int store_sandbox_insert(struct store *s, const struct store_sandbox *sb, struct error *e);

int store_sandbox_get(struct store *s, const char *id, struct store_sandbox **ret, struct error *e);

enum {
	STORE_SET_STATE = 1 << 0,
	STORE_SET_END = 1 << 1,
	STORE_SET_RESUMED = 1 << 2,
	STORE_SET_VMM = 1 << 3, /* vmm_pid and vmm_start */
	STORE_SET_TIMEOUT = 1 << 4,
	STORE_SET_PAUSE_MEMORY = 1 << 5,
	STORE_SET_AUTO_PAUSE = 1 << 6, /* auto_pause, auto_pause_memory and auto_resume */
	STORE_SET_NETWORK = 1 << 7,    /* network_json, internet and network_generation */
	STORE_SET_EXTRA = 1 << 8,
	STORE_SET_ENV = 1 << 9,
	STORE_SET_DIRECTORY = 1 << 10,
	STORE_SET_NETWORK_NAMES = 1 << 11,
	STORE_SET_AUTHORITY = 1 << 12,
	STORE_SET_ALL_ = (1 << 13) - 1,
};

/* Sets the fields that `set` names (STORE_SET_*) from sb, atomically, if the sandbox is in one of
 * the states in the mask `from`. Otherwise changes nothing and returns -EBUSY, with the actual
 * state in *ret_state (may be NULL): the caller's 409. Synced when it enters, changes or leaves
 * PAUSED. */
int store_sandbox_update(struct store *s, const char *id, uint32_t from, unsigned set,
	const struct store_sandbox *sb, enum store_sandbox_state *ret_state, struct error *e);

/* Increments network_generation of a key's paused sandboxes: of `id`, and of those of a template
 * (NULL: none). */
int store_sandboxes_renew(struct store *s, const char *key_id, const char *id,
	const char *template_id, struct error *e);

/* A fast path of the above: a new deadline for a RUNNING or SNAPSHOTTING sandbox; otherwise
 * -EBUSY. */
int store_sandbox_set_end(struct store *s, const char *id, uint64_t end_ns, struct error *e);

/* Its metadata goes with it; store_maintain removes its samples. Usage and events stay. Synced when
 * it was PAUSED. */
int store_sandbox_delete(struct store *s, const char *id, struct error *e);

struct store_pair {
	const char *key, *value;
};

struct store_sandbox_filter {
	const char *key_id;		   /* NULL: all keys (the operator's view) */
	uint32_t states;		   /* mask of STORE_STATE_BIT; 0: any */
	const char *template;		   /* matches template_id, template_alias or
					    * STORE_EXTRA_SNAPSHOT; NULL: any */
	uint64_t started_after_ns;	   /* inclusive */
	const struct store_pair *metadata; /* all must match exactly */
	unsigned metadata_count;
	bool ascending;	   /* by start time, then id */
	bool network;	   /* give network_json; otherwise it is NULL */
	uint32_t limit;	   /* 1-STORE_LIST_MAX */
	const char *token; /* from the previous page; NULL or "": the first page */
};

/* Lists one page, without env_json and tokens. ret_next is empty on the last page. A token that is
 * malformed, or from a list in the other order, is ERROR_USAGE. */
int store_sandbox_list(struct store *s, const struct store_sandbox_filter *f,
	int (*each)(void *arg, const struct store_sandbox *sb), void *arg,
	char ret_next[STORE_PAGE_TOKEN_BYTES], struct error *e);

/* Counts those of the filter that clients see as running, on all pages. Its states do not count. */
int store_sandbox_count_running(
	struct store *s, const struct store_sandbox_filter *f, uint64_t *ret, struct error *e);

/* Visits every row. secrets: with the fields that are sealed; otherwise these are NULL. The
 * callback may write. */
int store_sandbox_each(struct store *s, bool secrets,
	int (*each)(void *arg, const struct store_sandbox *sb), void *arg, struct error *e);

/* Counts the sandboxes in any of the states; key_id NULL: of all keys. */
int store_sandbox_count(
	struct store *s, const char *key_id, uint32_t states, uint64_t *ret, struct error *e);

/* The earliest deadline of a running sandbox, or STORE_NEVER_NS. */
int store_sandbox_next_end(struct store *s, uint64_t *ret_ns, struct error *e);
/* Lists running sandboxes whose deadline is now_ns or earlier, earliest first. At most
 * STORE_EXPIRED_MAX per call; *ret_more tells whether there are more. The callback may write. */
int store_sandbox_expired(struct store *s, uint64_t now_ns,
	int (*each)(void *arg, const char *id, uint64_t end_ns), void *arg, bool *ret_more,
	struct error *e);

#endif
