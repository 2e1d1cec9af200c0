/* The issuer's documents, with which services verify tokens of sandboxes. Anybody may read them. */
#include "api/api.h"
#include "base/cleanup.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "network/identity.h"

static void answer(struct request *r, json_t *document, const struct error *e)
{
	static const struct http_field fields[] = {{"Cache-Control", "public, max-age=300"}};

	if (document)
		reply_json_fields(r, 200, document, fields, ARRAY_SIZE(fields));
	else
		reply_failure(r, e);
}

void api_identity_keys(struct request *r)
{
	struct error e = {0};

	answer(r, identity_keys(fleet_of(r), &e), &e);
}

void api_identity_configuration(struct request *r)
{
	struct error e = {0};

	answer(r, identity_configuration(fleet_of(r), &e), &e);
}
