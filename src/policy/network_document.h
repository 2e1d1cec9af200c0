/* Policies that people write (docs/policy.md), as layers of a worker's policy. */
#ifndef POLICY_NETWORK_DOCUMENT_H
#define POLICY_NETWORK_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

/* Reads a document from a file. what: names it in errors. */
int network_document_read(const char *path, const char *what, json_t **ret, struct error *e);

/* Whether a text (network_list.h) is a document. NULL is none. */
bool network_document_is(const char *text);

/* Checks a text that is one. ERROR_USAGE or ERROR_LIMIT; the message begins with `what`. */
int network_document_check(const char *text, const char *what, struct error *e);

/* The layer of a document that was checked. prefix: of the ids of its rules. NULL: out of
 * memory. */
json_t *network_document_layer(const json_t *document, const char *prefix);

/* The layer of a text that was checked. What cannot be read denies everything. NULL: out of
 * memory. */
json_t *network_document_text_layer(const char *text, const char *prefix);

/* Adds the hosts whose requests a document judges, as rules_inspected(). NULL is fine. */
int network_document_inspected(const json_t *document, json_t *hosts);

#endif
