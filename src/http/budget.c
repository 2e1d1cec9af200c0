#include "http/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static struct budget_account **place_of(struct budget *b, const char *id)
{
	unsigned h = 5381;
	struct budget_account **p;

	for (const char *c = id; *c; c++) /* the ids are ours, so nobody can choose collisions */
		h = h * 33 ^ (unsigned char)*c;
	p = &b->accounts[h % ARRAY_SIZE(b->accounts)];
	while (*p && strncmp((*p)->id, id, BUDGET_ID_BYTES - 1) != 0)
		p = &(*p)->next;
	return p;
}

static struct budget_account *account_of(struct budget *b, const char *id)
{
	struct budget_account **p = place_of(b, id);

	if (!*p) {
		*p = calloc(1, sizeof(**p));
		if (*p)
			(void)snprintf((*p)->id, BUDGET_ID_BYTES, "%s", id); /* a UUID fits */
	}
	return *p;
}

static void count(struct budget_hold *h, size_t bytes)
{
	h->account->bytes = h->account->bytes - h->bytes + bytes;
	h->budget->bytes = h->budget->bytes - h->bytes + bytes;
	h->bytes = bytes;
}

void budget_charge_to(struct budget_hold *h, struct budget *b, const char *id)
{
	struct budget_account *a;
	size_t bytes = h->bytes;

	if (h->account && strncmp(h->account->id, id, BUDGET_ID_BYTES - 1) == 0)
		return;
	a = account_of(b, id);
	if (!a)
		return;
	a->holds++;
	budget_release(h);
	*h = (struct budget_hold){.budget = b, .account = a};
	count(h, bytes);
}

bool budget_set(struct budget_hold *h, size_t bytes)
{
	size_t more = bytes > h->bytes ? bytes - h->bytes : 0;

	if (!h->account)
		return true;
	if (more && (more > h->budget->max || h->budget->bytes > h->budget->max - more ||
			    h->account->bytes + more > h->budget->max / BUDGET_SHARES)) {
		h->budget->refused++;
		return false;
	}
	count(h, bytes);
	return true;
}

void budget_force(struct budget_hold *h, size_t bytes)
{
	if (h->account)
		count(h, bytes);
}

bool budget_is_short(const struct budget_hold *h)
{
	return h->account && (h->budget->bytes >= h->budget->max ||
				     h->account->bytes >= h->budget->max / BUDGET_SHARES);
}

void budget_release(struct budget_hold *h)
{
	struct budget_account **p;

	if (!h->account)
		return;
	count(h, 0);
	if (!--h->account->holds) {
		p = place_of(h->budget, h->account->id);
		*p = h->account->next;
		free(h->account);
	}
	*h = (struct budget_hold){0};
}
