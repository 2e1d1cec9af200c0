#include "api/tier_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "store/tiers.h"

enum { DECIMALS = 6, MICROS = 1000000 };

const char *money_format(uint64_t micros, char out[MONEY_BYTES])
{
	size_t n = (size_t)snprintf(out, MONEY_BYTES, "%llu.%06llu",
		(unsigned long long)(micros / MICROS),
		(unsigned long long)(micros % MICROS)); /* fits */

	while (out[n - 1] == '0' && out[n - 3] != '.') /* keeps cents */
		out[--n] = '\0';
	return out;
}

/* 0 or -EINVAL. */
static int money_parse(const char *s, uint64_t *ret)
{
	char whole[MONEY_BYTES], part[DECIMALS + 1] = "000000";
	size_t n = strcspn(s, "."), decimals = s[n] ? strlen(s + n + 1) : 0;
	uint64_t a, b;

	if (n == 0 || n >= sizeof(whole) || decimals > DECIMALS || (s[n] && !decimals))
		return -EINVAL;
	(void)snprintf(whole, sizeof(whole), "%.*s", (int)n, s); /* length checked above */
	if (decimals)
		memcpy(part, s + n + 1, decimals);
	if (str_parse_u64(whole, &a) < 0 || str_parse_u64(part, &b) < 0 ||
		a > INT64_MAX / MICROS - 1)
		return -EINVAL;
	*ret = a * MICROS + b;
	return 0;
}

static int add_tier(void *arg, const struct store_tier *t)
{
	char price[MONEY_BYTES];

	return json_array_append_new(arg,
		       json_pack("{s:s, s:I, s:s, s:s, s:b}", "name", t->name, "includedMinutes",
			       (json_int_t)t->included_minutes, "pricePerMinute",
			       money_format(t->price_micros_per_minute, price), "currency",
			       t->currency, "hardStop", t->hard_stop)) < 0
		       ? -ENOMEM
		       : 0;
}

int tiers_list(struct operation *o, struct error *e)
{
	o->answer = json_array();
	return store_tier_list(o->store, add_tier, o->answer, e);
}

struct find_tier {
	const char *name;
	struct store_tier tier;
	char currency[STORE_CURRENCY_MAX + 1];
};

static int match_tier(void *arg, const struct store_tier *t)
{
	struct find_tier *f = arg;

	if (strcmp(t->name, f->name) != 0)
		return 0;
	f->tier = *t;
	(void)snprintf(f->currency, sizeof(f->currency), "%s", t->currency); /* bounded when put */
	return 0;
}

static int take_fields(const json_t *body, struct store_tier *t, struct error *e)
{
	const json_t *minutes = json_object_get(body, "includedMinutes");
	const json_t *price = json_object_get(body, "pricePerMinute");
	const json_t *currency = json_object_get(body, "currency");
	const json_t *stop = json_object_get(body, "hardStop");

	if (minutes && (!json_is_integer(minutes) || json_integer_value(minutes) < 0))
		return error_set(e, ERROR_USAGE, EINVAL, "includedMinutes must be a number");
	if (price && (!json_is_string(price) || money_parse(json_string_value(price),
							&t->price_micros_per_minute) < 0))
		return error_set(e, ERROR_USAGE, EINVAL,
			"the price must be a decimal number with at most %d decimals", DECIMALS);
	if (minutes)
		t->included_minutes = (uint64_t)json_integer_value(minutes);
	if (json_is_string(currency))
		t->currency = json_string_value(currency);
	if (json_is_boolean(stop))
		t->hard_stop = json_is_true(stop);
	return 0;
}

int tiers_put(struct operation *o, struct error *e)
{
	struct find_tier f = {.name = o->id};
	int r = store_tier_list(o->store, match_tier, &f, e);

	f.tier.name = o->id;
	f.tier.currency = f.currency;
	if (r == 0)
		r = take_fields(o->body, &f.tier, e);
	return r < 0 ? r : store_tier_put(o->store, &f.tier, e);
}

int tiers_remove(struct operation *o, struct error *e)
{
	return store_tier_remove(o->store, o->id, e);
}
