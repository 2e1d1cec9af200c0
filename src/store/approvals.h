/* Approvals: questions about what a sandbox wants to do in the network, which people decide
 * (docs/consent.md).
 *
 * An approval waits until somebody decides it, it expires, or its sandbox ends. Then it stays for
 * the record. A guest can cause any number of approvals, so the waiting ones are bounded: per
 * sandbox, per key and in all. Of those that no longer wait, a key keeps the newest, for a limited
 * time.
 *
 * If a sandbox asks a question that waits already, that approval counts one more request. Two
 * questions are equal if the caller gives them the same hash (`same`). A person may decide for
 * longer than one flow. Such a decision answers all later questions with the same hash `target`. */
#ifndef STORE_APPROVALS_H
#define STORE_APPROVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

struct store_sandbox;

enum {
	STORE_APPROVAL_ID_BYTES = sizeof("apr_") + 20, /* "apr_" and 20 of a-z 0-9, NUL */
	STORE_APPROVAL_HASH = 32,
	STORE_APPROVAL_LINK_KEY = 32,
	STORE_APPROVAL_QUESTION_MAX = 24576,
	STORE_APPROVAL_RULE_MAX = 256,
	STORE_APPROVAL_REASON_MAX = 512,
	STORE_APPROVALS_SANDBOX_MAX = 256, /* waiting: of a sandbox */
	STORE_APPROVALS_KEY_MAX = 4096,	   /* of a key */
	STORE_APPROVALS_ALL_MAX = 16384,   /* in all */
	STORE_APPROVALS_OVER_MAX = 4096,   /* of a key: no longer waiting */
	STORE_APPROVALS_HELD_MAX = 1024,   /* of a key: decisions in force for longer than once */
	STORE_APPROVALS_LIST_MAX = 1000,
};

enum store_approval_state {
	STORE_APPROVAL_WAITING,
	STORE_APPROVAL_ALLOWED,
	STORE_APPROVAL_DENIED,
	STORE_APPROVAL_EXPIRED,	  /* nobody decided in time: denied */
	STORE_APPROVAL_CANCELLED, /* its sandbox ended, or nobody waits for the request */
	STORE_APPROVAL_STATES_,
};

enum store_approval_for {
	STORE_APPROVAL_ONCE,	 /* for one flow or request */
	STORE_APPROVAL_SANDBOX,	 /* for its target, as long as the sandbox lives */
	STORE_APPROVAL_TEMPLATE, /* for its target, in the key's sandboxes of this template */
	STORE_APPROVAL_FORS_,
};

#define STORE_APPROVAL_BIT(state) (1u << (state))

/* "waiting", ...; "once", "sandbox", "template". The parsers give -EINVAL for other words. */
const char *store_approval_state_name(enum store_approval_state state);
int store_approval_state_parse(const char *name, enum store_approval_state *ret);
const char *store_approval_for_name(enum store_approval_for f);
int store_approval_for_parse(const char *name, enum store_approval_for *ret);

struct store_approval {
	uint64_t seq; /* given by the store; grows */
	const char *id;
	const char *key_id, *sandbox_id;
	const char *template_id;   /* the sandbox's, or NULL */
	const char *rule;	   /* that asks */
	const char *question_json; /* an object: what is asked, for people */
	uint8_t same[STORE_APPROVAL_HASH], target[STORE_APPROVAL_HASH];
	uint8_t rule_digest[STORE_APPROVAL_HASH];  /* of the rule's content (rule_digest.h) */
	uint8_t link_key[STORE_APPROVAL_LINK_KEY]; /* signs links that decide it */
	uint64_t asked_ns, expires_ns;
	uint64_t count; /* how often it was asked while it waited */
	enum store_approval_state state;
	uint64_t decided_ns;	       /* 0: it waits */
	const char *decided_by;	       /* or NULL */
	const char *reason;	       /* or NULL */
	enum store_approval_for scope; /* of a decision */
	uint64_t until_ns;	       /* its decision holds until then; STORE_NEVER_NS: no end */
};

/* Adds a question. Uses the fields of `a` from key_id to rule_digest, asked_ns and expires_ns. If
 * an equal one waits, increments its count instead, and sets *ret_fresh to false. ERROR_TOO_MANY
 * -ENOBUFS: one of the bounds. */
int store_approval_ask(struct store *s, const struct store_approval *a,
	char ret_id[STORE_APPROVAL_ID_BYTES], bool *ret_fresh, struct error *e);

/* Decides an approval. Uses state, decided_ns, decided_by, reason, scope and until_ns of `d`.
 * spare: no flow waits for it any more, so store_approval_take gives it to the next flow that asks
 * the same. ERROR_EXISTS, -EALREADY: it no longer waits; e says why. -ENOENT: the key (key_id NULL:
 * any key) has no such approval. ERROR_TOO_MANY, -ENOBUFS: the decision would be in force for
 * longer than once, and the key has STORE_APPROVALS_HELD_MAX of these. */
int store_approval_decide(struct store *s, const char *id, const char *key_id,
	const struct store_approval *d, bool spare, struct error *e);

/* Finds a decision that already answers a question: one in force for its target, or a spare one,
 * which is then used up. Calls `each` with it and returns the value of `each`. -ENOENT: there is
 * none. `q` is as for store_approval_ask. */
int store_approval_take(struct store *s, const struct store_approval *q, uint64_t now_ns,
	int (*each)(void *arg, const struct store_approval *a), void *arg, struct error *e);

/* Calls `each` with an approval and returns the value of `each`. key_id: the key that must own it;
 * NULL: any. -ENOENT. */
int store_approval_get(struct store *s, const char *id, const char *key_id,
	int (*each)(void *arg, const struct store_approval *a), void *arg, struct error *e);

/* The decisions for longer that hold for a sandbox, its own and those for its template: first those
 * that end first. STORE_APPROVALS_HELD_MAX at most. */
int store_approval_given(struct store *s, const struct store_sandbox *sb, uint64_t now_ns,
	int (*each)(void *arg, const struct store_approval *a), void *arg, struct error *e);

/* Ends a decision for longer that holds. key_id as of store_approval_get(). ERROR_EXISTS: it is
 * none, or holds no more. */
int store_approval_end(
	struct store *s, const char *id, const char *key_id, uint64_t now_ns, struct error *e);

struct store_approval_filter {
	const char *key_id;	/* NULL: of all keys */
	const char *sandbox_id; /* NULL: of all sandboxes */
	uint32_t states;	/* STORE_APPROVAL_BITs; 0: all */
	uint64_t after;		/* only those with a greater seq */
	uint32_t limit;		/* 1-STORE_APPROVALS_LIST_MAX */
};

/* Oldest first. */
int store_approval_list(struct store *s, const struct store_approval_filter *f,
	int (*each)(void *arg, const struct store_approval *a), void *arg, struct error *e);

/* Moves the ends of all that wait by step_ns, and to max_ns at the latest. */
int store_approval_move(struct store *s, int64_t step_ns, uint64_t max_ns, struct error *e);
/* The time at which the next waiting approval expires, or STORE_NEVER_NS. */
int store_approval_next(struct store *s, uint64_t *ret_ns, struct error *e);
/* Calls `each` for waiting approvals whose time has expired, at most `limit`. `each` may decide
 * them. */
int store_approval_late(struct store *s, uint64_t now_ns, uint32_t limit,
	int (*each)(void *arg, const struct store_approval *a), void *arg, struct error *e);

#endif
