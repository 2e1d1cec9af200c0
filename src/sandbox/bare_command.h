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

enum bare_ready_kind {
	BARE_READY_COMMAND, /* none of these: a command */
	BARE_READY_SLEEP,   /* `sleep SECONDS`; number: milliseconds */
	BARE_READY_PORT,    /* `[ -n "$(ss -Htuln sport = :PORT)" ]`, or as older clients ask,
			     * `ss -tuln | grep :PORT`; number: the port */
	BARE_READY_FILE,    /* `[ -f PATH ]`; text: the path */
	BARE_READY_PROCESS, /* `pgrep NAME > /dev/null`; text: a part of the process's name */
	BARE_READY_URL,	    /* `curl -s -o /dev/null -w "%{http_code}" URL | grep -q "STATUS"`, with
			     * http and the guest itself as host; number: the port, text: path and
			     * query, status: three digits */
};
enum { BARE_READY_TEXT_MAX = 255 };
struct bare_ready {
	enum bare_ready_kind kind;
	uint32_t number;
	unsigned status;
	char text[BARE_READY_TEXT_MAX + 1];
};
/* Where a shell would not take a path, name or URL as it is, the line is a command. */
struct bare_ready bare_ready_parse(const char *command);

#endif
