/* Addresses that stand for names, from 198.18.0.0/15. A name keeps its address for the sandbox's
 * life. The daemon keeps the table for the next worker (docs/egress-protocol.md).
 *
 * The table holds at most NAMES_MAX names and NAMES_TEXT_MAX bytes of JSON. A new name replaces the
 * least recently used one. That one's address then stands for nothing, and is used again only after
 * all other addresses. */
#ifndef EGRESS_NAMES_H
#define EGRESS_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { NAMES_MAX = 1024, NAMES_TEXT_MAX = 60000, NAME_BYTES = 254 };

struct names;

struct names *names_make(void); /* NULL: out of memory */
void names_free(struct names *n);

/* Returns the address of a name (policy_is_host()). *ret_new: the name had none before. */
uint32_t names_address(struct names *n, const char *name, bool *ret_new);

/* The name that an address stands for, or NULL. Borrowed until the next names_address. */
const char *names_name(struct names *n, uint32_t address);

/* Takes over a name and its address from an earlier worker. Does nothing if either is in the table
 * already, or if the table is full. Returns 0, or -EINVAL if it is no name, or an address that
 * cannot stand for one. */
int names_restore(struct names *n, const char *name, uint32_t address);

/* Calls f for each name, oldest first. */
void names_each(
	const struct names *n, void (*f)(void *arg, const char *name, uint32_t address), void *arg);

#endif
