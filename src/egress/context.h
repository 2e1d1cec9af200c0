/* What all flows of the worker share. */
#ifndef EGRESS_CONTEXT_H
#define EGRESS_CONTEXT_H

#include "egress/denials.h"
#include "egress/link.h"
#include "egress/loop.h"
#include "egress/names.h"
#include "egress/policy.h"
#include "egress/proxy_trust.h"
#include "egress/pump.h"
#include "base/rate.h"
#include "egress/resolver.h"
#include "intercept/http2_memory.h"

struct between;
struct consent;
struct tls_kit;
struct wrap;

/* Since the daemon was last told (counts.h). */
struct context_counts {
	uint64_t up, down; /* bytes */
	uint64_t allowed, failed, denied, reset;
};

enum context_full { CONTEXT_NOT_FULL, CONTEXT_KEY_FULL, CONTEXT_HOST_FULL };

/* Flows that the daemon lends (lease.h). */
struct context_lease {
	bool limited; /* the daemon has said so */
	bool asked;   /* its answer is to come */
	unsigned lent, waiting;
	enum context_full full; /* what the last answer said */
	uint64_t rest_until_ns;
};

struct context {
	struct loop loop;
	struct link link;
	struct policy *policy; /* NULL: none has come yet, so nothing is allowed */
	struct names *names;
	struct resolver *resolver;
	struct tls_kit *tls_kit; /* NULL: the policy intercepts nothing */
	struct proxy_trust proxy_trust;
	struct loop_timer kit_timer; /* runs while tls_kit and proxy_trust are being made */
	struct wrap *wraps_left;     /* wrap.h */
	unsigned wraps_left_count;
	int root_fds[2];	    /* files of trusted authorities (trust.h); -1: none */
	unsigned middles;	    /* intercepted connections */
	struct http2_budget budget; /* for their heads */
	unsigned middle_idle_ms;  /* for tests: how long each may be silent; 0: as middle.h says */
	struct between *between;  /* connections to other sandboxes (between.h) */
	uint64_t between_ids;	  /* given out */
	struct consent *consents; /* waiting questions (consent.h) */
	uint64_t consent_ids;	  /* given out */
	unsigned consent_count;
	struct loop_timer consent_timer; /* runs until the daemon was told of all */
	struct loop_timer names_timer;	 /* names_report.h */
	uint64_t names_told_ns;
	struct rate flow_rate, dns_rate, record_rate;
	struct context_counts counts;
	struct loop_timer counts_timer;
	struct denials denials;
	uint64_t denials_told; /* changes when the daemon was told them */
	uint64_t records_lost; /* since the daemon was last told */
	unsigned active;       /* flows that passed the limits, and peers of datagrams */
	struct context_lease lease;
	uint64_t last_active_ns;
	struct pump_means means;
};

#endif
