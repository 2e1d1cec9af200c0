#include "daemon/surfaces.h"

#include "api/api.h"
#include "api/scrape.h"
#include "daemon/plain.h"
#include "envd/envd.h"
#include "envd/userport.h"
#include "envd/wake.h"
#include "fleet/fleet_of.h"
#include "fleet/meter.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/keys.h"
#include "store/lockdown.h"

static void refuse(struct request *r)
{
	const struct http_reply reply = {.status = 400};

	(void)request_reply_error(r, &reply, NULL, r->route.reason); /* the client may be gone */
}

/* Sandboxes are reached by tokens, and some of their ports by anybody. */
static bool is_locked(const struct request *r)
{
	return fleet_of(r)->lockdown.keys && !r->admin;
}

static void hand_out(struct request *r)
{
	if (r->connection->door == SERVER_METRICS) {
		scrape_dispatch(r);
		return;
	}
	if (is_locked(r) && r->route.kind != ROUTE_API && r->route.kind != ROUTE_BAD) {
		reply_error(r, 403, LOCKDOWN_TEXT ": its operator lets nobody in now");
		return;
	}
	switch (r->route.kind) {
	case ROUTE_API:
		if (!plain_handle(r))
			api_dispatch(r);
		break;
	case ROUTE_SANDBOX:
		wake_then(r, r->route.port == ROUTE_ENVD_PORT ? envd_handle : userport_handle);
		break;
	case ROUTE_SIGNED:
		wake_then(r, envd_handle);
		break;
	case ROUTE_BAD:
		refuse(r);
		break;
	}
}

static void count_traffic(struct request *r, uint64_t in_bytes, uint64_t out_bytes)
{
	meter_count_traffic(fleet_of(r), r->route.sandbox_id, in_bytes, out_bytes);
}

static void release(struct request *r)
{
	store_key_free(r->key);
}

const struct connection_ops surfaces_ops = {
	.request = hand_out, .traffic = count_traffic, .release = release};
