/* One connection of a fuzz target of exchanges: what both protocols check of requests. */
#ifndef TESTS_EXCHANGE_PLAY_H
#define TESTS_EXCHANGE_PLAY_H

#include "../unit/exchange_fixture.h"
#include "fuzz.h"
#include "rules/call.h"

struct play {
	struct fixture f;
	struct buf wait[2]; /* of HTTP/1.1 */
	const char *host;   /* of HTTP/2 */
	unsigned judged, heads;
	unsigned least_status; /* of a request that was allowed */
};

static inline struct exchange_verdict play_judge(void *arg, const struct exchange_request *r)
{
	struct play *p = arg;
	unsigned api = call_api_of_path(r->path);

	check(r->method[0] && r->path[0]);
	if (fixture_is_for(r, "/no"))
		return (struct exchange_verdict){EXCHANGE_DENY, "no", NULL};
	if (!r->call && (api || r->form))
		return (struct exchange_verdict){
			.action = EXCHANGE_READ, .body = api | (r->form ? CALL_FORM : 0)};
	if (r->call && api && r->call->unclear)
		return (struct exchange_verdict){EXCHANGE_DENY, "body", r->call->unclear};
	if (r->call && r->two_methods)
		return (struct exchange_verdict){EXCHANGE_DENY, "form", "two methods"};
	p->judged++;
	return (struct exchange_verdict){.action = EXCHANGE_ALLOW};
}

static inline void play_record(void *arg, const struct exchange_record *r)
{
	struct play *p = arg;

	check(strcmp(r->verdict, "allowed") == 0 ? r->status >= p->least_status && !r->reason
						 : r->reason != NULL);
	fixture_record(&p->f, r);
}

#endif
