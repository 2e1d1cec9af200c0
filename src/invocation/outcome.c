#include "invocation/outcome.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "proto/json_text.h"

enum { STATUS_SIGNAL = 128, SIGNAL_KILL = 9, HOW_MAX = 128 };

static const struct {
	const char *name;
	unsigned status;
} codes[INVOCATION_CODES_] = {
	[INVOCATION_OK] = {"ok", 200},
	[INVOCATION_FAILED] = {"agent_failed", 502},
	[INVOCATION_TIMEOUT] = {"timeout", 504},
	[INVOCATION_OUT_OF_MEMORY] = {"out_of_memory", 507},
	[INVOCATION_NO_ANSWER] = {"no_answer", 502},
	[INVOCATION_NETWORK_DENIED] = {"network_denied", 424},
	[INVOCATION_NOT_STARTED] = {"not_started", 500},
	[INVOCATION_CRASHED_AT_START] = {"crashed_at_start", 500},
	[INVOCATION_SANDBOX_ENDED] = {"sandbox_ended", 502},
	[INVOCATION_NO_SANDBOX] = {"no_sandbox", 503},
	[INVOCATION_BUSY] = {"busy", 429},
	[INVOCATION_CANCELLED] = {"cancelled", 499},
	[INVOCATION_INTERRUPTED] = {"interrupted", 503},
};

const char *invocation_code_name(enum invocation_code code)
{
	return (unsigned)code < INVOCATION_CODES_ ? codes[code].name : "unknown";
}

unsigned invocation_http_status(enum invocation_code code)
{
	return (unsigned)code < INVOCATION_CODES_ ? codes[code].status : 500;
}

/* A guest's words may be in it. */
static void make_utf8(char *s, size_t n)
{
	while (n) {
		size_t one = json_text_sequence(s, n);

		if (!one) {
			*s = '?';
			one = 1;
		}
		s += one;
		n -= one;
	}
}

void outcome_set(struct outcome *o, enum invocation_code code, const char *fmt, ...)
{
	char text[OUTCOME_MESSAGE_MAX + 4]; /* with the whole character that is cut */
	size_t n;
	va_list ap;

	o->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* a longer one is cut */
	va_end(ap);
	n = str_cut(text, strlen(text), sizeof(o->message) - 1);
	memcpy(o->message, text, n);
	o->message[n] = '\0';
	make_utf8(o->message, n);
}

static bool says(const struct outcome_facts *f, const char *words)
{
	return f->errors_bytes && memmem(f->errors, f->errors_bytes, words, strlen(words));
}

/* Runtimes that stop themselves say so. */
static bool lacked_memory(const struct outcome_facts *f, bool killed)
{
	return (killed && f->oom) || says(f, "heap out of memory") || says(f, "\nMemoryError") ||
	       says(f, "java.lang.OutOfMemoryError");
}

/* fmt: what the program did, "ended with status 3". */
__attribute__((format(printf, 5, 6))) static void set_failure(struct outcome *o,
	const struct outcome_facts *f, enum invocation_code code, const char *advice,
	const char *fmt, ...)
{
	char what[HOW_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap); /* fits */
	va_end(ap);
	if (f->denied)
		outcome_set(o, INVOCATION_NETWORK_DENIED,
			"the agent's program %s after its network denied it %.128s (%.128s): allow "
			"that host in its network, or do without it",
			what, f->denied, f->denied_rule);
	else
		outcome_set(o, code, "the agent's program %s: %s", what, advice);
}

static void set_failed(
	struct outcome *o, const struct agent_exit *exit, const struct outcome_facts *f)
{
	bool by_signal = exit->flags & AGENT_EXIT_SIGNALED;
	const char *how = by_signal ? "was ended by signal" : "ended with status";

	if (!by_signal && !f->printed && (exit->status == 126 || exit->status == 127))
		set_failure(o, f, INVOCATION_NOT_STARTED,
			"its command is not found or cannot be run; deploy it with another one",
			"%s %u", how, exit->status);
	else if (f->before && !f->printed)
		set_failure(o, f, INVOCATION_CRASHED_AT_START,
			"repair what the end of its standard error shows, and deploy it again",
			"%s %u before %s", how, exit->status, f->before);
	else
		set_failure(o, f, INVOCATION_FAILED, "see the end of its standard error", "%s %u",
			how, exit->status);
}

void outcome_of_exit(
	struct outcome *o, const struct agent_exit *exit, const struct outcome_facts *f)
{
	bool by_signal = exit->flags & AGENT_EXIT_SIGNALED;
	bool killed = by_signal ? exit->status == SIGNAL_KILL
				: exit->status == STATUS_SIGNAL + SIGNAL_KILL;
	char memory[16];

	*o = (struct outcome){.status = (int64_t)exit->status + (by_signal ? STATUS_SIGNAL : 0)};
	if (o->status == 0 && f->printed)
		return;
	if (o->status == 0)
		outcome_set(o, INVOCATION_NO_ANSWER,
			"the agent's program ended with status 0 but wrote nothing to its standard "
			"output: write the answer there");
	else if (lacked_memory(f, killed))
		outcome_set(o, INVOCATION_OUT_OF_MEMORY,
			"the agent needed more than its %s of memory: deploy it with more "
			"(--memory)",
			str_format_bytes(f->memory_bytes, memory));
	else
		set_failed(o, exit, f);
}

void outcome_of_answer(struct outcome *o, unsigned status, const struct outcome_facts *f)
{
	*o = (struct outcome){.status = -1};
	set_failure(o, f, INVOCATION_FAILED,
		"see the end of its standard error, which has this answer",
		"answered with status %u", status);
}

void outcome_timeout(struct outcome *o, const struct outcome_facts *f)
{
	*o = (struct outcome){.status = -1};
	set_failure(o, f, INVOCATION_TIMEOUT,
		"give it more time (timeout), or find out why its program waits",
		"did not end within %.3g s%s", (double)f->timeout_ns / (double)NS_PER_S,
		f->printed ? "" : " and printed nothing");
}
