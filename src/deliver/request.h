/* One POST to a receiver, by libcurl. The answer's body is dropped. */
#ifndef DELIVER_REQUEST_H
#define DELIVER_REQUEST_H

#include <curl/curl.h>
#include <stddef.h>

#include "deliver/deliver_wire.h"

struct request;

/* Reads a packet of n bytes, which it keeps no longer than the call, and gets the request ready.
 * ca: file of trusted authorities, NULL: the host's; borrowed. NULL: the packet is no deliver_ask
 * of this version, or memory is out. */
struct request *request_new(const void *packet, size_t n, const char *ca);

CURL *request_handle(const struct request *r); /* CURLINFO_PRIVATE leads back to r */

/* Says how it ended. */
void request_conclude(const struct request *r, CURLcode result, struct deliver_said *ret);

void request_free(struct request *r);

#endif
