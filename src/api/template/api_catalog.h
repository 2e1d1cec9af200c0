/* What the handlers of templates share. These templates are built by clients. */
#ifndef API_API_CATALOG_H
#define API_API_CATALOG_H

#include <jansson.h>

#include "store/catalog.h"

struct fleet;
struct request;

/* Makes a Template, as lists have it. Returns NULL if the template is damaged, or when out of
 * memory. */
json_t *api_catalog_json(struct fleet *f, const struct store_catalog *c);

/* Answers GET of a template that the client may see. */
void api_catalog_get(struct request *r, const struct store_catalog *c);

#endif
