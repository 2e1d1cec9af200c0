#include "egress/tls_kit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool same_secret(const struct secret *a, const struct secret *b)
{
	return a->bytes == b->bytes && memcmp(a->hidden, b->hidden, a->bytes) == 0;
}

static bool same(const struct intercept *a, const struct intercept *b)
{
	return a == b ||
	       (same_secret(&a->certificate, &b->certificate) && same_secret(&a->key, &b->key) &&
		       !a->roots == !b->roots && (!a->roots || strcmp(a->roots, b->roots) == 0));
}

static int fill(struct tls_kit *kit, const int root_fds[TRUST_FILES], struct error *e)
{
	const struct intercept *i = kit->made_of;
	unsigned count = 0;
	X509_STORE *roots;
	int r;

	tls_begin();
	r = authority_new(i->certificate.hidden, i->certificate.bytes, i->key.hidden, i->key.bytes,
		&kit->authority, e);
	if (r < 0)
		return r;
	roots = trust_load(root_fds, i->roots, &count);
	kit->setup = roots ? tls_setup_new(roots) : NULL;
	X509_STORE_free(roots);
	kit->has_roots = count > 0;
	return kit->setup ? 0 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

int tls_kit_get(
	struct tls_kit **kit, struct intercept *i, const int root_fds[TRUST_FILES], struct error *e)
{
	struct tls_kit *made;
	int r;

	if (*kit && same((*kit)->made_of, i))
		return 0;
	made = calloc(1, sizeof(*made));
	if (!made)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	made->references = 1;
	made->made_of = intercept_ref(i);
	r = fill(made, root_fds, e);
	if (r < 0) {
		tls_kit_unref(made);
		return r;
	}
	tls_kit_unref(*kit);
	*kit = made;
	return 0;
}

struct tls_kit *tls_kit_ref(struct tls_kit *kit)
{
	kit->references++;
	return kit;
}

void tls_kit_unref(struct tls_kit *kit)
{
	if (!kit || --kit->references)
		return;
	authority_free(kit->authority);
	tls_setup_free(kit->setup);
	intercept_unref(kit->made_of);
	free(kit);
}
