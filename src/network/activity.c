#include "network/activity.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/rate.h"
#include "fleet/fleet.h"
#include "network/activity_record.h"
#include "network/secrets.h"
#include "network/watch.h"
#include "policy/seal.h"

enum { WAITING_MAX = 4 * ACTIVITY_SANDBOX_PER_S }; /* records of a log: the rates keep below */

/* Kinds with rates of their own: what the guest causes, what its agent reports, programs that
 * clients start, and the sandbox's life. */
enum source { OF_GUEST, OF_REPORTS, OF_PROGRAMS, OF_HOST, SOURCES };

/* What the sandboxes of a key share. */
struct key {
	struct key *next;
	unsigned logs;
	struct rate rates[SOURCES];
	char id[STORE_ID_MAX + 1];
};

struct activity_log {
	struct fleet *fleet;
	struct activity_log *other; /* in the list of all */
	struct activity_log *next;  /* that has something to write */
	bool waits;		    /* is in that list */
	unsigned users;		    /* who have it open */
	struct key *key;
	struct rate rates[SOURCES];
	struct store_activity *list; /* owned, and its records; room for WAITING_MAX */
	size_t count;
	uint64_t lost;	     /* that are not in the store yet */
	uint64_t untold;     /* that no record tells yet */
	uint64_t telling;    /* that a record tells which is not in the store yet */
	bool failed;	     /* could not be written this time */
	uint64_t told_at_ns; /* monotonic, when one did */
	char id[STORE_ID_MAX + 1];
};

struct activity {
	struct fleet *fleet;
	uv_timer_t timer;
	struct rate rates[SOURCES];
	struct key *keys;
	struct activity_log *logs;
	struct activity_log *first; /* have something to write */
	struct watch *watches;
	bool stopped; /* the timer is closed */
};

/* --- writing --- */

static void drop_records(struct activity_log *l)
{
	for (size_t i = 0; i < l->count; i++)
		free((char *)l->list[i].record);
	l->count = 0;
}

/* Takes the text. */
static bool append(
	struct activity_log *l, enum store_activity_kind kind, uint64_t at_ns, char *text)
{
	if (!l->list)
		l->list = calloc(WAITING_MAX + 1, sizeof(l->list[0]));
	if (!text || !l->list || l->count > WAITING_MAX) {
		free(text);
		return false;
	}
	l->list[l->count++] = (struct store_activity){.kind = kind, .at_ns = at_ns, .record = text};
	return true;
}

static void tell_lost(struct activity_log *l)
{
	uint64_t now = clock_monotonic_ns(), at = clock_realtime_ns() / NS_PER_MS * NS_PER_MS;

	if (!l->untold || (l->users && l->told_at_ns && now - l->told_at_ns < NS_PER_S))
		return;
	if (append(l, STORE_ACTIVITY_LOST, at, activity_record_lost(l->untold, at))) {
		l->telling = l->untold;
		l->untold = 0;
		l->told_at_ns = now;
	}
}

static int write_one(struct activity_log *l, struct error *e)
{
	uint64_t dropped = 0;
	int r = store_activity_add(l->fleet->store, l->id, l->key->id, l->list, l->count, l->lost,
		clock_realtime_ns(), &dropped, e);

	if (dropped)
		metrics_add(METRIC_ACTIVITY_DROPPED, NULL, NULL, (double)dropped);
	return r;
}

static void settle(struct activity_log *l, bool written)
{
	size_t count = l->count - (l->telling > 0); /* what came */

	if (written) {
		metrics_add(METRIC_ACTIVITY_RECORDS, NULL, NULL, (double)l->count);
		l->lost = 0;
	} else {
		metrics_add(METRIC_ACTIVITY_LOST, NULL, NULL, (double)count);
		l->lost += count;
		l->untold += l->telling + count;
	}
	l->telling = 0;
	drop_records(l);
	free(l->list);
	l->list = NULL;
	l->waits = false;
}

/* If one log cannot be written, the others still are. *why: the first failure. */
static int write_all(struct activity_log *list, struct error *why)
{
	struct store *s = list->fleet->store;
	int r = store_begin(s, why);

	if (r < 0)
		return r;
	for (struct activity_log *l = list; l; l = l->next) {
		struct error e = {0};

		l->failed = (l->count || l->lost) && write_one(l, &e) < 0;
		if (l->failed && why->code == ERROR_NONE)
			*why = e;
	}
	r = store_commit(s, why);
	if (r < 0)
		store_rollback(s);
	return r;
}

static void changed(struct activity_log *l);
static void drop_key(struct activity *a, struct key *k);

/* Nobody has the log open, so records that cannot be written now are lost. */
static void log_free(struct activity_log *l)
{
	struct activity_log **p = &l->fleet->activity->logs;

	while (*p != l)
		p = &(*p)->other;
	*p = l->other;
	drop_key(l->fleet->activity, l->key);
	free(l);
}

static void flush(struct activity *a)
{
	static struct log_limit limit = LOG_LIMIT_INIT(5);
	struct activity_log *list = TAKE_PTR(a->first), *next;
	struct error e = {0};
	int r;

	if (!list)
		return;
	if (!a->stopped)
		(void)uv_timer_stop(&a->timer); /* always 0 */
	for (struct activity_log *l = list; l; l = l->next)
		tell_lost(l);
	r = write_all(list, &e);
	if (e.code != ERROR_NONE && log_limited(&limit))
		log_warn("cannot note what sandboxes do: %s", e.message);
	for (struct activity_log *l = list; l; l = next) {
		next = l->next;
		settle(l, r == 0 && !l->failed);
		watch_tell(a->watches, l->id);
		if (!l->users)
			log_free(l);
		else if (l->untold) /* a record tells of them when its time has come */
			changed(l);
	}
}

static void on_timer(uv_timer_t *t)
{
	flush(t->data);
}

static void changed(struct activity_log *l)
{
	struct activity *a = l->fleet->activity;

	if (l->waits)
		return;
	l->waits = true;
	l->next = a->first;
	a->first = l;
	if (!a->stopped && !uv_is_active((uv_handle_t *)&a->timer)) /* cannot fail */
		(void)uv_timer_start(&a->timer, on_timer, ACTIVITY_FLUSH_MS, 0);
}

/* --- what comes --- */

void activity_lost(struct activity_log *l, uint64_t count)
{
	if (!l || !count)
		return;
	count = count < UINT32_MAX ? count : UINT32_MAX;
	metrics_add(METRIC_ACTIVITY_LOST, NULL, NULL, (double)count);
	l->lost += count;
	l->untold += count;
	changed(l);
}

static enum source source_of(enum store_activity_kind kind)
{
	switch (kind) {
	case STORE_ACTIVITY_PROGRAM:
	case STORE_ACTIVITY_FILE:
		return OF_REPORTS;
	case STORE_ACTIVITY_PROCESS:
		return OF_PROGRAMS;
	case STORE_ACTIVITY_LIFECYCLE:
	case STORE_ACTIVITY_APPROVAL:
		return OF_HOST;
	default:
		return OF_GUEST;
	}
}

static bool has_room(struct activity_log *l, enum source of)
{
	uint64_t now = clock_monotonic_ns();

	return rate_take(&l->rates[of], ACTIVITY_SANDBOX_PER_S, now) &&
	       rate_take(&l->key->rates[of], ACTIVITY_KEY_PER_S, now) &&
	       rate_take(&l->fleet->activity->rates[of], ACTIVITY_ALL_PER_S, now);
}

void activity_note(struct activity_log *l, enum store_activity_kind kind, const json_t *said)
{
	uint64_t at_ns = 0;

	if (!l)
		return;
	if (has_room(l, source_of(kind)) &&
		append(l, kind, at_ns, activity_record(said, clock_realtime_ns(), &at_ns))) {
		l->list[l->count - 1].at_ns = at_ns;
		changed(l);
	} else {
		activity_lost(l, 1);
	}
}

/* --- logs --- */

static struct key *take_key(struct activity *a, const char *id)
{
	struct key *k = a->keys;

	while (k && strcmp(k->id, id) != 0)
		k = k->next;
	if (!k) {
		k = calloc(1, sizeof(*k));
		if (!k)
			return NULL;
		(void)strncpy(k->id, id, sizeof(k->id) - 1); /* fits: the store has it */
		k->next = a->keys;
		a->keys = k;
	}
	k->logs++;
	return k;
}

static void drop_key(struct activity *a, struct key *k)
{
	struct key **p = &a->keys;

	if (--k->logs)
		return;
	while (*p != k)
		p = &(*p)->next;
	*p = k->next;
	free(k);
}

static struct activity_log *make_log(struct fleet *f, const char *sandbox_id, const char *key_id)
{
	struct activity_log *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->fleet = f;
	(void)strncpy(l->id, sandbox_id, sizeof(l->id) - 1); /* fits: the store has it */
	l->key = take_key(f->activity, key_id);
	if (!l->key) {
		free(l);
		return NULL;
	}
	l->other = f->activity->logs;
	f->activity->logs = l;
	return l;
}

static struct activity_log *find_log(struct fleet *f, const char *sandbox_id)
{
	struct activity_log *l = f->activity->logs;

	while (l && strcmp(l->id, sandbox_id) != 0)
		l = l->other;
	return l;
}

struct activity_log *activity_log_open(struct fleet *f, const char *sandbox_id, const char *key_id)
{
	struct activity_log *l = find_log(f, sandbox_id);

	if (!l)
		l = make_log(f, sandbox_id, key_id);
	if (l)
		l->users++;
	return l;
}

void activity_log_close(struct activity_log *l)
{
	if (!l || --l->users)
		return;
	if (l->untold)
		changed(l);
	if (!l->waits)
		log_free(l);
	else if (l->fleet->activity->stopped)
		flush(l->fleet->activity);
}

void activity_say(struct fleet *f, const char *sandbox_id, const char *key_id,
	enum store_activity_kind kind, json_t *said)
{
	struct activity_log *l = said ? activity_log_open(f, sandbox_id, key_id) : NULL;

	activity_note(l, kind, said);
	activity_log_close(l);
	json_decref(said);
}

void activity_flush(struct fleet *f, const char *sandbox_id)
{
	struct activity_log *l = find_log(f, sandbox_id);

	if (l && l->waits)
		flush(f->activity);
}

struct watch **activity_watches(struct fleet *f)
{
	return &f->activity->watches;
}

/* --- start and stop --- */

/* Without it heads have no seal, and --verify says so. */
static void set_key(struct fleet *f)
{
	uint8_t key[SEAL_DERIVED_BYTES];
	struct error e = {0};

	if (sealer_derive(f->sealer, secrets_may_make_key(f), "activity", key, &e) < 0)
		log_warn("cannot sign the heads of activity logs: %s", e.message);
	else
		store_activity_key(f->store, key);
	explicit_bzero(key, sizeof(key));
}

int activity_start(struct fleet *f, struct error *e)
{
	struct activity *a = calloc(1, sizeof(*a));

	if (!a)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	a->fleet = f;
	(void)uv_timer_init(f->loop, &a->timer); /* cannot fail */
	a->timer.data = a;
	f->activity = a;
	set_key(f);
	return 0;
}

void activity_stop(struct fleet *f)
{
	if (!f->activity || f->activity->stopped)
		return;
	flush(f->activity);
	f->activity->stopped = true;
	uv_close((uv_handle_t *)&f->activity->timer, NULL);
}

void activity_free(struct fleet *f)
{
	free(f->activity);
	f->activity = NULL;
}
