/* The running daemon's sandboxes: finds, makes and ends them, and calls into them. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/remote/client.h"
#include "image/home.h"
#include "proto/route.h"

enum {
	REMOTE_CREATE_S = 900, /* a template may first have to boot for the sizes */
	REMOTE_LEASE_S = 60,   /* life of a sandbox that belongs to a running command, */
	REMOTE_RENEW_S = 15,   /* which renews it this often */
};

/* Metadata key under which mayfly run notes its command, for mayfly ps. */
#define REMOTE_COMMAND_METADATA "mayfly.command"

struct remote {
	struct home home;
	char id[ROUTE_SANDBOX_ID_MAX + 1];
	const char *user; /* for calls into it; NULL: the template's */
};

#define REMOTE_INIT                                                                                \
	{                                                                                          \
		.home = HOME_INIT                                                                  \
	}

/* Opens the state directory and finds the one sandbox whose id begins with `prefix`. */
int remote_open(const char *prefix, struct remote *ret, struct error *e);
void remote_close(struct remote *r);

/* All entries of a list that comes in pages, such as "/snapshots". Returns -ECONNREFUSED, without
 * filling e, if no daemon runs. A new reference. */
int remote_try_pages(const struct home *home, const char *path, json_t **ret, struct error *e);
/* All sandboxes that the daemon lists (GET /v2/sandboxes), newest first. A new reference. */
int remote_list(const struct home *home, json_t **ret, struct error *e);
/* Returns -ECONNREFUSED, without filling e, if no daemon runs. */
int remote_try_list(const struct home *home, json_t **ret, struct error *e);
/* ERROR_NOT_FOUND, or ERROR_USAGE if several ids begin with `prefix`. */
int remote_find(const json_t *list, const char *prefix, char ret_id[ROUTE_SANDBOX_ID_MAX + 1],
	struct error *e);

/* body: of POST /v2/sandboxes; takes ownership. */
int remote_create(
	struct client *c, json_t *body, char ret_id[ROUTE_SANDBOX_ID_MAX + 1], struct error *e);
/* Ends it and waits until nothing of it is left on this host. ERROR_NOT_FOUND if it has already
 * gone. */
int remote_remove(const struct home *home, const char *id, struct error *e);

/* --- calls into a sandbox --- */

/* A request to its envd surface, for the caller to complete. */
struct client_request remote_request(
	const struct remote *r, const char *method, const char *target);

/* Calls a unary RPC such as "/filesystem.Filesystem/Stat"; takes ownership of message. */
int remote_call(const struct remote *r, struct client *c, const char *method, json_t *message,
	json_t **ret, struct error *e);

/* {"pid":PID}, a process selector. */
json_t *remote_process(uint32_t pid);
int remote_signal(const struct remote *r, uint32_t pid, int signo, struct error *e);

/* The protocol's name of a signal, or NULL if it cannot send that signal. */
const char *remote_signal_name(int signo);

#endif
