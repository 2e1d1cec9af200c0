/* The program of a hosted agent in a bare guest (agent.c): it waits for its prompt, and answers.
 *
 *	stay		starts, prints "here" and never ends
 *	look MARK	counts what others have left in memory and on disk, leaves MARK there, and
 *			prints what must differ between sandboxes: see print_findings()
 *	anything else	is printed as it came */
#ifndef GUESTS_INVOKED_H
#define GUESTS_INVOKED_H

#include "guest.h"

/* Sends bytes to standard output. */
typedef void (*invoked_output)(void *arg, const void *data, uint32_t n);

/* Notes what the sandbox was told about itself: the payload of AGENT_IDENTITY. */
void invoked_identity(const uint8_t *payload, uint32_t n);
/* Adds to its standard input. */
void invoked_input(const uint8_t *data, uint32_t n);
/* The input is complete. Returns whether the program ends. */
bool invoked_run(invoked_output output, void *arg);

#endif
