/* Counts the bytes that clients make the daemon hold: requests being gathered, answers that nobody
 * has read yet, events waiting to be fetched, collected output, data that a guest has not read yet.
 * There is one budget for all, and each account has a share of it. An account is a key, the
 * operator, or ("") everybody else.
 *
 * A holder that can wait asks budget_is_short() and stops reading. One that cannot calls
 * budget_set(), which may refuse; the client then gets 429. budget_force() counts bytes that are
 * held in any case. Single-threaded. */
#ifndef HTTP_BUDGET_H
#define HTTP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

enum {
	BUDGET_BYTES = 256 * 1024 * 1024, /* unless an option sets it */
	BUDGET_SHARES = 4,		  /* one account may take the budget divided by this */
	BUDGET_ID_BYTES = 40,
};

#define BUDGET_REFUSAL                                                                             \
	"too much of this key waits in the server's memory: read the answers that were asked "     \
	"for, or try again later"

struct budget_account {
	struct budget_account *next;
	char id[BUDGET_ID_BYTES];
	size_t bytes;
	unsigned holds, connections;
};

struct budget {
	size_t max, bytes;
	unsigned long refused;
	struct budget_account *accounts[256];
};

/* The bytes of one holder. All zero: no account, and nothing is counted. */
struct budget_hold {
	struct budget *budget;
	struct budget_account *account;
	size_t bytes;
};

/* Moves the holder and its bytes to that account. When out of memory, nothing changes. */
void budget_charge_to(struct budget_hold *h, struct budget *b, const char *id);
/* Sets the holder's bytes. Returns false if that exceeds the budget or the account's share; then
 * nothing changes. */
bool budget_set(struct budget_hold *h, size_t bytes);
void budget_force(struct budget_hold *h, size_t bytes);
/* Whether the holder should take no more. */
bool budget_is_short(const struct budget_hold *h);
void budget_release(struct budget_hold *h); /* the holder is all zero again */

#endif
