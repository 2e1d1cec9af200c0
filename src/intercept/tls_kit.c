#include "intercept/tls_kit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/cleanup.h"

/* SHA-256 of what a kit is made of. */
static int digest(const struct intercept *i, uint8_t ret[TLS_KIT_DIGEST])
{
	const struct secret *parts[] = {&i->certificate, &i->key};
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	int ok = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL);

	for (unsigned n = 0; n < ARRAY_SIZE(parts); n++) /* each with its NUL */
		ok = ok && EVP_DigestUpdate(c, parts[n]->hidden, parts[n]->bytes + 1);
	if (i->roots)
		ok = ok && EVP_DigestUpdate(c, i->roots, strlen(i->roots));
	ok = ok && EVP_DigestFinal_ex(c, ret, NULL);
	EVP_MD_CTX_free(c);
	return ok ? 0 : -ENOMEM;
}

static int fill(struct tls_kit *kit, const struct intercept *i, const int root_fds[TRUST_FILES],
	struct error *e)
{
	int r = authority_new(i->certificate.hidden, i->certificate.bytes, i->key.hidden,
		i->key.bytes, &kit->authority, e);

	if (r < 0)
		return r;
	return tls_roots_begin(&kit->roots, root_fds, i->roots) == 0
		       ? 0
		       : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

int tls_kit_step(struct tls_kit *kit)
{
	return tls_roots_step(&kit->roots);
}

int tls_kit_begin(struct tls_kit **kit, const struct intercept *i, const int root_fds[TRUST_FILES],
	struct error *e)
{
	uint8_t of[TLS_KIT_DIGEST];
	struct tls_kit *made;
	int r;

	tls_begin();
	r = digest(i, of);
	if (r == 0 && *kit && memcmp((*kit)->made_of, of, sizeof(of)) == 0)
		return 0;
	made = r == 0 ? calloc(1, sizeof(*made)) : NULL;
	if (!made)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	made->references = 1;
	memcpy(made->made_of, of, sizeof(of));
	r = fill(made, i, root_fds, e);
	if (r < 0) {
		tls_kit_unref(made);
		return r;
	}
	tls_kit_unref(*kit);
	*kit = made;
	return 0;
}

int tls_kit_get(struct tls_kit **kit, const struct intercept *i, const int root_fds[TRUST_FILES],
	struct error *e)
{
	int r = tls_kit_begin(kit, i, root_fds, e);

	if (r < 0)
		return r;
	return tls_roots_finish(&(*kit)->roots) == 0
		       ? 0
		       : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
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
	tls_roots_done(&kit->roots);
	free(kit);
}
