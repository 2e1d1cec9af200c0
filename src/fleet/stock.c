#include "fleet/stock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

/* --- options --- */

static int bad_option(const char *text, struct error *e)
{
	return error_set(e, ERROR_USAGE, EINVAL,
		"--pool %s: expected a number from 0 to %d, or TEMPLATE=NUMBER", text,
		STOCK_EACH_MAX);
}

int stock_parse_option(struct stock_options *o, const char *text, struct error *e)
{
	const char *equals = strrchr(text, '=');
	size_t n = equals ? (size_t)(equals - text) : 0;
	uint64_t count;

	if (equals == text || n > STORE_NAME_MAX ||
		str_parse_u64(equals ? equals + 1 : text, &count) < 0 || count > STOCK_EACH_MAX)
		return bad_option(text, e);
	if (!equals) {
		o->each = (unsigned)count;
		return 0;
	}
	if (o->named_count == STOCK_NAMED_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "--pool: more than %d templates are named",
			STOCK_NAMED_MAX);
	memcpy(o->named[o->named_count].template, text, n);
	o->named[o->named_count].template[n] = '\0';
	o->named[o->named_count++].count = (unsigned)count;
	return 0;
}

bool stock_is_wanted(const struct stock_options *o)
{
	unsigned most = o->each;

	for (unsigned i = 0; i < o->named_count; i++)
		most |= o->named[i].count;
	return most > 0;
}

/* The last option for a template counts. */
static unsigned target_of(const struct stock_options *o, const struct stock_key *k)
{
	unsigned target = o->each;

	for (unsigned i = 0; i < o->named_count && !k->snapshot; i++)
		if (strcmp(o->named[i].template, k->template) == 0)
			target = o->named[i].count;
	return target;
}

/* --- kinds --- */

void stock_init(struct stock *s, const struct stock_options *o)
{
	*s = (struct stock){.options = *o};
}

static void kind_free(struct stock_kind *k)
{
	free((char *)k->key.template);
	free((char *)k->key.snapshot);
	free(k);
}

void stock_done(struct stock *s)
{
	for (struct stock_kind *k = s->kinds, *next; k; k = next) {
		next = k->next;
		kind_free(k);
	}
	*s = (struct stock){0};
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_key(const struct stock_key *a, const struct stock_key *b)
{
	return strcmp(a->template, b->template) == 0 && same_text(a->snapshot, b->snapshot) &&
	       a->made_s == b->made_s && a->sizes.cpus == b->sizes.cpus &&
	       a->sizes.memory_bytes == b->sizes.memory_bytes &&
	       a->sizes.disk_bytes == b->sizes.disk_bytes;
}

static struct stock_kind *find(struct stock *s, const struct stock_key *key)
{
	struct stock_kind *k = s->kinds;

	while (k && (k->gone || !same_key(&k->key, key)))
		k = k->next;
	return k;
}

static struct stock_kind *kind_new(struct stock *s, const struct stock_key *key)
{
	struct stock_kind *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->key = *key;
	k->key.template = strdup(key->template);
	k->key.snapshot = key->snapshot ? strdup(key->snapshot) : NULL;
	if (!k->key.template || !k->key.snapshot != !key->snapshot) {
		kind_free(k);
		return NULL;
	}
	k->target = target_of(&s->options, key);
	k->next = s->kinds;
	s->kinds = k;
	s->kind_count++;
	return k;
}

bool stock_want(struct stock *s, const struct stock_key *key, uint64_t now_ns)
{
	struct stock_kind *k = find(s, key);

	if (!k && target_of(&s->options, key) > 0 && s->kind_count < STOCK_KINDS_MAX)
		k = kind_new(s, key);
	if (k)
		k->wanted_ns = now_ns;
	return k != NULL;
}

void stock_forget(struct stock_kind *kind)
{
	kind->gone = true;
}

/* --- VMs --- */

static struct stock_vm *take_out(struct stock *s, struct stock_kind *k)
{
	struct stock_vm *vm = k->vms;

	if (!vm)
		return NULL;
	k->vms = vm->next;
	vm->next = NULL;
	k->ready--;
	s->memory_bytes -= k->key.sizes.memory_bytes;
	return vm;
}

struct stock_vm *stock_take(struct stock *s, const struct stock_key *key)
{
	struct stock_kind *k = find(s, key);

	if (!k || !k->vms)
		return NULL;
	k->failures = 0;
	return take_out(s, k);
}

static bool has_room(const struct stock *s, const struct stock_kind *k)
{
	return k->key.sizes.memory_bytes <= s->options.memory_bytes &&
	       s->memory_bytes <= s->options.memory_bytes - k->key.sizes.memory_bytes;
}

static unsigned target_now(const struct stock_kind *k, uint64_t now_ns)
{
	bool idle = now_ns > k->wanted_ns + STOCK_IDLE_S * NS_PER_S;

	return k->gone || idle ? 0 : k->target;
}

static bool is_lacking(const struct stock_kind *k, uint64_t now_ns)
{
	return k->ready + k->making < target_now(k, now_ns) && now_ns >= k->not_before_ns;
}

/* The emptiest kind first; among equals, the one wanted last. */
static bool goes_first(const struct stock_kind *a, const struct stock_kind *b)
{
	unsigned have_a = a->ready + a->making, have_b = b->ready + b->making;

	return have_a != have_b ? have_a < have_b : a->wanted_ns > b->wanted_ns;
}

void stock_hand_out(struct stock *s, uint64_t now_ns)
{
	s->handed_out_ns = now_ns;
	if (!s->put_off_ns)
		s->put_off_ns = now_ns;
}

void stock_rest(struct stock *s)
{
	s->handed_out_ns = 0;
}

bool stock_is_quiet(const struct stock *s, uint64_t now_ns)
{
	return s->handed_out_ns && now_ns < s->handed_out_ns + STOCK_QUIET_MS * NS_PER_MS &&
	       now_ns < s->put_off_ns + STOCK_QUIET_MAX_MS * NS_PER_MS;
}

struct stock_kind *stock_begin(struct stock *s, uint64_t now_ns)
{
	struct stock_kind *best = NULL;

	if (stock_is_quiet(s, now_ns))
		return NULL;

	for (struct stock_kind *k = s->kinds; k; k = k->next)
		if (is_lacking(k, now_ns) && has_room(s, k) && (!best || goes_first(k, best)))
			best = k;
	if (best) {
		best->making++;
		s->put_off_ns = 0;
		s->memory_bytes += best->key.sizes.memory_bytes;
	}
	return best;
}

void stock_add(struct stock *s, struct stock_kind *kind, struct stock_vm *vm)
{
	struct stock_vm **end = &kind->vms;

	while (*end)
		end = &(*end)->next;
	*end = vm;
	vm->next = NULL;
	vm->kind = kind;
	kind->making--;
	kind->ready++;
}

static void stop_making(struct stock *s, struct stock_kind *kind)
{
	kind->making--;
	s->memory_bytes -= kind->key.sizes.memory_bytes;
}

void stock_postpone(struct stock *s, struct stock_kind *kind, uint64_t now_ns)
{
	stop_making(s, kind);
	kind->not_before_ns = now_ns + STOCK_RETRY_S * NS_PER_S;
}

/* Several failures at once count as one. */
static void back_off(struct stock_kind *k, uint64_t now_ns)
{
	uint64_t wait_s = STOCK_RETRY_S;

	if (now_ns < k->not_before_ns)
		return;
	for (unsigned i = 0; i < k->failures && wait_s < STOCK_RETRY_MAX_S; i++)
		wait_s *= 2;
	k->failures++;
	k->not_before_ns =
		now_ns + (wait_s < STOCK_RETRY_MAX_S ? wait_s : STOCK_RETRY_MAX_S) * NS_PER_S;
}

void stock_failed(struct stock *s, struct stock_kind *kind, uint64_t now_ns)
{
	stop_making(s, kind);
	back_off(kind, now_ns);
}

void stock_died(struct stock *s, struct stock_vm *vm, uint64_t now_ns)
{
	struct stock_kind *k = vm->kind;

	for (struct stock_vm **p = &k->vms; *p; p = &(*p)->next)
		if (*p == vm) { /* moved to the front */
			*p = vm->next;
			vm->next = k->vms;
			k->vms = vm;
			(void)take_out(s, k); /* the one just moved */
			break;
		}
	back_off(k, now_ns);
}

/* --- too many --- */

static void remove_kind(struct stock *s, struct stock_kind *kind)
{
	struct stock_kind **p = &s->kinds;

	while (*p != kind)
		p = &(*p)->next;
	*p = kind->next;
	s->kind_count--;
	kind_free(kind);
}

static struct stock_kind *longest_ago(struct stock *s)
{
	struct stock_kind *least = NULL;

	for (struct stock_kind *k = s->kinds; k; k = k->next)
		if (k->vms && (!least || k->wanted_ns < least->wanted_ns))
			least = k;
	return least;
}

/* Takes a VM out if its memory would let another kind in that was wanted much later. */
static struct stock_vm *make_room(struct stock *s, uint64_t now_ns)
{
	struct stock_kind *least = longest_ago(s);

	for (struct stock_kind *k = s->kinds; least && k; k = k->next)
		if (is_lacking(k, now_ns) && !has_room(s, k) &&
			k->key.sizes.memory_bytes <= s->options.memory_bytes &&
			k->wanted_ns > least->wanted_ns + STOCK_YIELD_S * NS_PER_S)
			return take_out(s, least);
	return NULL;
}

struct stock_vm *stock_surplus(struct stock *s, uint64_t now_ns)
{
	for (struct stock_kind *k = s->kinds, *next; k; k = next) {
		unsigned target = target_now(k, now_ns);

		next = k->next;
		if (k->ready > target)
			return take_out(s, k);
		if (target == 0 && k->making == 0)
			remove_kind(s, k);
	}
	return make_room(s, now_ns);
}

struct stock_vm *stock_yield(struct stock *s)
{
	struct stock_kind *k = longest_ago(s);

	return k ? take_out(s, k) : NULL;
}
