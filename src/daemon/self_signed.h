/* `mayfly serve --tls-self-signed`: the certificate of http/tls_issue.h in $MAYFLY_HOME/tls/DOMAIN,
 * renewed while the daemon runs. */
#ifndef DAEMON_SELF_SIGNED_H
#define DAEMON_SELF_SIGNED_H

#include "base/error.h"

struct daemon;

#define SELF_SIGNED_DOMAIN "mayfly.localhost" /* unless another is given */

/* Before the server starts: sets options.tls_cert and tls_key. Without the option nothing happens. */
int self_signed_start(struct daemon *d, struct error *e);
void self_signed_stop(struct daemon *d); /* the loop must run until it is done */
void self_signed_free(struct daemon *d); /* after that */

/* The authority's file, for clients; NULL without the option. */
const char *self_signed_ca(const struct daemon *d);

#endif
