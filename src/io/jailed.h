/* Starts the jailed processes of this process. One launcher (jail/launcher.h) starts those without
 * a network: microVMs and mayfly-unpack. Another starts those that keep the host's network. */
#ifndef IO_JAILED_H
#define IO_JAILED_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "jail/kind.h"
#include "jail/launcher.h"

/* Takes the value of --jail, "on" (the default) or "off", for all later starts. ERROR_USAGE for
 * another word. Not thread-safe. */
int jailed_configure(const char *word, struct error *e);

/* False with --jail=off. */
bool jailed_is_on(void);

/* Makes the first launcher now instead of at the first start. *ret (ret may be NULL) is the kind of
 * jail that processes get. ERROR_HOST, with the remedy, if this host allows no jail.
 * Thread-safe. */
int jailed_prepare(enum jail_kind *ret, struct error *e);

/* Returns a warning if the jails of this process are weaker than its user may expect: Mayfly runs
 * as root, but cannot give each jailed process a user of its own. The text says what to do. NULL:
 * nothing to warn of, or no launcher yet (jailed_prepare). The caller logs it once. Thread-safe. */
const char *jailed_weakness(void);

/* Starts a program. All of s is borrowed. ret_kind may be NULL. Thread-safe. */
int jailed_start(
	const struct launcher_start *s, pid_t *ret_pid, enum jail_kind *ret_kind, struct error *e);

/* Starts a program that keeps the host's network. All of s is borrowed. Thread-safe. */
int jailed_start_dialler(const struct launcher_start *s, pid_t *ret, struct error *e);

#endif
