/* Implements `mayfly serve --tls-self-signed`: keeps the certificate of http/tls_issue.h in
 * $MAYFLY_HOME/tls/DOMAIN and renews it while the daemon runs. */
#ifndef DAEMON_SELF_SIGNED_H
#define DAEMON_SELF_SIGNED_H

#include "base/error.h"

struct self_signed;
typedef struct uv_loop_s uv_loop_t;

#define SELF_SIGNED_DOMAIN "mayfly.localhost" /* the default */

struct self_signed_options {
	const char *home;   /* $MAYFLY_HOME */
	const char *domain; /* borrowed */
	uv_loop_t *loop;
	void (*renewed)(void *arg); /* the files have changed */
	void *arg;
};

/* Makes the certificate unless a valid one exists. Call it before the server starts. On failure
 * *ret may be set, too, because the loop may already know it: stop and free it. */
int self_signed_start(
	const struct self_signed_options *o, struct self_signed **ret, struct error *e);
void self_signed_stop(
	struct self_signed *s); /* the loop must run until that is done; NULL is fine */
void self_signed_free(struct self_signed *s); /* after that; NULL is fine */

/* Files, valid as long as s. The authority's is for clients. */
const char *self_signed_ca(const struct self_signed *s);
const char *self_signed_cert(const struct self_signed *s);
const char *self_signed_key(const struct self_signed *s);

#endif
