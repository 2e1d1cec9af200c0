/* `mayfly run` without a daemon asks who started it: what a rule asks a person about is shown on
 * the terminal of this process (/dev/tty), and one key answers. Without a terminal, or in the
 * background, it is denied with a line on standard error.
 *
 * One is asked at a time, the oldest first. Allowed once is the one that is shown; a denial is for
 * all that ask the same, and "for the sandbox" for all of its target (network/approval_question.h).
 * Nothing blocks but the 0.3 s of question_drop_keys(). */
#ifndef CLI_RUN_ASK_H
#define CLI_RUN_ASK_H

#include <jansson.h>

#include "base/error.h"
#include "cli/remote/session.h"

struct run_ask;

struct run_ask_options {
	int fd;		      /* of direct_network_answer(), taken in any case */
	const json_t *policy; /* whose rules have reasons, borrowed; or NULL */
	/* The sandbox stands still while something waits; NULL: it runs on. */
	void (*hold)(void *arg, bool on);
	void *arg;
};

int run_ask_open(const struct run_ask_options *o, struct run_ask **ret, struct error *e);

/* For a session, which must have ended before run_ask_close. */
struct session_prompt run_ask_prompt(struct run_ask *a);

/* NULL is fine. What waits is answered by the end of its sandbox. */
void run_ask_close(struct run_ask *a);

#endif
