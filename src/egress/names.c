#include "egress/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/place.h"
enum {
	BUCKETS = 1024,
	NONE = NAMES_MAX,
	AROUND = 22, /* bytes of JSON beside a name: "":"198.18.100.100", */
};

#define FIRST_ADDRESS UINT32_C(0xc6120001) /* 198.18.0.1 */
#define LAST_ADDRESS  UINT32_C(0xc613fffd) /* 198.19.255.253; the next is WHY_ADDRESS */

struct entry {
	uint32_t address;
	uint16_t next_by_name, next_by_address;
	uint16_t older, newer;
	char name[NAME_BYTES];
};

struct names {
	struct entry entries[NAMES_MAX]; /* touched as they are used */
	uint16_t by_name[BUCKETS], by_address[BUCKETS];
	uint16_t oldest, newest, free; /* free: linked by next_by_name */
	unsigned used;		       /* entries that ever were */
	size_t text_bytes;
	uint32_t next;
};

static unsigned bucket_of_name(const char *name)
{
	uint32_t h = 2166136261;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619;
	return (h ^ h >> 16) % BUCKETS;
}

static unsigned bucket_of_address(uint32_t address)
{
	return address % BUCKETS;
}

struct names *names_make(void)
{
	struct names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	for (unsigned i = 0; i < BUCKETS; i++)
		n->by_name[i] = n->by_address[i] = NONE;
	n->oldest = n->newest = n->free = NONE;
	n->next = FIRST_ADDRESS;
	return n;
}

void names_free(struct names *n)
{
	free(n);
}

/* --- the order of use --- */

static void unlink_age(struct names *n, struct entry *e)
{
	*(e->older == NONE ? &n->oldest : &n->entries[e->older].newer) = e->newer;
	*(e->newer == NONE ? &n->newest : &n->entries[e->newer].older) = e->older;
}

static void make_newest(struct names *n, uint16_t i)
{
	struct entry *e = &n->entries[i];

	e->older = n->newest;
	e->newer = NONE;
	*(n->newest == NONE ? &n->oldest : &n->entries[n->newest].newer) = i;
	n->newest = i;
}

/* --- the two tables --- */

static uint16_t find_name(const struct names *n, const char *name)
{
	uint16_t i = n->by_name[bucket_of_name(name)];

	while (i != NONE && strcmp(n->entries[i].name, name) != 0)
		i = n->entries[i].next_by_name;
	return i;
}

static uint16_t find_address(const struct names *n, uint32_t address)
{
	uint16_t i = n->by_address[bucket_of_address(address)];

	while (i != NONE && n->entries[i].address != address)
		i = n->entries[i].next_by_address;
	return i;
}

static void put(struct names *n, uint16_t i, const char *name, uint32_t address)
{
	struct entry *e = &n->entries[i];
	uint16_t *by_name = &n->by_name[bucket_of_name(name)],
		 *by_address = &n->by_address[bucket_of_address(address)];

	e->address = address;
	memset(e->name, 0, sizeof(e->name));
	memcpy(e->name, name, strnlen(name, sizeof(e->name) - 1));
	e->next_by_name = *by_name;
	*by_name = i;
	e->next_by_address = *by_address;
	*by_address = i;
	n->text_bytes += strlen(e->name) + AROUND;
	make_newest(n, i);
}

static void take_out(struct names *n, uint16_t i)
{
	struct entry *e = &n->entries[i];
	uint16_t *p = &n->by_name[bucket_of_name(e->name)];

	while (*p != i)
		p = &n->entries[*p].next_by_name;
	*p = e->next_by_name;
	p = &n->by_address[bucket_of_address(e->address)];
	while (*p != i)
		p = &n->entries[*p].next_by_address;
	*p = e->next_by_address;
	unlink_age(n, e);
	n->text_bytes -= strlen(e->name) + AROUND;
	e->next_by_name = n->free;
	n->free = i;
}

/* NONE: there is none. */
static uint16_t take_free(struct names *n)
{
	uint16_t i = n->free;

	if (i != NONE)
		n->free = n->entries[i].next_by_name;
	else if (n->used < NAMES_MAX)
		i = (uint16_t)n->used++;
	return i;
}

static bool has_room(const struct names *n, const char *name)
{
	return (n->free != NONE || n->used < NAMES_MAX) &&
	       n->text_bytes + strlen(name) + AROUND <= NAMES_TEXT_MAX;
}

/* --- interface --- */

static uint32_t next_address(struct names *n)
{
	uint32_t address;

	do {
		address = n->next;
		n->next = address == LAST_ADDRESS ? FIRST_ADDRESS : address + 1;
	} while (find_address(n, address) != NONE); /* there are 64 times as many addresses */
	return address;
}

uint32_t names_address(struct names *n, const char *name, bool *ret_new)
{
	uint16_t i = find_name(n, name);

	*ret_new = i == NONE;
	if (i != NONE) {
		unlink_age(n, &n->entries[i]);
		make_newest(n, i);
		return n->entries[i].address;
	}
	while (!has_room(n, name))
		take_out(n, n->oldest);
	i = take_free(n);
	put(n, i, name, next_address(n));
	return n->entries[i].address;
}

const char *names_name(struct names *n, uint32_t address)
{
	uint16_t i = find_address(n, address);

	if (i == NONE)
		return NULL;
	unlink_age(n, &n->entries[i]);
	make_newest(n, i);
	return n->entries[i].name;
}

int names_restore(struct names *n, const char *name, uint32_t address)
{
	if (!place_is_synthetic(address) || address < FIRST_ADDRESS || address > LAST_ADDRESS ||
		!name[0] || strlen(name) >= NAME_BYTES)
		return -EINVAL;
	if (!has_room(n, name) || find_name(n, name) != NONE || find_address(n, address) != NONE)
		return 0;
	put(n, take_free(n), name, address);
	if (address >= n->next && address < LAST_ADDRESS)
		n->next = address + 1;
	return 0;
}

void names_each(
	const struct names *n, void (*f)(void *arg, const char *name, uint32_t address), void *arg)
{
	for (uint16_t i = n->oldest; i != NONE; i = n->entries[i].newer)
		f(arg, n->entries[i].name, n->entries[i].address);
}
