/* The log of what a sandbox does. It outlives the sandbox. Records are JSON objects
 * (network/activity_record.h writes them); they are appended and never changed.
 *
 * The records of a log are a chain (activity_chain.h): each has a number `n` from 1 on, and a hash
 * that covers the one before it. The log's head is sealed with a key that is not in the database.
 * So who changes the database without the key changes nothing unseen, but may put back an older
 * state as a whole. A seal that was wrong once stays so.
 *
 * A guest can cause any number of records, so their bytes are bounded: per sandbox, per key and in
 * all. A record counts as its text and STORE_ACTIVITY_OVERHEAD bytes. Beyond a bound, the oldest
 * records of the sandbox, of the key, or of all are removed. Each log counts the records that were
 * removed (`dropped`) and those that never reached the store (`lost`). */
#ifndef STORE_ACTIVITY_H
#define STORE_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/activity_chain.h"
#include "store/store.h"

enum store_activity_kind {
	STORE_ACTIVITY_FLOW,
	STORE_ACTIVITY_REQUEST,
	STORE_ACTIVITY_LOST,	  /* some records are missing at this place of the log */
	STORE_ACTIVITY_APPROVAL,  /* a person was asked, or has decided */
	STORE_ACTIVITY_LIFECYCLE, /* created, paused, ended and so on */
	STORE_ACTIVITY_PROCESS,	  /* a program or cell that a client started; its end */
	STORE_ACTIVITY_MODEL,	  /* a request to a model */
	STORE_ACTIVITY_TOOL,	  /* a tool that was called */
	STORE_ACTIVITY_PROGRAM,	  /* a program that a program started, as the guest says */
	STORE_ACTIVITY_FILE,	  /* a file that a program has written, as the guest says */
	STORE_ACTIVITY_KINDS_,
};

#define STORE_ACTIVITY_BIT(kind) (1u << (kind))

/* "flow", "request", "lost", "approval", ... The parser gives -EINVAL for other words. */
const char *store_activity_kind_name(enum store_activity_kind kind);
int store_activity_kind_parse(const char *name, enum store_activity_kind *ret);

enum {
	STORE_ACTIVITY_RECORD_MAX = 4096,
	STORE_ACTIVITY_OVERHEAD = 96,
	STORE_ACTIVITY_SANDBOX_BYTES = 4 << 20, /* the bounds */
	STORE_ACTIVITY_KEY_BYTES = 64 << 20,
	STORE_ACTIVITY_ALL_BYTES = 512 << 20,
	STORE_ACTIVITY_LIST_MAX = 1000,
};

/* Other bounds, for tests. */
void store_activity_bound(struct store *s, const struct store_activity_bounds *b);
/* What seals the heads of logs from now on; copied. Without it they have seals of no worth. */
void store_activity_key(struct store *s, const uint8_t key[ACTIVITY_KEY_BYTES]);

struct store_activity {
	uint64_t id; /* assigned by the store; grows, never reused */
	enum store_activity_kind kind;
	uint64_t at_ns;
	const char *record;	   /* an object with a member at least */
	struct activity_link link; /* assigned by the store; n 0: an older Mayfly wrote it */
};

/* Appends records of one sandbox, in this order, all or none of them. lost: how many further
 * records were lost. *ret_dropped: how many old records, of any sandbox, were removed to make room.
 * Use a batch (store_begin) for several sandboxes. */
int store_activity_add(struct store *s, const char *sandbox_id, const char *key_id,
	const struct store_activity *list, size_t count, uint64_t lost, uint64_t now_ns,
	uint64_t *ret_dropped, struct error *e);

struct store_activity_log {
	uint64_t dropped, lost;
	uint64_t ended_ns; /* 0: the sandbox has not ended */
	/* The newest record, and the last one that made room. n 0: none. */
	struct activity_link head, anchor;
	bool sealed; /* the head is what the daemon wrote */
};

/* The log of a sandbox that runs or has ended. key_id: the key that must own it; NULL: any. -ENOENT
 * if there is no such log; a sandbox that did nothing has none. */
int store_activity_get(struct store *s, const char *sandbox_id, const char *key_id,
	struct store_activity_log *ret, struct error *e);

/* Records after the one with the id `cursor` (0: all), oldest first. kinds: STORE_ACTIVITY_BITs; 0:
 * all. limit: 1-STORE_ACTIVITY_LIST_MAX. Lists nothing if there is no log. */
int store_activity_list(struct store *s, const char *sandbox_id, uint32_t kinds, uint64_t cursor,
	uint32_t limit, int (*each)(void *arg, const struct store_activity *a), void *arg,
	struct error *e);

/* The id of the newest record of a log, of any kind; 0: there is none. */
int store_activity_newest(struct store *s, const char *sandbox_id, uint64_t *ret, struct error *e);

/* The bytes of all logs, with the overhead. */
int store_activity_bytes(struct store *s, uint64_t *ret, struct error *e);

#endif
