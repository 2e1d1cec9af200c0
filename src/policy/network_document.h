/* Policies that people write (docs/policy.md), called documents here. Each becomes a layer of a
 * worker's policy. */
#ifndef POLICY_NETWORK_DOCUMENT_H
#define POLICY_NETWORK_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

/* Reads a document from a file. what: its name in errors. `mayfly policy` prints decisions of
 * people in a document, as the array `decisions`. It is no part of the document, and goes to
 * *ret_decisions, which stays NULL if there is none. With a ret_decisions of NULL it is refused. */
int network_document_read(
	const char *path, const char *what, json_t **ret, json_t **ret_decisions, struct error *e);

/* Whether a text (network_list.h) is a document. text may be NULL. */
bool network_document_is(const char *text);

/* Checks that a document names no secrets: those of the operator, a key or a template know none.
 * Fails with ERROR_USAGE; the message begins with `what` and the member. */
int network_document_no_secrets(const json_t *document, const char *what, struct error *e);

/* Checks a text that is a document of a key or template. Fails with ERROR_USAGE or ERROR_LIMIT; the
 * message begins with `what`. */
int network_document_check(const char *text, const char *what, struct error *e);

/* Makes the layer of a checked document. prefix: added before the ids of its rules; "" for the
 * sandbox's own document, which alone knows secrets. Returns NULL when out of memory. */
json_t *network_document_layer(const json_t *document, const char *prefix);

/* Makes the layer of a checked text. If the text cannot be read, the layer denies everything.
 * Returns NULL when out of memory. */
json_t *network_document_text_layer(const char *text, const char *prefix);

/* Adds the hosts whose requests a document judges to `hosts`, as rules_inspected() does. A document
 * of NULL is fine. */
int network_document_inspected(const json_t *document, json_t *hosts);

#endif
