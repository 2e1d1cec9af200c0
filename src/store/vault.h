/* The vault: seals what is secret in the database, with a key that is outside of it.
 *
 * The columns of the table in sealed.c hold sealed data only: sandboxes' tokens, environments and
 * networks, agents' environments and networks, secrets of webhooks and the payloads that wait for
 * them, keys of links. The store seals as it writes and opens as it reads, so its callers see
 * plain text. The owner of the store says how (policy/seal.h).
 *
 * What cannot be opened, because the key's file is lost, is closed rather than open: a sandbox's
 * tokens are others, which nobody was told; it may reach nothing; its environment is empty; links
 * decide nothing; deliveries wait. The sealed data stays, and is right again with the file. */
#ifndef STORE_VAULT_H
#define STORE_VAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"
#include "store/vault_functions.h"

/* The key that the database is sealed with. False: none so far, as nothing was sealed; then a new
 * key may be made. */
bool store_vault_key(struct store *s, uint8_t ret_name[STORE_VAULT_NAME]);

/* Seals with v from now on, whose key has that name; v is copied. Data of an earlier schema is
 * sealed now, in one transaction. Then the file is written anew, so that nothing of the old text
 * stays in it or in its log, and the copies that migrations made beside it ("<path>.v<N>") are
 * removed. *ret_sealed (may be NULL): how many values that were. Synced.
 *
 * name NULL: the key is not there. v's functions fail and say why; nothing is sealed or removed. */
int store_vault_set(struct store *s, const struct store_vault *v,
	const uint8_t name[STORE_VAULT_NAME], uint64_t *ret_sealed, struct error *e);

/* Seals everything anew: opens with the vault that is set, seals with v, and goes on with v. Logs
 * of activity are signed anew with activity_key. One transaction, synced; after a failure the old
 * vault is in force. */
int store_vault_change(struct store *s, const struct store_vault *v,
	const uint8_t name[STORE_VAULT_NAME], const uint8_t activity_key[32], uint64_t *ret_sealed,
	struct error *e);
/* Goes on with v, which has the same key as the vault that is set. */
void store_vault_take(struct store *s, const struct store_vault *v);

#endif
