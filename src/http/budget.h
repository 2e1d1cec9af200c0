/* The bytes that clients make the daemon hold: requests that are gathered, answers that nobody has
 * read yet, events that wait to be fetched, output that is collected. There is one budget for all,
 * and a share of it for each account: a key, the operator, or ("") everybody without either.
 *
 * What can wait asks budget_is_short() and stops reading; what cannot is refused: budget_set() says
 * no, and the client gets 429. What is there all the same is counted with budget_force(), so that it
 * is known. Single-threaded. */
#ifndef HTTP_BUDGET_H
#define HTTP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

enum {
	BUDGET_BYTES = 256 * 1024 * 1024, /* unless an option says otherwise */
	BUDGET_SHARES = 4,		  /* an account may have one of so many */
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

/* What one holder holds; all zero: of nobody, and nothing is counted. */
struct budget_hold {
	struct budget *budget;
	struct budget_account *account;
	size_t bytes;
};

/* Of that account from now on, with the bytes that it has. Out of memory: as it was. */
void budget_charge_to(struct budget_hold *h, struct budget *b, const char *id);
/* It holds so many bytes now. False: more than there is room for, and it stays as it was. */
bool budget_set(struct budget_hold *h, size_t bytes);
void budget_force(struct budget_hold *h, size_t bytes);
/* Nothing more should be taken for that holder. */
bool budget_is_short(const struct budget_hold *h);
void budget_release(struct budget_hold *h); /* all zero again */

#endif
