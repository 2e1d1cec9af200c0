#include "network/sealing.h"

#include <stdbool.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "network/interception.h"
#include "network/secrets.h"
#include "policy/seal.h"
#include "store/activity.h"
#include "store/vault.h"

_Static_assert((int)STORE_VAULT_NAME == (int)SEAL_NAME_BYTES, "names of keys are the same");

static int seal_value(void *arg, const char *context, const void *data, size_t n, uint8_t **ret,
	size_t *ret_n, struct error *e)
{
	int r = sealer_seal(arg, false, context, data, n, ret, e);

	*ret_n = n + SEAL_OVERHEAD;
	return r;
}

static int open_value(void *arg, const char *context, const void *sealed, size_t n, char **ret,
	size_t *ret_n, struct error *e)
{
	return sealer_open(arg, context, sealed, n, ret, ret_n, e);
}

static struct store_vault vault_of(struct sealer *s)
{
	return (struct store_vault){s, seal_value, open_value};
}

int sealing_start(struct fleet *f, struct error *e)
{
	const struct store_vault v = vault_of(f->sealer);
	uint8_t name[SEAL_NAME_BYTES];
	struct error why = {0};
	uint64_t sealed = 0;
	int r;

	if (store_vault_key(f->store, name))
		sealer_expect(f->sealer, name);
	r = sealer_name(f->sealer, secrets_may_make_key(f), name, &why);
	if (r < 0) {
		log_error("what is sealed stays closed, and no sandbox can be made: %s; then start "
			  "the daemon again",
			why.message);
		return store_vault_set(f->store, &v, NULL, NULL, e);
	}
	sealer_expect(f->sealer, name);
	r = store_vault_set(f->store, &v, name, &sealed, e);
	if (r == 0 && sealed)
		log_info("%llu values in the database are sealed now; copies of it that were made "
			 "before hold them in plain text",
			(unsigned long long)sealed);
	return r;
}

/* The logs of activity are sealed with a key that comes of the same file. */
static int derive_activity(struct sealer *s, uint8_t key[SEAL_DERIVED_BYTES], struct error *e)
{
	return sealer_derive(s, false, "activity", key, e);
}

/* Running sandboxes have their authority in memory, sealed as in their row. */
static int keep_authority(struct instance *i, void *arg)
{
	struct error e = {0};

	if (i->authority && interception_seal_anew(i, arg, &e) < 0)
		log_warn("sandbox %s: its certificate authority: %s", i->sandbox.id, e.message);
	return 0;
}

static void keep_authorities(struct fleet *f, struct sealer *next)
{
	(void)instance_each(f, keep_authority, next); /* always 0 */
	for (struct instance *i = f->other; i; i = i->next)
		(void)keep_authority(i, next); /* likewise */
}

int sealing_rotate(struct fleet *f, uint64_t *ret_count, struct error *e)
{
	uint8_t name[SEAL_NAME_BYTES], key[SEAL_DERIVED_BYTES];
	struct sealer *next = NULL;
	struct store_vault v;
	int r = sealer_name(f->sealer, false, name, e);

	if (r == 0)
		r = sealer_next(f->sealer, &next, e);
	if (r < 0)
		return r;
	v = vault_of(next);
	r = fault_disk("rotate_written", e);
	if (r == 0)
		r = sealer_name(next, false, name, e);
	if (r == 0)
		r = derive_activity(next, key, e);
	if (r == 0)
		r = store_vault_change(f->store, &v, name, key, ret_count, e);
	explicit_bzero(key, sizeof(key));
	if (r < 0) {
		sealer_free(next);
		return r;
	}
	(void)fault_point("rotate_committed");
	keep_authorities(f, next);
	r = sealer_adopt(f->sealer, next, e);
	v = vault_of(f->sealer);
	store_vault_take(f->store, &v);
	return r;
}
