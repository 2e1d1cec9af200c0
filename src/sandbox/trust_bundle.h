/* Files of trusted authorities in a guest. TRUST_FILE holds ours only, and is written last. The
 * bundle is where Debian, Fedora, SUSE or Alpine has it, with ours between two marks; without one,
 * TRUST_BUNDLE is made. */
#ifndef SANDBOX_TRUST_BUNDLE_H
#define SANDBOX_TRUST_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "sandbox/agent_client.h"

/* The guest's files of trusted authorities: all of them, and ours only. */
#define TRUST_BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define TRUST_FILE   "/usr/local/share/ca-certificates/mayfly.crt"

enum { TRUST_BUNDLE_MAX = 1024 * 1024, TRUST_PLACES = 4 };

/* Where bundles are looked for, TRUST_BUNDLE first. */
extern const char *const trust_places[TRUST_PLACES];

/* Variables that name a file of authorities. Some replace the program's own authorities, others add
 * to them. */
enum { TRUST_VARIABLES = 7 };
struct trust_variable {
	const char *name;
	bool all; /* the bundle; else ours only */
};
extern const struct trust_variable trust_variables[TRUST_VARIABLES];

/* Adds a bundle to out: the old one without our older copy, then ours (PEM). -EMSGSIZE, -ENOMEM. */
int trust_bundle_compose(const void *old, size_t n, const char *ours, struct buf *out);

/* The same for the end of a bundle that has no copy of ours: what is to be appended. */
int trust_bundle_compose_end(const void *end, size_t n, const char *ours, struct buf *out);

/* Whether a copy of ours is in it. */
bool trust_bundle_has_copy(const void *text, size_t n);

/* Writes all of it into a guest. Blocks until the deadline. */
int trust_bundle_install(
	struct agent_conn *c, uint64_t deadline_ns, const char *ours, struct error *e);

#endif
