/* API keys and teams.
 *
 * A key's secret is "e2b_" and 40 lower-case hex digits of 20 random bytes. Only its SHA-256 is
 * stored. 160 random bits cannot be guessed, so a slow or salted hash would only cost time. Keys
 * are looked up by hash, and the found hash is compared in constant time. The time of a lookup may
 * tell something about the stored hashes. That does not help: nobody can choose a secret by its
 * hash. Keys are revoked, never removed, so that usage stays attributable. */
#ifndef STORE_KEYS_H
#define STORE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum {
	STORE_KEY_SECRET_BYTES = 45, /* "e2b_", 40 digits, NUL */
	STORE_KEY_HASH_BYTES = 32,
	STORE_KEY_NETWORK_MAX = 4096, /* bytes */
	STORE_KEY_USED_S = 60,	      /* the last use is written at most this often */
	STORE_KEY_LINE_MAX = 16,      /* makers of makers that are looked at */
};

/* Id of the built-in key, which owns what the host's operator makes without a key. It has no
 * secret. To the calls that change keys it does not exist. */
#define STORE_KEY_LOCAL "00000000-0000-4000-8000-000000000000"

/* In every number 0 means the daemon's default. tier NULL means none. */
struct store_limits {
	uint32_t max_sandboxes; /* at the same time */
	uint32_t creates_per_minute;
	uint32_t max_cpus; /* of one sandbox; the next three likewise */
	uint64_t max_memory_bytes;
	uint64_t max_disk_bytes;
	uint64_t max_timeout_ns;
	uint32_t max_kept; /* paused sandboxes and snapshots */
	uint64_t max_kept_bytes;
	const char *tier; /* see tiers.h; must exist */
	/* The most that its sandboxes may reach: a list (policy/network_list.h). NULL: no limit. */
	const char *network;
	bool manages_keys; /* may make, rename and revoke keys of its team */
};

struct store_key {
	const char *id; /* UUID */
	const char *name;
	const char *team_id;
	const char *made_by; /* id of the key that made it; NULL: the operator did */
	uint8_t hash[STORE_KEY_HASH_BYTES];
	char mask_prefix[8];	    /* "e2b_" */
	uint32_t mask_value_length; /* 40 */
	char mask_first[4];	    /* first 2 characters of the value */
	char mask_last[8];	    /* last 4 characters */
	uint64_t created_ns;
	uint64_t last_used_ns; /* 0: never */
	uint64_t revoked_ns;   /* 0: valid */
	struct store_limits limits;
};

/* Frees what store_key_get and store_key_authenticate return (one block). Accepts NULL. */
void store_key_free(struct store_key *k);
void store_key_freep(struct store_key **k);

struct store_key_spec {
	const char *name;
	const char *team_id;		   /* NULL: the default team */
	const char *made_by;		   /* as in struct store_key */
	const struct store_limits *limits; /* may be NULL */
};

/* Synced. The secret is not stored: print it once and wipe it. */
int store_key_create(struct store *s, const struct store_key_spec *spec, uint64_t now_ns,
	char ret_id[STORE_UUID_BYTES], char ret_secret[STORE_KEY_SECRET_BYTES], struct error *e);

/* Finds the key of a secret that a client presented (any text), and notes its use. -ENOENT: no such
 * key; -EKEYREVOKED: revoked. Both are ERROR_NOT_FOUND: say "invalid API key". */
int store_key_authenticate(struct store *s, const char *secret, uint64_t now_ns,
	struct store_key **ret, struct error *e);

int store_key_get(struct store *s, const char *id, struct store_key **ret, struct error *e);
/* Whether `maker` made the key, or a key that it made did, and so on. False as well if the store
 * fails, or after STORE_KEY_LINE_MAX steps. */
bool store_key_descends(struct store *s, const char *id, const char *maker);
/* The operator's own key, named "local", created at the first call. Nobody can authenticate as it.
 * It has no limits, and lists omit it. */
int store_key_local(struct store *s, uint64_t now_ns, struct store_key **ret, struct error *e);
/* Oldest first, including revoked keys. team_id NULL is all teams. */
int store_key_list(struct store *s, const char *team_id,
	int (*each)(void *arg, const struct store_key *k), void *arg, struct error *e);

/* Synced, all three; -ENOENT for the built-in key. Revoking a revoked key succeeds and keeps the
 * first time. Revoking also disables the key's webhooks and drops their pending deliveries. */
int store_key_rename(struct store *s, const char *id, const char *name, struct error *e);
int store_key_set_limits(
	struct store *s, const char *id, const struct store_limits *limits, struct error *e);
int store_key_revoke(struct store *s, const char *id, uint64_t now_ns, struct error *e);

struct store_team {
	const char *id; /* UUID */
	const char *name;
	bool is_default; /* one team is, from the first open on */
	uint64_t created_ns;
};

/* Synced. */
int store_team_create(struct store *s, const char *name, uint64_t now_ns,
	char ret_id[STORE_UUID_BYTES], struct error *e);
/* The default one first. */
int store_team_list(struct store *s, int (*each)(void *arg, const struct store_team *t), void *arg,
	struct error *e);
/* Whether the word is the team's id or its name. False as well if the store fails. */
bool store_team_is(struct store *s, const char *id, const char *word);

#endif
