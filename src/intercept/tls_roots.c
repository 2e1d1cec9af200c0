#include "intercept/tls_roots.h"

#include <errno.h>

int tls_roots_begin(struct tls_roots *r, const int fds[TRUST_FILES], const char *roots)
{
	tls_begin();
	*r = (struct tls_roots){.loading = trust_begin(fds, roots)};
	return r->loading ? 0 : -ENOMEM;
}

int tls_roots_step(struct tls_roots *r)
{
	int done = r->loading ? trust_step(r->loading) : 1;
	X509_STORE *store;
	unsigned count;

	if (done != 1 || !r->loading)
		return done;
	store = trust_store(r->loading, &count);
	r->setup = tls_setup_new(store);
	X509_STORE_free(store);
	if (!r->setup)
		return -ENOMEM;
	r->has_any = count > 0;
	trust_free(r->loading);
	r->loading = NULL;
	return 1;
}

int tls_roots_finish(struct tls_roots *r)
{
	int done;

	do
		done = tls_roots_step(r);
	while (done == 0);
	return done == 1 ? 0 : done;
}

void tls_roots_done(struct tls_roots *r)
{
	trust_free(r->loading);
	tls_setup_free(r->setup);
	*r = (struct tls_roots){0};
}
