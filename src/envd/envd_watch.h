/* Watches directories (docs/envd.md), in both styles: WatchDir as a stream, and watchers whose
 * events the client fetches.
 *
 * A watcher is a link to the agent with a bounded queue, and it outlives its request. While the
 * queue is full the link is not read. So the guest's own queue overflows first, which the client is
 * told. A watcher lives until it is removed or its sandbox ends. A sandbox has at most
 * ENVD_WATCHERS_MAX. */
#ifndef ENVD_WATCH_H
#define ENVD_WATCH_H

#include "envd/envd_rpc.h"

enum { ENVD_WATCHERS_MAX = 64, ENVD_WATCHER_QUEUE_BYTES = 512 * 1024 };

extern const struct envd_ops envd_watch_ops, envd_watcher_ops, envd_events_ops;

int envd_watch_begin(struct envd_call *c, const json_t *o, struct envd_error *e);
int envd_watcher_create(struct envd_call *c, const json_t *o, struct envd_error *e);
int envd_watcher_events(struct envd_call *c, const json_t *o, struct envd_error *e);
int envd_watcher_remove(struct envd_call *c, const json_t *o, struct envd_error *e);

#endif
