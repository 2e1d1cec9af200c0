/* The operator's page of metrics. It has counters, which are updated as things happen (metrics.h),
 * and values that are looked up for each request. */
#ifndef API_SCRAPE_H
#define API_SCRAPE_H

#include <uv.h>

#include "base/error.h"
#include "http/request.h"
#include "store/store.h"

struct scrape;

/* Starts to watch the event loop and the store. Returns 0 or -ENOMEM. */
int scrape_start(uv_loop_t *loop, struct store *store, struct scrape **ret, struct error *e);
void scrape_stop(struct scrape *s); /* NULL is fine */

/* GET /metrics. */
void scrape_handle(struct request *r);
/* Handles all requests on the --metrics-listen port. */
void scrape_dispatch(struct request *r);

#endif
