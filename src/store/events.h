/* Life-cycle events of sandboxes. They outlive the sandbox. store_maintain removes old ones. A key
 * has at most STORE_EVENTS_KEY_MAX: a new one replaces its oldest. */
#ifndef STORE_EVENTS_H
#define STORE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum store_event_type {
	STORE_EVENT_CREATED,
	STORE_EVENT_STARTED,
	STORE_EVENT_PAUSED,
	STORE_EVENT_RESUMED,
	STORE_EVENT_UPDATED,	  /* timeout or network changed */
	STORE_EVENT_CHECKPOINTED, /* a snapshot was taken */
	STORE_EVENT_FORKED,
	STORE_EVENT_KILLED,    /* on request */
	STORE_EVENT_TIMED_OUT, /* killed at its deadline */
	STORE_EVENT_CRASHED,
	STORE_EVENT_APPROVAL_REQUESTED, /* a person is asked (approvals.h) */
	STORE_EVENT_APPROVAL_DECIDED,	/* or the question ended in another way */
	STORE_EVENT_INVOCATION,		/* an invocation of a hosted agent is over */
	STORE_EVENT_TYPES_,		/* number of types, at most 32 */
};

#define STORE_EVENT_BIT(type) (1u << (type))

/* "created", ..., "timed_out", "approval.requested", ... The parser gives -EINVAL for other
 * words. */
const char *store_event_type_name(enum store_event_type type);
int store_event_type_parse(const char *name, enum store_event_type *ret);

enum {
	STORE_EVENTS_LIST_MAX = 1000,
	STORE_EVENTS_KEY_MAX = 100000,
};

struct store_event {
	uint64_t id; /* assigned by the store; grows, never reused */
	enum store_event_type type;
	const char *uuid; /* the id that clients see; NULL in rows of older versions */
	uint64_t at_ns;
	const char *sandbox_id;
	const char *key_id;
	const char *template_id; /* or NULL; the same for the build */
	const char *build_id;
	const char *details_json;     /* an object, or NULL; no secrets */
	const char *operator_payload; /* what its webhooks get; NULL: what all get */
};

/* ret_id may be NULL. */
int store_event_add(
	struct store *s, const struct store_event *ev, uint64_t *ret_id, struct error *e);

struct store_event_filter {
	const char *key_id;	/* NULL: of all keys */
	const char *sandbox_id; /* NULL: of all sandboxes */
	uint32_t types;		/* mask of STORE_EVENT_BIT; 0: all */
	uint64_t since_ns;	/* inclusive */
	uint64_t until_ns;	/* exclusive; 0: no limit */
	bool ascending;
	uint32_t limit;	 /* 1-STORE_EVENTS_LIST_MAX */
	uint64_t offset; /* matching events to skip, at most STORE_EVENTS_KEY_MAX */
	/* Exclusive: the id of the last event that was read, or 0 to start at the end that
	 * `ascending` says. To follow, list ascending and keep the last id. */
	uint64_t cursor;
};

/* Lists events that match all of the filter, at most `limit`. */
int store_event_list(struct store *s, const struct store_event_filter *f,
	int (*each)(void *arg, const struct store_event *ev), void *arg, struct error *e);

#endif
