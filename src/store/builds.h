/* Builds of the templates that clients make (catalog.h), and what they print.
 *
 * A build is announced first. When its client starts it, it waits for a place, runs, and ends. Its
 * logs are numbered from 0 without gaps. */
#ifndef STORE_BUILDS_H
#define STORE_BUILDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"
#include "store/templates.h"

enum {
	STORE_BUILD_TAGS_BYTES = 4096, /* as JSON, with its NUL */
	STORE_BUILD_REASON_MAX = 1024,
	STORE_BUILD_STEP_MAX = 16,
	STORE_BUILDS_KEPT = 100,	       /* of a template; beyond it, the oldest without a tag
					        * are removed */
	STORE_BUILD_LOGS_MAX = 10000,	       /* entries of a build */
	STORE_BUILD_LOGS_BYTES = 4 << 20,      /* of a build; an entry counts as its text and 64
					        * bytes */
	STORE_BUILD_LOGS_KEY_BYTES = 64 << 20, /* of a key's builds; beyond it, the oldest logs are
					        * removed */
	STORE_BUILD_LINE_MAX = 8192,	       /* bytes of a message */
	STORE_BUILD_LOGS_PAGE = 1000,
};

enum store_build_status {
	STORE_BUILD_ANNOUNCED, /* its client may upload files and begin it */
	STORE_BUILD_WAITING,   /* for a place */
	STORE_BUILD_RUNNING,
	STORE_BUILD_READY,
	STORE_BUILD_FAILED,
	STORE_BUILD_STATUSES_,
};

struct store_build {
	uint64_t seq; /* grows with time */
	char id[STORE_UUID_BYTES];
	char template_id[STORE_TEMPLATE_ID_BYTES];
	char key_id[STORE_UUID_BYTES];
	enum store_build_status status;
	char tags_json[STORE_BUILD_TAGS_BYTES]; /* an array of the tags that it will get */
	uint64_t created_ns, updated_ns, finished_ns;
	uint32_t cpus, memory_mb, disk_mb;	 /* disk_mb 0: not known yet */
	uint32_t free_mb;			 /* MiB that should be free on its disk at the end,
						  * at least */
	char reason[STORE_BUILD_REASON_MAX + 1]; /* of a failure */
	char step[STORE_BUILD_STEP_MAX + 1];	 /* that failed */
	uint64_t log_count, log_bytes;
};

/* Adds a build. Uses template_id, key_id, tags_json, created_ns and the sizes of b, and makes the
 * id. Removes old builds of the template and old logs of the key (see the limits above). Synced. */
int store_build_add(struct store *s, const struct store_build *b, char ret_id[STORE_UUID_BYTES],
	struct error *e);

/* ERROR_NOT_FOUND. */
int store_build_get(struct store *s, const char *id, struct store_build *ret, struct error *e);

/* Builds of a template, newest first, from before `before_seq` (0: from the newest). */
int store_build_list(struct store *s, const char *template_id, uint64_t before_seq, uint32_t limit,
	int (*each)(void *arg, const struct store_build *b), void *arg, struct error *e);

/* The newest of a template, or the newest with one status (STORE_BUILD_STATUSES_: any).
 * ERROR_NOT_FOUND. */
int store_build_last(struct store *s, const char *template_id, enum store_build_status status,
	struct store_build *ret, struct error *e);

/* Sets status and updated_ns. */
int store_build_set_status(struct store *s, const char *id, enum store_build_status status,
	uint64_t at_ns, struct error *e);

/* Ends a build. `reason` and `step` may be "". disk_mb counts only for STORE_BUILD_READY.
 * Synced. */
int store_build_finish(struct store *s, const char *id, enum store_build_status status,
	uint64_t at_ns, uint32_t disk_mb, const char *reason, const char *step, struct error *e);

/* Marks all builds that wait or run as failed. For the start of a daemon, when no build can be
 * alive. */
int store_build_fail_open(struct store *s, uint64_t at_ns, const char *reason, struct error *e);

struct store_build_log {
	uint64_t number; /* assigned by the store */
	uint64_t at_ns;
	unsigned level; /* 0 debug, 1 info, 2 warn, 3 error */
	const char *step, *message;
};

/* Adds an entry. Beyond the limits one entry says so, and then nothing is added. */
int store_build_log(
	struct store *s, const char *build_id, const struct store_build_log *l, struct error *e);

struct store_build_log_filter {
	uint64_t build_seq;
	uint64_t from;	/* number of the first entry; backward: of the last */
	bool backward;	/* the last first */
	uint64_t at_ns; /* only entries from this time on; backward: up to this time */
	unsigned level; /* at least */
	uint32_t limit;
};

/* Lists entries that match all of the filter, in its order, at most `limit`. */
int store_build_log_list(struct store *s, const struct store_build_log_filter *f,
	int (*each)(void *arg, const struct store_build_log *l), void *arg, struct error *e);

#endif
