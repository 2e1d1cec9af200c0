/* The operator's page of metrics: what is counted as it happens (metrics.h), and what is looked up
 * when somebody asks. */
#ifndef DAEMON_SCRAPE_H
#define DAEMON_SCRAPE_H

#include "base/error.h"
#include "http/request.h"

struct daemon;

/* Begins to watch the event loop and the store. 0 or -ENOMEM. */
int scrape_start(struct daemon *d, struct error *e);
void scrape_stop(struct daemon *d); /* accepts a daemon where it was not started */

/* GET /metrics. */
void scrape_handle(struct request *r);
/* The whole of the port of --metrics-listen. */
void scrape_dispatch(struct request *r);

#endif
