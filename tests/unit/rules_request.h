/* A request that tests let rules judge. */
#ifndef TESTS_RULES_REQUEST_H
#define TESTS_RULES_REQUEST_H

#include <string.h>

#include "rules/call.h"
#include "rules/rules.h"

/* POST https://api.test with that path and body. Reads the body if the rules want that: then
 * *reader has what q->call is, and the caller frees it. Else it is NULL. */
static inline struct rules_verdict rules_request_judge(const struct rules *r, const char *path,
	const char *body, struct rules_question *q, struct call_reader **reader)
{
	struct rules_verdict v;

	*q = (struct rules_question){.kind = RULES_REQUEST,
		.name = "api.test",
		.port = 443,
		.tls = true,
		.method = "POST",
		.path = path,
		.has_body = true};
	*reader = NULL;
	v = rules_judge(r, q);
	if (!v.body)
		return v;
	*reader = call_reader_new(v.body, path, NULL);
	assert_non_null(*reader);
	(void)call_reader_feed(*reader, body, strlen(body));
	q->call = call_reader_end(*reader);
	return rules_judge(r, q);
}

#endif
