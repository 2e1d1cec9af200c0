/* Authorities that the operator wants all guests to trust, while commands of RUN run. They stand in
 * files of the guest's memory, and variables name these. So nothing of them is in the image. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "build/stage_internal.h"
#include "sandbox/trust_bundle.h"

enum { MODE = 0644 };

static const char all_path[] = "/run/mayfly-trust-all.pem", ours_path[] = "/run/mayfly-trust.pem";

/* The image's own bundle; of length 0 if it has none. malloc'ed. */
static int read_bundle(struct machine *m, char **ret, size_t *ret_bytes, struct error *e)
{
	_cleanup_free_ char *text = malloc(TRUST_BUNDLE_MAX);
	int r = -ENOENT;

	if (!text)
		return stage_no_memory(e);
	*ret_bytes = 0;
	for (size_t i = 0; i < TRUST_PLACES && r == -ENOENT; i++) {
		struct error why = {0};

		r = machine_read(m, trust_places[i], 0, text, TRUST_BUNDLE_MAX, ret_bytes, &why);
		if (r < 0 && r != -ENOENT)
			return error_set(e, why.code, why.err, "%s", why.message);
	}
	*ret = TAKE_PTR(text);
	return 0;
}

static int write_files(struct machine *m, const char *ours, struct error *e)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(TRUST_BUNDLE_MAX);
	_cleanup_free_ char *bundle = NULL;
	size_t n = 0;
	int r = read_bundle(m, &bundle, &n, e);

	if (r < 0)
		return r;
	if (trust_bundle_compose(bundle, n, ours, &all) < 0)
		return error_set(e, ERROR_LIMIT, EFBIG,
			"the image's bundle of authorities has more than %d bytes",
			TRUST_BUNDLE_MAX);
	r = machine_write(m, all_path, MODE, false, buf_head(&all), buf_len(&all), e);
	return r < 0 ? r : machine_write(m, ours_path, MODE, false, ours, strlen(ours), e);
}

int stage_add_trust(const struct stage *s, struct machine *m, struct vars *env, struct error *e)
{
	int r = s->trust ? write_files(m, s->trust, e) : 0;

	for (size_t i = 0; s->trust && i < TRUST_VARIABLES && r == 0; i++) {
		const struct trust_variable *v = &trust_variables[i];

		if (!vars_get(env, v->name))
			r = stage_of_vars(vars_set(env, v->name, v->all ? all_path : ours_path), e);
	}
	return r;
}
