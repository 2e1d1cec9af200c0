/* One sandbox's life: made from a template's snapshot, given its identity, used through its agent,
 * destroyed.
 *
 *	sandbox_create()	starts the microVM's process, opens the agent's connection and
 *				queues HELLO and IDENTITY on it
 *	sandbox_next_event()	for a poll loop over sandbox_poll(). Brings the sandbox to readiness
 *				first: the guest has its identity and the right time, and
 *				requests may be queued
 *	sandbox_destroy()	leaves nothing: no process, directory or disk delta
 *
 * A microVM that ends, panics, never answers or runs on too slow a host is an error of
 * sandbox_next_event(), never a hang. If this process dies, the microVM ends by itself. */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "image/home.h"
#include "image/progress.h"
#include "sandbox/agent_client.h"
#include "sandbox/options.h"
#include "sandbox/sandbox_dir.h"

enum { SANDBOX_POLL_FDS = 2 };

struct sandbox;

/* Checks limits and the template's files before it makes anything. Both home and dirs must outlive
 * the sandbox. */
int sandbox_create(const struct home *home, const struct sandbox_dirs *dirs,
	const struct sandbox_options *o, struct sandbox **ret, struct error *e);

/* Ends the microVM and removes everything of it. NULL is fine. Waits for its process, at most a
 * second if that does not answer. */
void sandbox_destroy(struct sandbox *s);

const char *sandbox_id(const struct sandbox *s);
const char *sandbox_network(const struct sandbox *s); /* what its template may reach at most */
int sandbox_dirfd(const struct sandbox *s);	      /* its directory, borrowed */
struct agent_conn *sandbox_agent(struct sandbox *s);
bool sandbox_is_ready(const struct sandbox *s);
/* Time from the call of sandbox_create to readiness, 0 before. */
uint64_t sandbox_ready_ns(const struct sandbox *s);

/* Returns 1 with an event of the agent for the caller, 0: nothing for now, -errno: the sandbox has
 * ended or is unusable, and e says why. What an event points to is valid until the next call on the
 * agent. */
int sandbox_next_event(struct sandbox *s, struct agent_event *ev, struct error *e);

/* Use this instead of sandbox_next_event while the caller cannot take events: it looks at the
 * microVM only. Returns 0, or -errno when the microVM has ended. */
int sandbox_check(struct sandbox *s, struct error *e);

/* Fills the descriptors to poll. hold: the caller cannot take events of the agent now. */
void sandbox_poll(const struct sandbox *s, bool hold, struct pollfd fds[SANDBOX_POLL_FDS]);
/* CLOCK_MONOTONIC time by which sandbox_next_event must be called again, UINT64_MAX: none. */
uint64_t sandbox_deadline_ns(const struct sandbox *s);

/* Prints the last lines of the boot log, indented. For people, after a failure. */
void sandbox_print_log(const struct sandbox *s, unsigned lines, FILE *f);

#endif
