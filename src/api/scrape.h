/* The operator's page of metrics: what is counted as it happens (metrics.h), and what is looked up
 * when somebody asks. */
#ifndef DAEMON_SCRAPE_H
#define DAEMON_SCRAPE_H

#include <uv.h>

#include "base/error.h"
#include "http/request.h"
#include "store/store.h"

struct scrape;

/* Begins to watch the event loop and the store. 0 or -ENOMEM. */
int scrape_start(uv_loop_t *loop, struct store *store, struct scrape **ret, struct error *e);
void scrape_stop(struct scrape *s); /* NULL is fine */

/* GET /metrics. */
void scrape_handle(struct request *r);
/* The whole of the port of --metrics-listen. */
void scrape_dispatch(struct request *r);

#endif
