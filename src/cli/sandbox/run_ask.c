#include "cli/sandbox/run_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/clean.h"
#include "cli/question.h"
#include "cli/terminal.h"
#include "network/approval_question.h"
#include "network/approvals.h"
#include "network/direct_network.h"
#include "proto/json_tree.h"

enum {
	ALLOWED_MAX = 1024, /* targets; one more is allowed once only */
	LINES_MAX = 16,	    /* about what is denied without a person */
	CONTROL_C = 3,
};

#define KEYS " a allow once, s allow for this sandbox, d deny, q deny all from now on: "
#define SURE " y allow it all the same, d deny, q deny all: "
/* Attributes and character sets that a guest's output has chosen would hide the question. */
#define PLAIN "\033[0m\033(B\017"

enum decision { OPEN, ALLOW, DENY };

/* A flow or request that waits. */
struct waiting {
	json_int_t worker, id;
	struct approval_question question;
	enum decision decision; /* not OPEN: the worker is still to be told */
	const char *reason;	/* of a denial, or NULL */
};

struct target {
	uint8_t hash[STORE_APPROVAL_HASH];
};

struct run_ask {
	struct run_ask_options o;
	int tty;	    /* -1: there is none */
	struct waiting *at; /* the oldest first */
	size_t count;
	struct target *allowed;
	size_t allowed_count;
	bool shown;	   /* the first that is open is on the terminal */
	bool raw;	   /* the terminal is so for a key */
	bool held;	   /* hold(true) was called last */
	char sure;	   /* the key that is to be confirmed; 0: none */
	const char *never; /* all is denied from now on, and why; or NULL */
	unsigned lines;
	char message[DIRECT_QUESTION_MAX + 1];
};

/* --- what waits --- */

static struct waiting *first_open(struct run_ask *a)
{
	for (size_t i = 0; i < a->count; i++)
		if (a->at[i].decision == OPEN)
			return &a->at[i];
	return NULL;
}

static void forget(struct run_ask *a, struct waiting *w)
{
	approval_question_done(&w->question);
	a->count--;
	memmove(w, w + 1, (size_t)(a->at + a->count - w) * sizeof(*w));
}

/* Returns false if it must be told again. */
static bool tell(const struct run_ask *a, const struct waiting *w)
{
	json_t *answer = json_pack("{s:I, s:{s:I, s:s, s:s*}}", "worker", w->worker, "ask", "id",
		w->id, "decision", w->decision == ALLOW ? "allow" : "deny", "reason", w->reason);
	_cleanup_free_ char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
	bool told = text && (send(a->o.fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
				    errno != EAGAIN);

	json_decref(answer);
	return told;
}

/* Tells the workers as many decisions as they take now. Returns whether all were told. */
static bool tell_decisions(struct run_ask *a)
{
	for (size_t i = 0; i < a->count;) {
		if (a->at[i].decision == OPEN) {
			i++;
			continue;
		}
		if (!tell(a, &a->at[i]))
			return false;
		forget(a, &a->at[i]);
	}
	return true;
}

static bool is_owed(const struct run_ask *a)
{
	for (size_t i = 0; i < a->count; i++)
		if (a->at[i].decision != OPEN)
			return true;
	return false;
}

/* --- the terminal --- */

static void print(const struct run_ask *a, const char *text)
{
	(void)fd_write_full(a->tty, text, strlen(text)); /* one that hung up is seen by its read */
}

static void leave_terminal(struct run_ask *a, const char *last)
{
	a->shown = false;
	print(a, last);
	if (a->raw)
		terminal_restore();
	a->raw = false;
}

/* Why a person cannot be asked, or NULL. */
static const char *nobody(const struct run_ask *a)
{
	if (a->never)
		return a->never;
	if (a->tty < 0)
		return "there is no terminal to ask on";
	return tcgetpgrp(a->tty) == getpgrp() ? NULL : "mayfly run is in the background";
}

/* The reason of a rule of the sandbox's policy, or NULL. */
static json_t *reason_of(const struct run_ask *a, const char *rule)
{
	json_t *list = json_object_get(a->o.policy, "rules"), *entry;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		if (strcmp(json_tree_text(entry, "id"), rule) == 0)
			return json_object_get(entry, "reason");
	}
	return NULL;
}

/* What it is about, cleaned; NULL: out of memory. */
static char *describe(const struct run_ask *a, const struct waiting *w)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(QUESTION_LINE_MAX);
	json_t *asked = json_tree_stored(w->question.text),
	       *reason = reason_of(a, w->question.rule);
	char *text = NULL;

	if (asked && json_object_set_new(asked, "rule", json_string(w->question.rule)) == 0 &&
		(!reason || json_object_set(asked, "reason", reason) == 0) &&
		question_describe(asked, &b) == 0 && buf_add_u8(&b, 0) == 0)
		text = strdup((const char *)buf_head(&b));
	if (text)
		clean_text(text, "");
	json_decref(asked);
	return text;
}

/* Shows the first that is open, and waits for a key from then on. */
static void show(struct run_ask *a, const struct waiting *w)
{
	_cleanup_free_ char *text = describe(a, w);
	_cleanup_free_ char *line = str_printf(PLAIN "\r\nmayfly: the sandbox asks for %s\r\n",
		text ? text : "something that does not fit into memory");

	print(a, line ? line : PLAIN "\r\nmayfly: the sandbox asks\r\n");
	a->raw = !terminal_is_raw() && terminal_make_raw(a->tty);
	a->shown = true;
	question_drop_keys(a->tty);
	print(a, KEYS);
}

static bool is_unseen(const struct waiting *w)
{
	json_t *asked = json_tree_stored(w->question.text);
	bool unseen = json_is_true(json_object_get(asked, "unseen"));

	json_decref(asked);
	return unseen;
}

/* Denies what nobody can be asked about. */
static void deny_unasked(struct run_ask *a, struct waiting *w, const char *why)
{
	_cleanup_free_ char *text = a->lines < LINES_MAX ? describe(a, w) : NULL;
	_cleanup_free_ char *line =
		text ? str_printf("denied %s: %s%s", text, why,
			       ++a->lines < LINES_MAX ? "" : "; further ones are not shown")
		     : NULL;

	w->decision = DENY;
	w->reason = why;
	if (line && !a->never)
		clean_print_error("mayfly: ", line);
}

/* --- decisions --- */

static bool is_allowed(const struct run_ask *a, const struct approval_question *q)
{
	for (size_t i = 0; i < a->allowed_count; i++)
		if (memcmp(a->allowed[i].hash, q->target, sizeof(q->target)) == 0)
			return true;
	return false;
}

static void allow_target(struct run_ask *a, const struct approval_question *q)
{
	struct target *grown = a->allowed_count < ALLOWED_MAX
				       ? array_grow(a->allowed, a->allowed_count, sizeof(*grown))
				       : NULL;

	if (!grown)
		return;
	a->allowed = grown;
	memcpy(grown[a->allowed_count++].hash, q->target, sizeof(q->target));
}

/* Decides all that are open and for which a decision about `w` holds, too. */
static void decide(struct run_ask *a, struct waiting *w, char key)
{
	struct approval_question q = w->question; /* borrowed: its text is not used */

	w->decision = key == 'a' || key == 's' ? ALLOW : DENY;
	if (key == 's')
		allow_target(a, &q);
	if (key == 'q')
		a->never = "all was denied in the terminal";
	for (size_t i = 0; i < a->count; i++) {
		struct waiting *o = &a->at[i];

		if (o->decision != OPEN)
			continue;
		if (key == 's' && is_allowed(a, &o->question))
			o->decision = ALLOW;
		if (key == 'q' ||
			(key == 'd' && memcmp(o->question.same, q.same, sizeof(q.same)) == 0))
			o->decision = DENY;
	}
}

static void take_key(struct run_ask *a)
{
	char pressed = 0, key = 'q', text[8] = "?\r\n";
	struct waiting *w = first_open(a);

	if (read(a->tty, &pressed, 1) == 1) /* else it has hung up */
		key = question_key(pressed, a->sure ? "ydq" : "asdq");
	if (!key || !w)
		return;
	if (!a->sure && (key == 'a' || key == 's') && is_unseen(w)) {
		a->sure = key;
		print(a, "\r\n " QUESTION_UNSEEN "\r\n");
		question_drop_keys(a->tty);
		print(a, SURE);
		return;
	}
	if (key == 'y')
		key = a->sure;
	a->sure = 0;
	text[0] = key;
	leave_terminal(a, text);
	decide(a, w, key);
	if (pressed == CONTROL_C)
		(void)kill(getpid(), SIGINT); /* the session passes it to the command */
}

/* --- from the network --- */

static struct waiting *find(struct run_ask *a, json_int_t worker, json_int_t id)
{
	for (size_t i = 0; i < a->count; i++)
		if (a->at[i].worker == worker && a->at[i].id == id)
			return &a->at[i];
	return NULL;
}

/* Nobody waits for it any more. */
static void drop(struct run_ask *a, struct waiting *w)
{
	if (w == first_open(a))
		a->sure = 0;
	if (w == first_open(a) && a->shown)
		leave_terminal(a, "\r\n (nothing waits for it any more)\r\n");
	forget(a, w);
}

static void add(struct run_ask *a, json_int_t worker, json_int_t id, const json_t *asked)
{
	static const uint8_t no_rule[STORE_APPROVAL_HASH]; /* its rules stay as they are */
	struct waiting w = {.worker = worker, .id = id};
	struct waiting *grown = a->count < APPROVAL_WAITERS_MAX
					? array_grow(a->at, a->count, sizeof(*grown))
					: NULL;

	if (grown)
		a->at = grown;
	if (!grown || approval_question_make(asked, NULL, NULL, no_rule, &w.question) < 0) {
		w.decision = DENY;
		w.reason = "it cannot be shown";
		(void)tell(a, &w); /* nobody is asked, and the worker has no more that wait */
		return;
	}
	if (is_allowed(a, &w.question))
		w.decision = ALLOW;
	a->at[a->count++] = w;
}

static void take_message(struct run_ask *a)
{
	json_t *said = json_tree_stored(a->message), *asked = json_object_get(said, "ask");
	json_int_t worker = json_integer_value(json_object_get(said, "worker")),
		   id = json_integer_value(json_object_get(asked, "id"));

	if (json_is_true(json_object_get(said, "gone"))) {
		for (size_t i = a->count; i-- > 0;)
			if (a->at[i].worker == worker)
				drop(a, &a->at[i]);
	} else if (json_is_true(json_object_get(asked, "end"))) {
		struct waiting *w = find(a, worker, id);

		if (w)
			drop(a, w);
	} else if (asked && !find(a, worker, id)) {
		add(a, worker, id, asked);
	}
	json_decref(said);
}

static void take_messages(struct run_ask *a)
{
	ssize_t n;

	while ((n = recv(a->o.fd, a->message, DIRECT_QUESTION_MAX, MSG_DONTWAIT)) > 0) {
		a->message[n] = '\0';
		take_message(a);
	}
}

/* --- for the session --- */

static void poll_fds(void *arg, struct pollfd fds[SESSION_PROMPT_FDS])
{
	const struct run_ask *a = arg;

	fds[0] = (struct pollfd){.fd = a->o.fd, .events = POLLIN};
	if (is_owed(a))
		fds[0].events |= POLLOUT;
	fds[1] = (struct pollfd){.fd = a->shown ? a->tty : -1, .events = POLLIN};
}

static void set_hold(struct run_ask *a, bool on)
{
	if (on == a->held || !a->o.hold)
		return;
	a->held = on;
	a->o.hold(a->o.arg, on);
}

static bool step(void *arg, const struct pollfd fds[SESSION_PROMPT_FDS])
{
	struct run_ask *a = arg;
	struct waiting *w;
	const char *why;

	if (fds[0].revents & POLLIN)
		take_messages(a);
	if (fds[1].revents && a->shown)
		take_key(a);
	while (!a->shown && (w = first_open(a)) && (why = nobody(a)))
		deny_unasked(a, w, why);
	w = first_open(a);
	set_hold(a, w);
	(void)tell_decisions(a); /* the rest when there is room, which is polled for */
	if (w && !a->shown)
		show(a, first_open(a));
	return a->shown;
}

/* --- beginning and end --- */

int run_ask_open(const struct run_ask_options *o, struct run_ask **ret, struct error *e)
{
	struct run_ask *a = calloc(1, sizeof(*a));

	if (!a) {
		(void)close(o->fd); /* nothing was written to it */
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	a->o = *o;
	a->tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC); /* or there is none */
	*ret = a;
	return 0;
}

struct session_prompt run_ask_prompt(struct run_ask *a)
{
	return (struct session_prompt){poll_fds, step, a};
}

void run_ask_close(struct run_ask *a)
{
	if (!a)
		return;
	if (a->shown)
		leave_terminal(a, "\r\n");
	while (a->count)
		forget(a, &a->at[a->count - 1]);
	free(a->at);
	free(a->allowed);
	cleanup_close_p(&a->tty);
	cleanup_close_p(&a->o.fd);
	free(a);
}
