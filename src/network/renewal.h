/* Tells the sandboxes of a key that one of its secrets was made, changed or removed, or those of a
 * template that a decision of a person holds. For each
 * sandbox a policy is checked, compiled and written, so only some are told in each turn of the
 * event loop (turns.h). A worker that starts meanwhile gets the new value anyway, and so does every
 * worker after a restart of the daemon.
 *
 * Changes are served one after the other. Changes without a name come first, because they may end
 * access. Then the keys take turns, so a key that changes many secrets delays another key by one
 * change. The same change does not wait twice. */
#ifndef NETWORK_RENEWAL_H
#define NETWORK_RENEWAL_H

struct fleet;

/* name: in lower case. "" stands for all secrets of the key, or for a change of what its sandboxes
 * may reach. If memory is out, this logs it, and the old value stays until the next change or the
 * next worker. */
void renewal_begin(struct fleet *f, const char *key_id, const char *name);

/* A decision of a person holds for the key's sandboxes of a template from now on, or holds no
 * more. */
void renewal_begin_decision(
	struct fleet *f, const char *key_id, const char *template_id, const char *approval_id);

/* What the sandboxes of all keys may reach has changed. Comes before the rest, as "" does. */
void renewal_begin_all(struct fleet *f);

/* Forgets the changes that wait. */
void renewal_stop(struct fleet *f);

#endif
