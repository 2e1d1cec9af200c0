#include "network/budgets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "proto/timestamp.h"
#include "store/budgets.h"

#define DAY_S	    UINT64_C(86400)
#define SETTLED_MAX (INT64_C(1) << 50)

enum { AT_ONCE = 8, MICROS = 1000000 };

/* One of a request. */
struct one {
	struct store_budget row;
	struct store_amounts limits, most;
	bool ask;
};

/* What a request took more, or less, than it was charged with. */
struct settled {
	int64_t tokens, micros;
};

/* --- a worker's words --- */

static bool take_amounts(const json_t *v, struct store_amounts *ret)
{
	json_int_t requests = json_integer_value(json_object_get(v, "requests")),
		   tokens = json_integer_value(json_object_get(v, "tokens")),
		   micros = json_integer_value(json_object_get(v, "micros"));

	*ret = (struct store_amounts){(uint64_t)requests, (uint64_t)tokens, (uint64_t)micros};
	return requests >= 0 && tokens >= 0 && micros >= 0;
}

static bool is_word(const json_t *v, const char *name, const char *word)
{
	const char *text = json_string_value(json_object_get(v, name));

	return text && strcmp(text, word) == 0;
}

/* Whose it is, and of which day. */
static bool take_row(const json_t *v, const char *key_id, const char *sandbox_id, uint64_t today,
	struct store_budget *ret)
{
	bool key = is_word(v, "per", "key"), total = is_word(v, "window", "total");

	*ret = (struct store_budget){.key_id = key_id,
		.sandbox_id = key ? NULL : sandbox_id,
		.id = json_string_value(json_object_get(v, "id")),
		.day = total ? 0 : today};
	return ret->id && (key || is_word(v, "per", "sandbox")) &&
	       (total || is_word(v, "window", "day"));
}

static bool take_one(const json_t *v, const struct instance *i, uint64_t today, struct one *ret)
{
	ret->ask = json_is_true(json_object_get(v, "ask"));
	return take_row(v, i->key_id, i->sandbox.id, today, &ret->row) &&
	       take_amounts(json_object_get(v, "limits"), &ret->limits) &&
	       take_amounts(json_object_get(v, "most"), &ret->most);
}

/* Returns how many; 0: they cannot be read. */
static unsigned take_all(
	const json_t *charge, const struct instance *i, uint64_t today, struct one all[AT_ONCE])
{
	const json_t *list = json_object_get(charge, "budgets");
	size_t n = json_array_size(list);

	if (n > AT_ONCE)
		return 0;
	for (size_t k = 0; k < n; k++)
		if (!take_one(json_array_get(list, k), i, today, &all[k]))
			return 0;
	return (unsigned)n;
}

/* --- what workers may give back of a key's budgets --- */

/* Of one budget and day. */
struct budgets_loan {
	char id[STORE_BUDGET_ID_MAX + 1];
	uint64_t day;
	uint64_t tokens, micros;
};

void budgets_lent_done(struct budgets_lent *l)
{
	free(l->loans);
	*l = (struct budgets_lent){.count = 0};
}

static struct budgets_loan *find_loan(const struct budgets_lent *l, const struct store_budget *row)
{
	for (size_t k = 0; k < l->count; k++)
		if (l->loans[k].day == row->day && strcmp(l->loans[k].id, row->id) == 0)
			return &l->loans[k];
	return NULL;
}

/* The oldest is forgotten for a new one. NULL: out of memory. */
static struct budgets_loan *add_loan(struct budgets_lent *l, const struct store_budget *row)
{
	struct budgets_loan *loans = l->loans;

	if (!loans)
		loans = calloc(BUDGETS_LENT_MAX, sizeof(*loans));
	if (!loans)
		return NULL;
	l->loans = loans;
	if (l->count == BUDGETS_LENT_MAX)
		memmove(loans, loans + 1, --l->count * sizeof(*loans));
	loans += l->count++;
	*loans = (struct budgets_loan){.day = row->day};
	(void)snprintf(loans->id, sizeof(loans->id), "%s", row->id); /* the store took it */
	return loans;
}

static void lend(struct budgets_lent *l, const struct one *all, unsigned n)
{
	for (unsigned k = 0; k < n; k++) {
		const struct one *o = &all[k];
		struct budgets_loan *loan = o->row.sandbox_id ? NULL : find_loan(l, &o->row);

		if (!o->row.sandbox_id && !loan)
			loan = add_loan(l, &o->row);
		if (!loan)
			continue;
		loan->tokens += o->most.tokens;
		loan->micros += o->most.micros;
	}
}

/* What is left to give back of an amount; more is always taken. */
static int64_t give_back(uint64_t *lent, int64_t n)
{
	if (n >= 0)
		return n;
	if ((uint64_t)-n > *lent)
		n = -(int64_t)*lent;
	*lent -= (uint64_t)-n;
	return n;
}

static void bound(struct budgets_lent *l, const struct store_budget *row, struct settled *s)
{
	struct budgets_loan none = {.day = 0}, *loan = find_loan(l, row);

	if (row->sandbox_id)
		return; /* its own */
	loan = loan ? loan : &none;
	s->tokens = give_back(&loan->tokens, s->tokens);
	s->micros = give_back(&loan->micros, s->micros);
}

/* --- what is left --- */

static bool is_over(uint64_t used, uint64_t limit)
{
	return limit && used >= limit;
}

static bool is_used_up(const struct one *o)
{
	const struct store_amounts *used = &o->row.used, *limits = &o->limits;

	return is_over(used->requests, limits->requests) || is_over(used->tokens, limits->tokens) ||
	       is_over(used->micros, limits->micros);
}

static double share(uint64_t used, uint64_t limit)
{
	return limit ? (double)used / (double)limit : 0;
}

/* Of the amount of which the least is left. */
static double most_used(const struct one *o)
{
	const struct store_amounts *used = &o->row.used, *limits = &o->limits;
	double a = share(used->requests, limits->requests), b = share(used->tokens, limits->tokens),
	       c = share(used->micros, limits->micros);

	a = a > b ? a : b;
	return a > c ? a : c;
}

/* "claude: 3 of 100 requests, 0.25 of 5 USD" */
static void describe(const struct one *o, char out[BUDGETS_TEXT_MAX + 1])
{
	const struct store_amounts *used = &o->row.used, *limits = &o->limits;
	char requests[64] = "", tokens[64] = "", usd[64] = "";

	if (limits->requests)
		(void)snprintf(requests, sizeof(requests), " %llu of %llu requests",
			(unsigned long long)used->requests,
			(unsigned long long)limits->requests); /* fits, as the others do */
	if (limits->tokens)
		(void)snprintf(tokens, sizeof(tokens), "%s %llu of %llu tokens",
			requests[0] ? "," : "", (unsigned long long)used->tokens,
			(unsigned long long)limits->tokens);
	if (limits->micros)
		(void)snprintf(usd, sizeof(usd), "%s %.4g of %.7g USD",
			requests[0] || tokens[0] ? "," : "", (double)used->micros / MICROS,
			(double)limits->micros / MICROS);
	(void)snprintf(out, BUDGETS_TEXT_MAX + 1, "%s:%s%s%s", o->row.id, requests, tokens,
		usd); /* or is cut */
}

static enum budgets_verdict refuse(const struct one *o, uint64_t now_ns, struct budgets_said *ret)
{
	uint64_t next_s = (now_ns / NS_PER_S / DAY_S + 1) * DAY_S;
	char when[TIMESTAMP_BYTES], text[BUDGETS_TEXT_MAX + 1];

	describe(o, text);
	ret->retry_s = o->row.day ? next_s - now_ns / NS_PER_S : 0;
	timestamp_format_ns(next_s * NS_PER_S, when);
	(void)snprintf(ret->text, sizeof(ret->text), "budget used up: %.100s%s%.20s", text,
		o->row.day ? ", anew at " : "", o->row.day ? when : ""); /* fits */
	return BUDGETS_REFUSED;
}

static enum budgets_verdict fail(struct budgets_said *ret, const char *why)
{
	ret->retry_s = 0;
	(void)snprintf(ret->text, sizeof(ret->text), "budgets cannot be counted: %.120s",
		why); /* or cut */
	return BUDGETS_REFUSED;
}

/* Of the one of which the least is left. */
static void tell(const struct one *all, unsigned n, struct budgets_said *ret)
{
	const struct one *most = &all[0];

	for (unsigned k = 1; k < n; k++)
		if (most_used(&all[k]) > most_used(most))
			most = &all[k];
	describe(most, ret->text);
}

/* Who denies goes before who asks. */
static enum budgets_verdict look(
	struct one *all, unsigned n, bool asks, uint64_t now_ns, struct budgets_said *ret)
{
	bool used_up = false;

	for (unsigned k = 0; k < n; k++) {
		if (is_used_up(&all[k]) && !all[k].ask)
			return refuse(&all[k], now_ns, ret);
		used_up = used_up || is_used_up(&all[k]);
	}
	tell(all, n, ret);
	return used_up || asks ? BUDGETS_ASK : BUDGETS_CHARGED;
}

/* --- counting --- */

static int read_all(struct store *s, struct one *all, unsigned n, struct error *e)
{
	int r = 0;

	for (unsigned k = 0; k < n && r == 0; k++)
		r = store_budget_get(s, &all[k].row, e);
	return r;
}

/* All or none. */
static int add_all(struct store *s, struct one *all, unsigned n, struct error *e)
{
	int r = store_begin(s, e);

	if (r < 0)
		return r;
	for (unsigned k = 0; k < n && r == 0; k++)
		r = store_budget_charge(s, &all[k].row, &all[k].most, e);
	r = r ? r : store_commit(s, e);
	if (r < 0)
		store_rollback(s);
	return r;
}

enum budgets_verdict budgets_charge(const struct instance *i, const json_t *charge, bool allowed,
	struct budgets_lent *lent, struct budgets_said *ret)
{
	struct store *s = i->fleet->store;
	uint64_t now = clock_realtime_ns();
	bool asks = json_is_true(json_object_get(charge, "asks"));
	enum budgets_verdict v;
	struct error e = {0};
	struct one all[AT_ONCE];
	unsigned n;

	*ret = (struct budgets_said){.day = store_budget_day(now)};
	n = take_all(charge, i, ret->day, all);
	if (n == 0)
		return fail(ret, "the worker's words cannot be read");
	if (read_all(s, all, n, &e) < 0)
		return fail(ret, e.message);
	v = look(all, n, asks, now, ret);
	if (v == BUDGETS_ASK && allowed)
		v = BUDGETS_CHARGED;
	if (v == BUDGETS_CHARGED && add_all(s, all, n, &e) < 0)
		return fail(ret, e.message);
	if (v == BUDGETS_CHARGED) {
		lend(lent, all, n);
		tell(all, n, ret);
	}
	return v;
}

static bool is_recent(uint64_t day, uint64_t today)
{
	return day == today || day + 1 == today;
}

static int64_t bounded(const json_t *v, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(v, name));

	return n > SETTLED_MAX ? SETTLED_MAX : n < -SETTLED_MAX ? -SETTLED_MAX : n;
}

void budgets_settle(struct fleet *f, const char *key_id, const char *sandbox_id,
	const json_t *spent, struct budgets_lent *lent)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20);
	const json_t *list = json_object_get(spent, "budgets");
	uint64_t today = store_budget_day(clock_realtime_ns()),
		 day = (uint64_t)json_integer_value(json_object_get(spent, "day"));
	struct error e = {0};

	for (size_t k = 0; k < json_array_size(list) && k < AT_ONCE; k++) {
		const json_t *v = json_array_get(list, k);
		struct settled s = {bounded(v, "tokens"), bounded(v, "micros")};
		struct store_budget row;

		if (!is_recent(day, today) || !take_row(v, key_id, sandbox_id, day, &row))
			continue;
		bound(lent, &row, &s);
		if (store_budget_settle(f->store, &row, s.tokens, s.micros, &e) < 0 &&
			log_limited(&limit))
			log_warn("a budget stays charged: %s sandbox=%s", e.message, sandbox_id);
	}
}
