#include "catalog/runtime_words.h"

#include <stdio.h>

enum { COMMAND_MAX = 192, WHERE_MAX = RUNTIME_PHASE_MAX + 32 };

/* " (packages, 40 %)", as far as that is known. */
static void say_where(const struct runtime_status *s, char out[WHERE_MAX])
{
	out[0] = '\0';
	if (*s->phase && s->percent >= 0)
		(void)snprintf(out, WHERE_MAX, " (%s, %d %%)", s->phase, s->percent); /* fits */
	else if (*s->phase)
		(void)snprintf(out, WHERE_MAX, " (%s)", s->phase); /* fits */
}

/* What the operator can do. */
static void say_command(const struct runtime *rt, char out[COMMAND_MAX])
{
	(void)snprintf(out, COMMAND_MAX, "`mayfly template build %s%s%s`", rt->template,
		rt->image ? " --from " : "", rt->image ? rt->image : ""); /* may be cut */
}

void runtime_say_missing(
	const struct fleet *f, const struct runtime *rt, char out[RUNTIME_WORDS_MAX])
{
	char command[COMMAND_MAX];

	say_command(rt, command);
	if (runtime_builds_allowed(f))
		(void)snprintf(out, RUNTIME_WORDS_MAX,
			"template '%s' not found: it is built when a sandbox or an agent asks for "
			"it",
			rt->template); /* fits; so below */
	else
		(void)snprintf(out, RUNTIME_WORDS_MAX,
			"template '%s' not found: the operator of this host makes it with %s, or "
			"starts `mayfly serve` with --build-runtimes",
			rt->template, command);
}

void runtime_say_coming(
	const struct runtime *rt, const struct runtime_status *s, char out[RUNTIME_WORDS_MAX])
{
	bool waits = s->state == RUNTIME_WAITING;
	char where[WHERE_MAX];

	say_where(s, where);
	(void)snprintf(out, RUNTIME_WORDS_MAX, "runtime '%s' %s%s", rt->name,
		waits ? "waits to be built" : "is being built", waits ? "" : where);
}

void runtime_say_failed(
	const struct runtime *rt, const struct runtime_status *s, char out[RUNTIME_WORDS_MAX])
{
	(void)snprintf(out, RUNTIME_WORDS_MAX,
		"runtime '%s' could not be built: %s. It is tried again in %u s at the earliest",
		rt->name, s->reason, s->again_s);
}
