/* Commands of templates whose image has no shell (distroless, scratch).
 *
 * What is stored is a line for a shell. Without one, a line of plain words is started as it is. Of
 * a line that starts a shell for another line, that one counts. And what E2B's clients ask with
 * their ready commands is answered without a program. */
#ifndef SANDBOX_BARE_COMMAND_H
#define SANDBOX_BARE_COMMAND_H

#include <stdint.h>

#include "base/words.h"

/* Splits a line in place. `sh -c LINE` counts as LINE, and `sh -c SCRIPT NAME LINE` too, where
 * SCRIPT is a login shell for LINE (build/spec.h). Returns the number of words; 0: there is none,
 * or a shell would be needed. */
int bare_command_split(char *line, const char *words[WORDS_MAX]);

enum bare_ready {
	BARE_READY_COMMAND, /* none of these: a command */
	BARE_READY_SLEEP,   /* `sleep SECONDS`; *ret: milliseconds */
	BARE_READY_PORT,    /* `[ -n "$(ss -Htuln sport = :PORT)" ]`, or as older clients ask,
			     * `ss -tuln | grep :PORT`; *ret: the port */
};
enum bare_ready bare_ready_parse(const char *command, uint32_t *ret);

#endif
