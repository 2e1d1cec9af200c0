/* What handlers of templates share: those that clients built. */
#ifndef API_API_CATALOG_H
#define API_API_CATALOG_H

#include <jansson.h>

#include "store/catalog.h"

struct fleet;
struct request;

/* Template, as lists have it. NULL: it is damaged, or out of memory. */
json_t *api_catalog_json(struct fleet *f, const struct store_catalog *c);

/* GET of one that the client may see. */
void api_catalog_get(struct request *r, const struct store_catalog *c);

#endif
