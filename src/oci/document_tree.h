/* Reads a JSON document of an image. The jailed process parses it and reports its values
 * (image/parse.h); this module makes a tree of them again, and believes nothing that it is told:
 * what comes is at most PARSE_DOCUMENT_MAX bytes and OCI_VALUES_MAX values, each in its place. */
#ifndef OCI_DOCUMENT_TREE_H
#define OCI_DOCUMENT_TREE_H

#include <jansson.h>

#include "base/error.h"
#include "image/unpack.h"

enum { OCI_VALUES_MAX = 32768 };

/* fd: the document's file, borrowed. what: its name in messages, such as "manifest". The caller
 * releases *ret. ERROR_BAD_IMAGE if it is no document. */
int oci_document_read(unpack_fn fn, int fd, const char *what, json_t **ret, struct error *e);

/* For _cleanup_. */
void oci_document_done(json_t **document);

#endif
