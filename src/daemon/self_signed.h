/* Implements `mayfly serve --tls-self-signed`: keeps the certificate of http/tls_issue.h in
 * $MAYFLY_HOME/tls/DOMAIN and renews it while the daemon runs. */
#ifndef DAEMON_SELF_SIGNED_H
#define DAEMON_SELF_SIGNED_H

#include "base/error.h"

struct daemon;

#define SELF_SIGNED_DOMAIN "mayfly.localhost" /* the default */

/* Sets options.tls_cert and tls_key; call it before the server starts. No-op without the option. */
int self_signed_start(struct daemon *d, struct error *e);
void self_signed_stop(struct daemon *d); /* the loop must run until that is done */
void self_signed_free(struct daemon *d); /* after that */

/* The authority's file, for clients; NULL without the option. */
const char *self_signed_ca(const struct daemon *d);

#endif
