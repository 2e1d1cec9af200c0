/* Addresses that stand for names: 198.18.0.0/15. A name keeps its address as long as the sandbox
 * lives. The daemon keeps the table for the next worker (docs/egress-protocol.md).
 *
 * Holds the names that were used last, NAMES_MAX at most and NAMES_TEXT_MAX bytes of JSON. A guest
 * that asks for more loses its oldest: their addresses then stand for nothing, and are given again
 * only after all others were. */
#ifndef EGRESS_NAMES_H
#define EGRESS_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { NAMES_MAX = 1024, NAMES_TEXT_MAX = 60000, NAME_BYTES = 254 };

struct names;

struct names *names_make(void); /* NULL: out of memory */
void names_free(struct names *n);

/* The address of a name (policy_is_host), a new one if need be. ret_new: whether it is. */
uint32_t names_address(struct names *n, const char *name, bool *ret_new);

/* The name that an address stands for, or NULL. Borrowed until the next names_address. */
const char *names_name(struct names *n, uint32_t address);

/* Takes over what an earlier worker gave out. Ignored if the name has an address or the address a
 * name already, and when the table is full. 0, or -EINVAL for an address that cannot stand for a
 * name, or no name. */
int names_restore(struct names *n, const char *name, uint32_t address);

/* Calls f for each, oldest first. */
void names_each(
	const struct names *n, void (*f)(void *arg, const char *name, uint32_t address), void *arg);

#endif
