/* How the jailed processes of this process start: with one launcher (jail/launcher.h) for them all,
 * microVMs and what unpacks archives alike, and another for those that dial. */
#ifndef IO_JAILED_H
#define IO_JAILED_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "jail/kind.h"
#include "jail/launcher.h"

/* "on" (what holds without a call) or "off", the value of --jail: of all starts from now on. Not
 * thread-safe. */
int jailed_configure(const char *word, struct error *e);

/* False with --jail=off. */
bool jailed_is_on(void);

/* Makes the launcher now instead of at the first start. ret (may be NULL): what kind of jail
 * processes get. ERROR_HOST, with the remedy, where there can be none. Thread-safe. */
int jailed_prepare(enum jail_kind *ret, struct error *e);

/* What is weaker about the jails of this process than its user may expect, with what to do; NULL
 * when there is nothing, or no jail yet (jailed_prepare): root's number, where it cannot give them
 * users of their own. For the handler to say, once. Thread-safe. */
const char *jailed_weakness(void);

/* Starts a program. All of s is borrowed. ret_kind may be NULL. Thread-safe. */
int jailed_start(
	const struct launcher_start *s, pid_t *ret_pid, enum jail_kind *ret_kind, struct error *e);

/* Starts a program that keeps the host's network. All of s is borrowed. Thread-safe. */
int jailed_start_dialler(const struct launcher_start *s, pid_t *ret, struct error *e);

#endif
