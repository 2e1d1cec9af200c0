#include "egress/answers.h"

#include <stdio.h>
#include <string.h>

#include "base/place.h"
#include "egress/names_report.h"
#include "egress/record.h"
#include "egress/why.h"
#include "rules/between_name.h"

enum {
	TTL_NAME_S = 60, /* of an address that stands for a name: the policy may change */
	TTL_MAX_S = 300,
};

/* --- addresses that stand for names --- */

static void give_name(struct context *c, const char *name, struct dns_answer *ret)
{
	bool is_new;
	uint32_t address = names_address(c->names, name, &is_new);

	if (is_new)
		names_report(c);
	*ret = (struct dns_answer){.addresses = {address}, .count = 1, .ttl_s = TTL_NAME_S};
}

/* --- an answer from upstream --- */

static void keep_open_places(const struct policy *p, struct dns_answer *a)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < a->count; i++) {
		enum place place = place_of(a->addresses[i], NULL);

		if (place == PLACE_PUBLIC ||
			(place != PLACE_CLOSED && policy_opens(p, a->addresses[i])))
			a->addresses[kept++] = a->addresses[i];
	}
	a->count = kept;
}

static void judge_answer(struct answers_ask *a, struct dns_answer *answer)
{
	struct context *c = a->context;

	keep_open_places(c->policy, answer);
	if (answer->ttl_s > TTL_MAX_S)
		answer->ttl_s = TTL_MAX_S;
	if (answer->rcode == DNS_NOERROR && answer->count && c->policy->names)
		give_name(c, a->question.name, answer);
}

static void on_answer(void *arg, const struct dns_answer *answer)
{
	struct answers_ask *a = arg;
	struct dns_answer copy = *answer;

	judge_answer(a, &copy);
	a->done(a->arg, &copy);
}

/* --- questions --- */

static enum answers_step deny(
	struct context *c, const struct dns_question *q, const char *rule, struct dns_answer *ret)
{
	char reason[POLICY_ID_MAX + 32];

	(void)snprintf(reason, sizeof(reason), "the name is denied: rule %s", rule); /* fits */
	record_send(c, &(struct record){.proto = "dns",
			       .verdict = "denied",
			       .rule = rule,
			       .reason = reason,
			       .name = q->name,
			       .port = DNS_PORT,
			       .generation = c->policy->generation,
			       .begin_ms = record_now_ms()});
	ret->rcode = DNS_NXDOMAIN;
	return ANSWERS_NOW;
}

static enum answers_step answer_reverse(
	struct context *c, const struct dns_question *q, struct dns_answer *ret)
{
	uint32_t address;

	if (dns_parse_reverse(q->name, &address) == 0 && place_is_synthetic(address))
		ret->name = address == WHY_ADDRESS ? WHY_NAME : names_name(c->names, address);
	ret->ttl_s = TTL_NAME_S;
	ret->rcode = ret->name ? DNS_NOERROR : DNS_NXDOMAIN;
	return ANSWERS_NOW;
}

/* The worker itself: whatever the policy says. */
static enum answers_step answer_why(const struct dns_question *q, struct dns_answer *ret)
{
	if (q->type == DNS_A)
		*ret = (struct dns_answer){
			.addresses = {WHY_ADDRESS}, .count = 1, .ttl_s = TTL_NAME_S};
	return ANSWERS_NOW;
}

/* A port of another sandbox. It is judged when a connection comes: then its program can be told
 * why not. */
static enum answers_step answer_between(
	struct context *c, const struct dns_question *q, struct dns_answer *ret)
{
	char to[BETWEEN_LABEL_BYTES];
	uint16_t port;

	if (between_name_parse(q->name, &port, to) < 0)
		ret->rcode = DNS_NXDOMAIN;
	else if (q->type == DNS_A)
		give_name(c, q->name, ret);
	return ANSWERS_NOW;
}

static enum answers_step answer_address(
	struct context *c, struct answers_ask *a, struct dns_answer *ret)
{
	if (policy_host(c->policy, a->question.name)) {
		give_name(c, a->question.name, ret);
		return ANSWERS_NOW;
	}
	a->ask = (struct resolver_ask){.done = on_answer, .arg = a};
	if (!resolver_ask(c->resolver, &a->ask, a->question.name, ret))
		return ANSWERS_LATER;
	judge_answer(a, ret);
	return ANSWERS_NOW;
}

enum answers_step answers_begin(struct context *c, struct answers_ask *a, const void *data,
	size_t n, struct dns_answer *ret)
{
	struct dns_question *q = &a->question;
	int r = dns_get_question(data, n, q);
	struct policy_verdict v;

	a->context = c;
	a->ask.query = NULL;
	*ret = (struct dns_answer){.rcode = r > 0 ? (enum dns_rcode)r : DNS_NOERROR};
	if (r != DNS_NOERROR)
		return r < 0 ? ANSWERS_NONE : ANSWERS_NOW;
	if (!c->policy ||
		!rate_take(&c->dns_rate, c->policy->limits.dns_per_second, c->loop.now_ns)) {
		ret->rcode = DNS_SERVFAIL;
		return ANSWERS_NOW;
	}
	if (q->type == DNS_PTR)
		return answer_reverse(c, q, ret);
	if (!q->plain || !policy_is_host(q->name)) {
		ret->rcode = q->name[0] ? DNS_NXDOMAIN : DNS_NOERROR;
		return ANSWERS_NOW;
	}
	if (strcmp(q->name, WHY_NAME) == 0)
		return answer_why(q, ret);
	if (between_name_is(q->name))
		return answer_between(c, q, ret);
	v = policy_judge_name(c->policy, q->name);
	if (!v.allow)
		return deny(c, q, v.rule, ret);
	return q->type == DNS_A ? answer_address(c, a, ret) : ANSWERS_NOW;
}

void answers_cancel(struct answers_ask *a)
{
	resolver_cancel(&a->ask);
}
