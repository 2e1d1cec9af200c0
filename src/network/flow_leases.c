#include "network/flow_leases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "fleet/fleet.h"
#include "policy/network_floor.h"
#include "policy/network_policy.h"
#include "store/store.h"

/* What the workers of a key's sandboxes have. */
struct flow_leases {
	struct flow_leases *next; /* in fleet->flow_leases */
	char key_id[STORE_ID_MAX + 1];
	unsigned lent, workers;
};

struct flow_lease {
	struct fleet *fleet;
	struct flow_leases *key;
	unsigned lent;
	const char *full; /* why it did not get all that it wanted: "key", "host" or NULL */
	bool found;
};

static struct flow_leases *key_of(struct fleet *f, const char *key_id)
{
	struct flow_leases *k = f->flow_leases;

	while (k && strcmp(k->key_id, key_id) != 0)
		k = k->next;
	if (k)
		return k;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->next = f->flow_leases;
	(void)snprintf(k->key_id, sizeof(k->key_id), "%s", key_id); /* fits */
	f->flow_leases = k;
	return k;
}

static void leave_key(struct fleet *f, struct flow_leases *k)
{
	struct flow_leases **at = &f->flow_leases;

	if (--k->workers)
		return;
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	free(k);
}

static void set(struct flow_lease *l, unsigned lent)
{
	l->fleet->flows_lent += lent - l->lent;
	l->key->lent += lent - l->lent;
	l->lent = lent;
}

static unsigned left(unsigned max, unsigned others)
{
	return max > others ? max - others : 0;
}

/* Lends what it wants, as far as there are so many, and at least `keeps`, which it has. */
static void lend(struct flow_lease *l, unsigned wants, unsigned keeps)
{
	struct network_flows max = network_floor_flows(l->fleet->options.network);
	unsigned of_key = left(max.key, l->key->lent - l->lent),
		 of_host = left(max.host, l->fleet->flows_lent - l->lent),
		 most = of_key < of_host ? of_key : of_host;

	l->full = wants <= most ? NULL : of_key < of_host ? "key" : "host";
	wants = wants < most ? wants : most;
	set(l, wants > keeps ? wants : keeps);
}

struct flow_lease *flow_lease_open(struct fleet *f, const char *key_id, bool found)
{
	struct flow_lease *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct flow_lease){.fleet = f, .key = key_of(f, key_id), .found = found};
	if (!l->key) {
		free(l);
		return NULL;
	}
	l->key->workers++;
	lend(l, FLOW_LEASE_FIRST, 0);
	return l;
}

void flow_lease_close(struct flow_lease *l)
{
	if (!l)
		return;
	set(l, 0);
	leave_key(l->fleet, l->key);
	free(l);
}

char *flow_lease_line(const struct flow_lease *l)
{
	if (!l->full)
		return str_printf("{\"flows\":{\"lent\":%u}}", l->lent);
	return str_printf("{\"flows\":{\"lent\":%u,\"full\":\"%s\"}}", l->lent, l->full);
}

/* As many as a sandbox may have. */
static unsigned number(const struct flow_lease *l, const json_t *said, const char *name)
{
	unsigned max =
		network_floor_flows(l->fleet->options.network).sandbox + NETWORK_DATAGRAM_PEERS;
	json_int_t n = json_integer_value(json_object_get(said, name));

	return n < 0 ? 0 : n > max ? max : (unsigned)n;
}

void flow_lease_take(struct flow_lease *l, const json_t *said)
{
	unsigned has = number(l, said, "has");

	if (!json_is_object(said))
		return;
	lend(l, number(l, said, "wants"), l->found || has < l->lent ? has : l->lent);
	l->found = false;
}
