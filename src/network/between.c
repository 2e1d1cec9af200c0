#include "network/between.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rate.h"
#include "network/between_find.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "proto/base64.h"
#include "proto/json_text.h"
#include "proto/json_tree.h"

enum { LINE_MAX_BYTES = 256 * 1024, DENIAL_MAX_BYTES = 120, EARLY_MAX_BYTES = 64 * 1024 };

/* What a connection waits for.
 *
 *	LOOKING   the target, which may be pausing or resuming: `obtaining`
 *	DIALLING  the target's agent, which connects: `link`
 *	OPEN      the connection's end, which the worker reports
 *	OVER      the same, after the worker was told to end it */
enum passage_state { LOOKING, DIALLING, OPEN, OVER };

struct passage {
	struct passage *next;
	struct between *owner;
	enum passage_state state;
	uint64_t id; /* the worker's */
	uint16_t port;
	int rule; /* of the other's allowIn */
	char target[SANDBOX_ID_BYTES];
	struct obtaining *obtaining;
	struct agent_link *link;
	struct gate_ticket places; /* of the target, while it is open */
	uint64_t begin_ms;	   /* since 1970 */
};

struct between {
	struct between *next; /* in fleet->between */
	struct fleet *fleet;
	struct between_caller caller;
	const struct between_ops *ops;
	void *arg;
	struct passage *passages;
	unsigned count;
	struct rate rate;
};

/* --- to the worker --- */

static void say(struct between *b, struct buf *line, int r, int fd)
{
	r = r ? r : buf_add_str(line, "}}");
	r = r ? r : buf_add_u8(line, 0);
	if (r == 0)
		b->ops->say(b->arg, (const char *)buf_head(line), fd);
	else
		cleanup_close_p(&fd); /* no memory: the worker gives up by itself */
	buf_done(line);
}

static int begin_line(struct buf *line, uint64_t id)
{
	return buf_printf(line, "{\"between\":{\"id\":%llu", (unsigned long long)id);
}

static void say_denied(struct between *b, uint64_t id, const char *why)
{
	struct buf line = BUF_INIT(LINE_MAX_BYTES);
	int r = begin_line(&line, id);

	r = r ? r : buf_add_str(&line, ",\"denied\":");
	r = r ? r : json_text_string(&line, why, strnlen(why, DENIAL_MAX_BYTES), JSON_TEXT_ASCII);
	say(b, &line, r, -1);
}

static void say_error(struct between *b, uint64_t id, const char *error)
{
	struct buf line = BUF_INIT(LINE_MAX_BYTES);
	int r = begin_line(&line, id);

	say(b, &line, r ? r : buf_printf(&line, ",\"error\":\"%s\"", error), -1);
}

static void say_over(struct between *b, uint64_t id)
{
	struct buf line = BUF_INIT(LINE_MAX_BYTES);

	say(b, &line, begin_line(&line, id), -1);
}

static int add_early(struct buf *line, const uint8_t *early, size_t n)
{
	_cleanup_free_ char *text = n ? malloc(base64_encoded_len(n) + 1) : NULL;

	if (n == 0)
		return 0;
	if (!text)
		return -ENOMEM;
	base64_encode(text, early, n);
	text[base64_encoded_len(n)] = '\0';
	return buf_printf(line, ",\"early\":\"%s\"", text);
}

static void say_open(const struct passage *p, int fd, const uint8_t *early, size_t n)
{
	struct buf line = BUF_INIT(LINE_MAX_BYTES);
	int r = begin_line(&line, p->id);

	r = r ? r : buf_printf(&line, ",\"to\":\"%s\"", p->target);
	say(p->owner, &line, r ? r : add_early(&line, early, n), fd);
}

/* --- the other sandbox's activity --- */

/* Seen from there: what came in went up in the worker. */
static void note(const struct passage *p, const char *verdict, uint64_t up, uint64_t down)
{
	const struct between *b = p->owner;
	struct instance *target = instance_find(b->fleet, p->target);
	char rule[32];
	json_t *flow;

	if (!target)
		return;
	(void)snprintf(rule, sizeof(rule), p->rule < 0 ? "allowIn" : "allowIn[%d]", p->rule);
	flow = json_pack("{s:I, s:I, s:I, s:s, s:s, s:s, s:i, s:I, s:I, s:s, s:s}", "begin",
		(json_int_t)p->begin_ms, "end", (json_int_t)(clock_realtime_ns() / NS_PER_MS),
		"generation", (json_int_t)target->network_generation, "proto", "tcp", "direction",
		"in", "sandbox", b->caller.id, "port", (int)p->port, "up", (json_int_t)down, "down",
		(json_int_t)up, "verdict", verdict, "rule", rule);
	if (flow)
		b->ops->note(target, flow);
	json_decref(flow);
}

/* --- the end of one --- */

static void drop(struct passage *p)
{
	struct passage **at = &p->owner->passages;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->owner->count--;
	p->owner->fleet->obtain_cancel(p->obtaining);
	agent_link_close(p->link);
	gate_leave(&p->places);
	free(p);
}

static void deny(struct passage *p, const char *why)
{
	say_denied(p->owner, p->id, why);
	drop(p);
}

static void fail(struct passage *p, const char *error)
{
	say_error(p->owner, p->id, error);
	drop(p);
}

/* Its end, which the worker tells, follows. */
static void stop(struct passage *p)
{
	p->state = OVER;
	say_over(p->owner, p->id);
}

static void end(struct passage *p, const json_t *said)
{
	json_int_t up = json_integer_value(json_object_get(said, "up")),
		   down = json_integer_value(json_object_get(said, "down"));
	bool reset = p->state == OVER || json_is_true(json_object_get(said, "reset"));

	if (p->state == OPEN || p->state == OVER)
		note(p, reset ? "reset" : "allowed", up > 0 ? (uint64_t)up : 0,
			down > 0 ? (uint64_t)down : 0);
	drop(p);
}

/* --- dialling --- */

/* Judges a connection again, because networks, the key or the target may have changed since it was
 * asked for. Returns why it must end, or NULL. */
static const char *judge_again(struct passage *p)
{
	struct between *b = p->owner;
	struct between_found found;
	const char *why = between_find(b->fleet, &b->caller, p->target, p->port, &found);

	if (strcmp(found.id, p->target) != 0)
		return "the sandbox has ended";
	p->rule = found.rule;
	if (why)
		note(p, "denied", 0, 0);
	return why;
}

static void hand_over(struct passage *p)
{
	_cleanup_free_ uint8_t *early = NULL;
	const char *why;
	size_t n = 0;
	int fd = agent_link_take_fd(p->link, &early, &n, &p->places);

	agent_link_close(p->link);
	p->link = NULL;
	if (fd < 0 || n > EARLY_MAX_BYTES) {
		cleanup_close_p(&fd);
		fail(p, "EHOSTUNREACH");
		return;
	}
	why = judge_again(p);
	if (why) {
		cleanup_close_p(&fd);
		deny(p, why);
		return;
	}
	p->state = OPEN;
	say_open(p, fd, early, n);
}

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct passage *p = arg;

	(void)l; /* p has it */
	if (ev->type == AGENT_OK)
		hand_over(p);
	else if (ev->type == AGENT_ERROR && ev->error.class == AGENT_ERR_LIMIT)
		deny(p, "the sandbox serves too many connections");
	else
		fail(p, ev->type == AGENT_ERROR && ev->error.class == AGENT_ERR_REFUSED
				? "ECONNREFUSED"
				: "EHOSTUNREACH");
}

static void on_lost(struct agent_link *l, const struct error *why, void *arg)
{
	(void)l; /* p has it */
	if (why->code == ERROR_TOO_MANY)
		deny(arg, "the sandbox serves too many connections");
	else
		fail(arg, "EHOSTUNREACH");
}

static void dial(struct passage *p, struct instance *i)
{
	static const struct agent_link_ops ops = {on_event, NULL, on_lost};
	const struct agent_dial m = {.port = p->port};
	int r;

	p->state = DIALLING;
	r = instance_agent_connect(i, LINK_SINGLE, &ops, p, &p->link, NULL);
	if (r == 0)
		r = agent_request(agent_link_conn(p->link), AGENT_DIAL, &m, NULL);
	if (r < 0)
		fail(p, "EHOSTUNREACH");
	else
		agent_link_send(p->link);
}

static void on_obtained(void *arg, struct instance *i, bool resumed, const struct error *why)
{
	struct passage *p = arg;
	const char *refusal;

	(void)resumed; /* either way */
	p->obtaining = NULL;
	refusal = i ? judge_again(p) : why->message;
	if (refusal)
		deny(p, refusal);
	else
		dial(p, i);
}

/* --- asking --- */

struct counts {
	unsigned all, of_key, to_target;
};

static struct counts count(const struct passage *of)
{
	struct counts n = {0};

	for (const struct between *b = of->owner->fleet->between; b; b = b->next) {
		n.all += b->count;
		if (strcmp(b->caller.key_id, of->owner->caller.key_id) != 0)
			continue; /* and to none of its sandboxes */
		n.of_key += b->count;
		for (const struct passage *p = b->passages; p; p = p->next)
			n.to_target += strcmp(p->target, of->target) == 0;
	}
	return n;
}

/* Why there cannot be one more, or NULL. p is one already. */
static const char *too_many(const struct passage *p)
{
	struct counts n = count(p);

	if (p->owner->count > BETWEEN_OF_CALLER)
		return "this sandbox has too many connections to others";
	if (n.to_target > BETWEEN_TO_TARGET)
		return "the sandbox has too many connections from others";
	if (n.of_key > BETWEEN_OF_KEY)
		return "this key has too many connections between sandboxes";
	return n.all > BETWEEN_ALL ? "this host has too many connections between sandboxes" : NULL;
}

static void ask(struct passage *p, const char *to)
{
	struct obtaining *obtaining;
	struct between_found found;
	struct between *b = p->owner;
	const char *why = between_find(b->fleet, &b->caller, to, p->port, &found);

	p->rule = found.rule;
	memcpy(p->target, found.id, sizeof(p->target));
	if (why && found.id[0])
		note(p, "denied", 0, 0);
	why = why ? why : too_many(p);
	if (why) {
		deny(p, why);
		return;
	}
	b->fleet->obtain(b->fleet, p->target, found.resumes, on_obtained, p, &obtaining);
	if (obtaining)
		p->obtaining = obtaining; /* else p may be gone */
}

/* The worker reports a connection that an earlier daemon has opened. It counts like the others. */
static void adopt(struct passage *p, const char *to)
{
	struct between_found found;
	struct between *b = p->owner;
	const char *why = between_find(b->fleet, &b->caller, to, p->port, &found);

	p->rule = found.rule;
	memcpy(p->target, found.id, sizeof(p->target));
	p->state = OPEN;
	if (too_many(p)) {
		say_over(b, p->id);
		drop(p);
	} else if (why || !instance_find(b->fleet, p->target)) {
		stop(p);
	}
}

static struct passage *find(const struct between *b, uint64_t id)
{
	struct passage *p = b->passages;

	while (p && p->id != id)
		p = p->next;
	return p;
}

static void begin(struct between *b, uint64_t id, const json_t *said)
{
	const char *to = json_string_value(json_object_get(said, "to"));
	json_int_t port = json_integer_value(json_object_get(said, "port"));
	struct passage *p;

	if (!to || port < 1 || port > UINT16_MAX)
		return;
	p = calloc(1, sizeof(*p));
	if (!p) {
		say_error(b, id, "EHOSTUNREACH");
		return;
	}
	*p = (struct passage){.next = b->passages,
		.owner = b,
		.id = id,
		.port = (uint16_t)port,
		.rule = -1,
		.begin_ms = clock_realtime_ns() / NS_PER_MS};
	b->passages = p;
	b->count++;
	if (json_is_true(json_object_get(said, "open")))
		adopt(p, to);
	else
		ask(p, to);
}

/* Each question reads rows of the store, also one that is denied. */
static bool may_ask(struct between *b)
{
	uint64_t now = clock_monotonic_ns();

	return rate_take(&b->rate, BETWEEN_PER_SECOND, now) &&
	       key_rates_take(&b->fleet->between_asks, b->caller.key_id, BETWEEN_KEY_PER_SECOND,
		       BETWEEN_ALL_PER_SECOND, now);
}

void between_take(struct between *b, const json_t *said)
{
	json_int_t id = json_integer_value(json_object_get(said, "id"));
	struct passage *p;

	if (id < 1)
		return;
	p = find(b, (uint64_t)id);
	if (json_is_true(json_object_get(said, "end"))) {
		if (p)
			end(p, said);
	} else if (!p && !may_ask(b)) {
		say_error(b, (uint64_t)id, "ECONNREFUSED");
	} else if (!p) { /* else it was told twice */
		begin(b, (uint64_t)id, said);
	}
}

/* --- changes --- */

/* Calls over for each that is open to the sandbox. */
static void each_to(const struct instance *target, bool (*is_over)(const struct passage *p))
{
	for (struct between *b = target->fleet->between; b; b = b->next)
		for (struct passage *p = b->passages; p; p = p->next)
			if (p->state == OPEN && strcmp(p->target, target->sandbox.id) == 0 &&
				is_over(p))
				stop(p);
}

static bool is_refused(const struct passage *p)
{
	struct between_found found;

	return between_find(p->owner->fleet, &p->owner->caller, p->target, p->port, &found);
}

static bool always(const struct passage *p)
{
	(void)p; /* whichever it is */
	return true;
}

void between_judge(const struct instance *target)
{
	each_to(target, is_refused);
}

void between_target_gone(const struct instance *target)
{
	each_to(target, always);
}

/* --- of a caller --- */

struct between *between_open(
	const struct instance *caller, const struct between_ops *ops, void *arg)
{
	struct between *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	*b = (struct between){
		.next = caller->fleet->between, .fleet = caller->fleet, .ops = ops, .arg = arg};
	(void)snprintf(b->caller.id, sizeof(b->caller.id), "%s", caller->sandbox.id); /* as long */
	(void)snprintf(b->caller.key_id, sizeof(b->caller.key_id), "%s", caller->key_id);
	b->fleet->between = b;
	return b;
}

void between_close(struct between *b)
{
	struct between **at;
	struct passage *p;

	if (!b)
		return;
	for (at = &b->fleet->between; *at != b;)
		at = &(*at)->next;
	*at = b->next;
	while ((p = b->passages)) {
		if ((p->state == OPEN || p->state == OVER) && !b->fleet->stopping)
			note(p, "reset", 0, 0); /* else it goes on */
		drop(p);
	}
	free(b);
}
