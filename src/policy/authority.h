/* The certificate authority of a sandbox: its worker signs certificates of intercepted hosts with
 * it, and its guest trusts it.
 *
 * P-256, path length 0, and critical name constraints: it can speak for its hosts only. One that
 * gets other hosts keeps its key and its name, so programs that have read the older certificate
 * still believe what is signed for the hosts that it had. */
#ifndef POLICY_AUTHORITY_H
#define POLICY_AUTHORITY_H

#include <jansson.h>
#include <stdbool.h>
#include <time.h>

#include "base/error.h"

enum {
	AUTHORITY_DAYS = 3650,
	AUTHORITY_HOSTS_MAX = 64,
	AUTHORITY_FILE_MAX = 256 * 1024, /* of the operator's authorities */
};

struct authority {
	char *certificate, *key; /* PEM, owned */
	json_t *hosts; /* owned: an array of names and *.names, sorted; or just "*": any */
};

void authority_done(struct authority *a); /* wipes the key */

/* Makes one for these hosts (borrowed, as above). of: keeps its key; NULL: a new one. */
int authority_make(const struct authority *of, json_t *hosts, time_t now, struct authority *ret,
	struct error *e);

/* As text and back. The text holds the key: wipe it. NULL: out of memory. */
char *authority_text(const struct authority *a);
int authority_parse(const char *text, struct authority *ret, struct error *e);

/* The certificates of a PEM file of the operator's, and nothing else of it; malloc'ed. ERROR_USAGE:
 * it has none. */
int authority_read_file(const char *path, char **ret, struct error *e);

#endif
