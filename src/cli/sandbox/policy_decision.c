#include "cli/sandbox/policy_decision.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "network/approval_question.h"
#include "policy/rule_digest.h"
#include "proto/json_tree.h"
#include "proto/timestamp.h"
#include "rules/call_asked.h"

void policy_decision_digest(const char *path, size_t n, char out[POLICY_DECISION_DIGEST])
{
	uint8_t digest[EVP_MAX_MD_SIZE];

	out[0] = '\0';
	if (EVP_Digest(path, n, digest, NULL, EVP_sha256(), NULL))
		str_hex(digest, 32, out);
}

/* Of a request: what the rule that asks reads of its body. */
static int say_call(json_t *said, const struct rules_rule *rule, const struct rules_question *q)
{
	struct call_asked asked;

	if (call_asked_make(rule, q->call, &asked) < 0)
		return -1;
	return asked.api ? json_object_set_new(said, "callDigest", json_string(asked.digest)) : 0;
}

/* What a worker says of it when it asks. */
static json_t *said_of(const char *id, const struct rules_rule *rule,
	const struct rules_question *q, const char *path_digest)
{
	char address[NET_TEXT_BYTES];
	json_t *said = json_pack("{s:s, s:i, s:s}", "rule", id, "port", (int)q->port,
		q->name ? "host" : "address", q->name ? q->name : net_format(q->address, address));
	json_t *request = q->kind == RULES_REQUEST ? json_pack("{s:s, s:s, s:s}", "scheme",
							     q->tls ? "https" : "http", "method",
							     q->method, "pathDigest", path_digest)
						   : NULL;

	if (request && (json_object_update(said, request) < 0 || say_call(said, rule, q) < 0)) {
		json_decref(said);
		said = NULL;
	}
	json_decref(request);
	return said;
}

/* The hash by which decisions are found (store/approvals.h), in hexadecimal. */
static bool target_of(
	json_t *document, const char *id, const json_t *said, char out[2 * STORE_APPROVAL_HASH + 1])
{
	const struct network_floors none = {.all = NULL};
	json_t *network = json_pack("{s:O}", "policy", document);
	struct rule_digests *rules = rule_digests_new(&none, network);
	struct approval_question q = {.text = NULL};
	uint8_t digest[RULE_DIGEST_BYTES];
	bool good = false;

	if (rules) {
		rule_digests_get(rules, id, digest);
		good = approval_question_make(said, NULL, NULL, digest, &q) == 0;
	}
	if (good)
		str_hex(q.target, sizeof(q.target), out);
	approval_question_done(&q);
	rule_digests_free(rules);
	json_decref(network);
	return good;
}

static bool holds(const json_t *decision, const char *target)
{
	const char *until = json_tree_text(decision, "expires");
	uint64_t end_ns = UINT64_MAX;

	if (*until && timestamp_parse_ns(until, &end_ns) < 0)
		return false;
	return end_ns > clock_realtime_ns() &&
	       strcmp(json_tree_text(decision, "target"), target) == 0;
}

const json_t *policy_decision_find(const json_t *decisions, json_t *document,
	const struct rules_rule *rule, const struct rules_question *q, const char *path_digest)
{
	const char *id = rules_id(rule);
	json_t *said = json_array_size(decisions) ? said_of(id, rule, q, path_digest) : NULL;
	char target[2 * STORE_APPROVAL_HASH + 1];
	const json_t *found = NULL;

	if (said && target_of(document, id, said, target))
		for (size_t i = 0; !found && i < json_array_size(decisions); i++)
			if (holds(json_array_get(decisions, i), target))
				found = json_array_get(decisions, i);
	json_decref(said);
	return found;
}
