/* The certificate authority of a sandbox. Its worker signs certificates of intercepted hosts with
 * it, and its guest trusts it.
 *
 * It has a P-256 key, path length 0 and critical name constraints, so it can vouch for its hosts
 * only. When the hosts change, key and name stay. So programs that have read the older certificate
 * still trust certificates for its hosts. */
#ifndef POLICY_AUTHORITY_H
#define POLICY_AUTHORITY_H

#include <jansson.h>
#include <stdbool.h>
#include <time.h>

#include "base/error.h"

enum {
	AUTHORITY_DAYS = 3650,
	AUTHORITY_HOSTS_MAX = 64,
	AUTHORITY_FILE_MAX = 256 * 1024, /* bytes of the operator's file of authorities */
};

struct authority {
	char *certificate, *key; /* PEM, owned */
	json_t *hosts; /* owned: a sorted array of names and *.names, or just "*" for any */
};

void authority_done(struct authority *a); /* wipes the key */

/* Makes an authority for these hosts (an array as above, borrowed). It takes the key of `of`, or
 * makes a new key if `of` is NULL. */
int authority_make(const struct authority *of, json_t *hosts, time_t now, struct authority *ret,
	struct error *e);

/* Converts an authority to text and back. The text holds the key: wipe it. authority_text() returns
 * NULL when out of memory. */
char *authority_text(const struct authority *a);
int authority_parse(const char *text, struct authority *ret, struct error *e);

/* Reads the certificates, and nothing else, from a PEM file of the operator. *ret is malloc'ed.
 * Fails with ERROR_USAGE if there are none. */
int authority_read_file(const char *path, char **ret, struct error *e);

#endif
