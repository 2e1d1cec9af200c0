#include "egress/denials.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/net.h"
#include "proto/json_text.h"
#include "proto/timestamp.h"

static bool is_same(const struct denial *a, const struct denial *b)
{
	return a->address == b->address && a->port == b->port && strcmp(a->proto, b->proto) == 0 &&
	       strcmp(a->name, b->name) == 0 && strcmp(a->rule, b->rule) == 0 &&
	       strcmp(a->reason, b->reason) == 0;
}

static void take_out(struct denials *d, unsigned i)
{
	d->count--;
	memmove(&d->list[i], &d->list[i + 1], (d->count - i) * sizeof(d->list[0]));
}

void denials_note(struct denials *d, const struct denial *one)
{
	struct denial new = *one;

	new.times = 1;
	for (unsigned i = 0; i < d->count; i++) {
		if (!is_same(&d->list[i], &new))
			continue;
		new.times = d->list[i].times + 1;
		take_out(d, i);
		break;
	}
	if (d->count == DENIALS_MAX)
		take_out(d, 0);
	d->list[d->count++] = new;
	d->changes++;
}

/* --- as text --- */

static int put_member(struct buf *out, const char *key, const char *text)
{
	int r;

	if (!text[0])
		return 0;
	r = buf_printf(out, ",\"%s\":", key);
	return r ? r : json_text_string(out, text, strlen(text), JSON_TEXT_ASCII);
}

static int put_one(struct buf *out, const struct denial *one)
{
	char time[TIMESTAMP_BYTES], address[NET_TEXT_BYTES];
	int r = buf_printf(out, "{\"time\":\"%s\",\"times\":%llu,\"protocol\":\"%s\",\"port\":%u",
		timestamp_format_ns(one->at_ms * NS_PER_MS, time), (unsigned long long)one->times,
		one->proto, one->port);

	r = r ? r : put_member(out, "name", one->name);
	r = r ? r
	      : put_member(out, "address", one->address ? net_format(one->address, address) : "");
	r = r ? r : put_member(out, "rule", one->rule);
	r = r ? r : put_member(out, "reason", one->reason);
	return r ? r : buf_add_str(out, "}");
}

int denials_json(const struct denials *d, struct buf *out)
{
	int r = buf_add_str(out, "[");

	for (unsigned i = d->count; r == 0 && i > 0; i--) {
		r = i < d->count ? buf_add_str(out, ",") : 0;
		r = r ? r : put_one(out, &d->list[i - 1]);
	}
	return r ? r : buf_add_str(out, "]");
}

static int put_line(struct buf *out, const struct denial *one)
{
	char time[TIMESTAMP_BYTES], address[NET_TEXT_BYTES], times[32] = "";

	if (one->times > 1)
		(void)snprintf(times, sizeof(times), " (%llu times)",
			(unsigned long long)one->times); /* fits */
	return buf_printf(out, "%s %s %s:%u rule %s%s%s%s\n",
		timestamp_format_ns(one->at_ms * NS_PER_MS, time), one->proto,
		one->name[0] ? one->name : net_format(one->address, address), one->port,
		one->rule[0] ? one->rule : "-", times, one->reason[0] ? ": " : "", one->reason);
}

int denials_text(const struct denials *d, struct buf *out)
{
	int r = d->count ? 0 : buf_add_str(out, "nothing was denied\n");

	for (unsigned i = d->count; r == 0 && i > 0; i--)
		r = put_line(out, &d->list[i - 1]);
	return r;
}

/* --- from an earlier worker --- */

/* Printable, and not too long. */
static bool get_text(const json_t *object, const char *key, char *out, size_t cap)
{
	const json_t *v = json_object_get(object, key);
	const char *text = v ? json_string_value(v) : "";

	if (!text || strlen(text) >= cap)
		return false;
	for (const char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			return false;
	memcpy(out, text, strlen(text) + 1);
	return true;
}

static bool get_number(const json_t *object, const char *key, uint64_t max, uint64_t *ret)
{
	const json_t *v = json_object_get(object, key);
	json_int_t n = json_integer_value(v);

	*ret = (uint64_t)n;
	return json_is_integer(v) && n >= 0 && *ret <= max;
}

static bool get_one(const json_t *object, struct denial *ret)
{
	char time[TIMESTAMP_BYTES], address[NET_TEXT_BYTES];
	uint64_t ns, port;

	*ret = (struct denial){0};
	if (!get_text(object, "time", time, sizeof(time)) || timestamp_parse_ns(time, &ns) < 0 ||
		!get_number(object, "times", INT64_MAX, &ret->times) ||
		!get_number(object, "port", UINT16_MAX, &port) ||
		!get_text(object, "protocol", ret->proto, sizeof(ret->proto)) ||
		!get_text(object, "name", ret->name, sizeof(ret->name)) ||
		!get_text(object, "address", address, sizeof(address)) ||
		!get_text(object, "rule", ret->rule, sizeof(ret->rule)) ||
		!get_text(object, "reason", ret->reason, sizeof(ret->reason)))
		return false;
	ret->at_ms = ns / NS_PER_MS;
	ret->port = (uint16_t)port;
	return !address[0] || net_parse_address(address, &ret->address) == 0;
}

int denials_restore(struct denials *d, const json_t *list)
{
	struct denials new = {.changes = d->changes};
	size_t n = json_array_size(list), room = DENIALS_MAX - d->count;

	if (!json_is_array(list) || n > DENIALS_MAX)
		return -EINVAL;
	for (size_t i = n < room ? n : room; i > 0; i--)
		if (!get_one(json_array_get(list, i - 1), &new.list[new.count++]))
			return -EINVAL;
	memcpy(&new.list[new.count], d->list, d->count * sizeof(d->list[0]));
	new.count += d->count;
	*d = new;
	return 0;
}
