/* Tells the sandboxes of a key that one of its secrets was made, changed or removed: some in each
 * turn of the event loop (turns.h), as a policy is checked, compiled and written for each. All that
 * use the secret have heard of it within moments; a worker that starts meanwhile is told the new
 * value anyway, and so is each after a restart of the daemon.
 *
 * Changes are served one after the other: those of no name first, as they may end what a sandbox
 * reaches, then one of each key in turn. So a key that changes many secrets delays others by one.
 * A change that waits is not noted twice. */
#ifndef NETWORK_RENEWAL_H
#define NETWORK_RENEWAL_H

struct fleet;

/* name: in lower case; "": all of the key's secrets, or what its sandboxes may reach. Without
 * memory the older value stays until the next change or worker, which is logged. */
void renewal_begin(struct fleet *f, const char *key_id, const char *name);

/* Forgets what is left. */
void renewal_stop(struct fleet *f);

#endif
