/* Shared by flow.c and flow_request.c (requests of a flow). */
#ifndef EGRESS_FLOW_INTERNAL_H
#define EGRESS_FLOW_INTERNAL_H

#include "egress/between.h"
#include "egress/consent.h"
#include "egress/dial.h"
#include "egress/first_bytes.h"
#include "egress/flow.h"
#include "egress/middle.h"
#include "egress/record.h"
#include "egress/target.h"
#include "egress/tunnel.h"
#include "proto/egress_wire.h"

/* What a flow waits for.
 *
 *	HEADER	 the guest's header. Leads to all others
 *	LEASE	 the daemon, for room for one more flow. Goes on as from HEADER
 *	RESOLVE	 the addresses of its name: `ask`. To DIAL, or to CONSENT
 *	CONSENT	 a person: `consent`. The guest was told that it waits. To DIAL
 *	BETWEEN	 the daemon, for a connection to another sandbox: `between`. To HELLO, or to WHY
 *	DIAL	 a server: `dial`, or `tunnel`. To OPEN, or to HELLO if it was asked for by name
 *	HELLO	 the guest's first bytes: `first`; the server's already go to it: `down`, `remote`.
 *		 To OPEN, to RECORDS, or to INTERCEPTED where rules are for its requests
 *	RECORDS	 what follows its TLS hello, in which a second one may be: `first`. To OPEN
 *	OPEN	 bytes on either side: `up`, `down`, `remote`
 *	INTERCEPTED  what `middle` does with both sides
 *	DNS	 questions: `dns`
 *	WHY	 why flows were denied, or this one: `why`
 *
 * From each of them a flow may end (end). The guest's socket is watched in all. */
enum flow_state {
	HEADER,
	LEASE,
	RESOLVE,
	CONSENT,
	BETWEEN,
	DIAL,
	HELLO,
	RECORDS,
	OPEN,
	INTERCEPTED,
	DNS,
	WHY,
};

struct flow {
	struct flows *flows;
	struct flow *previous, *next;
	enum flow_state state;
	bool counted; /* among the active ones */
	bool guest_gone;
	bool forbidden; /* by a new policy, which ends it */
	struct loop_watch guest, remote;
	struct loop_timer timer;
	uint8_t head[EGRESS_OPEN_MAX];
	unsigned head_bytes;
	struct egress_open open;
	struct target target;
	struct resolver_ask ask;
	struct consent consent;
	struct dial dial;
	struct tunnel *tunnel;	/* instead of dial, if there are proxies */
	struct wrap *wrap;	/* TLS with a proxy, around `remote`; or NULL */
	struct between between; /* instead of dial, for another sandbox */
	struct dns_stream *dns;
	struct why_stream *why;
	struct first_bytes first;
	struct middle *middle;
	struct flow_held *held; /* its requests that wait for a person (flow_request.c) */
	/* Of the verdict about its last request; until the next one, or another policy. */
	const struct rules_rule *budgets[POLICY_LAYERS_MAX];
	unsigned budget_count;
	bool tls;	 /* its first bytes were TLS for its name */
	bool reads_host; /* its requests, which no rule judges, must be for its name */
	uint32_t dialled;
	struct pump up, down;
	uint64_t begin_ms, told_up, told_down;
};

struct flows {
	struct context *context;
	struct flow *first;
	unsigned count;
	void (*on_datagrams)(void *arg, int fd);
	void *arg;
};

/* ---- flow.c ---- */

struct record flow_record_of(const struct flow *f, const char *verdict);
void flow_close_remote(struct flow *f, bool reset);

/* ---- flow_request.c ---- */

/* For struct middle_options; arg is the flow. */
struct exchange_verdict flow_judge_request(void *arg, const struct exchange_request *q);
bool flow_shows_tool(void *arg, const char *path, const char *tool);
void flow_record_request(void *arg, const struct exchange_record *q);
const char *flow_ask_request(void *arg, const struct exchange_question *q);
void flow_unask_request(void *arg, uint64_t id, bool judged);
const char *flow_redial(void *arg);

#endif
