/* The key that the daemon seals with: policy/seal.h for the store's vault. */
#ifndef NETWORK_SEALING_H
#define NETWORK_SEALING_H

#include <stdint.h>

#include "base/error.h"

struct fleet;

/* Opens the store's vault with the fleet's sealer, and seals what an earlier Mayfly left in plain
 * text. A key file that is lost or wrong is logged and does not fail: what is sealed stays closed
 * (store/vault.h), and nothing that needs sealing can be made. Call it before anything is read that
 * is sealed. */
int sealing_start(struct fleet *f, struct error *e);

/* Makes a new key, and seals everything with it. *ret_count: how many values. A crash leaves either
 * key in force, with all that it opens. */
int sealing_rotate(struct fleet *f, uint64_t *ret_count, struct error *e);

#endif
