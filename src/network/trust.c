#include "network/trust.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "network/environment.h"
#include "network/interception.h"
#include "sandbox/trust_bundle.h"

enum { AGAIN_MS = 100, ID_BYTES = 9, TAIL_BYTES = 4096 };

/* What was asked of the agent last. */
enum trust_step {
	TRUST_LOOK, /* reads TRUST_FILE: to TELL if it is right, else to FIND */
	TRUST_FIND, /* looks for a bundle at the next place: to TAIL, READ, or FIND again; to WRITE
		      * if there is none */
	TRUST_TAIL, /* reads its end: to READ if an older copy is there, else to APPEND */
	TRUST_APPEND, /* our copy: to NOTE */
	TRUST_READ,   /* to WRITE */
	TRUST_WRITE,  /* the new bundle, beside the old one: to MOVE */
	TRUST_MOVE,   /* into its place: to COPY, or to NOTE if that is TRUST_BUNDLE */
	TRUST_COPY,   /* the same bundle as TRUST_BUNDLE: to NOTE */
	TRUST_NOTE,   /* writes TRUST_FILE: to TELL */
	TRUST_TELL,   /* the environment, if that is wanted; then it is done */
};

struct trust {
	struct instance *instance; /* NULL: closed */
	struct agent_link *link;
	uv_timer_t timer;
	enum trust_step step;
	size_t place;	     /* of TRUST_FIND */
	bool older;	     /* there is an older TRUST_FILE */
	uint64_t size;	     /* of the bundle */
	const char *root;    /* before all paths */
	char *text;	     /* our authorities */
	char *path, *beside; /* of the bundle */
	struct buf read;     /* what is being read */
	struct buf bundle;   /* as it shall be */
	bool environment, told;
	uint64_t end_ms; /* by the loop's clock */
	void (*done)(void *arg, const struct error *why);
	void *arg;
};

static void go(struct trust *t, enum trust_step step);

/* --- the end --- */

static void on_closed(uv_handle_t *h)
{
	struct trust *t = h->data;

	buf_done(&t->read);
	buf_done(&t->bundle);
	free(t->text);
	free(t->path);
	free(t->beside);
	free(t);
}

static void close_it(struct trust *t)
{
	agent_link_close(t->link);
	t->link = NULL;
	t->instance = NULL;
	uv_close((uv_handle_t *)&t->timer, on_closed);
}

static void finish(struct trust *t, const struct error *why)
{
	struct instance *i = t->instance;
	void (*done)(void *arg, const struct error *why) = t->done;
	void *arg = t->arg;

	i->trust = NULL;
	close_it(t);
	done(arg, why);
}

/* The instance goes away. */
static void trust_close(struct trust *t, bool tell)
{
	void (*done)(void *arg, const struct error *why) = t->done;
	void *arg = t->arg;
	struct error e = {0};

	close_it(t);
	(void)error_set(&e, ERROR_SANDBOX, ECANCELED, "the sandbox has ended");
	if (tell)
		done(arg, &e);
}

/* --- the bundle --- */

static bool is_right(struct trust *t)
{
	return buf_len(&t->read) == strlen(t->text) &&
	       memcmp(buf_head(&t->read), t->text, strlen(t->text)) == 0;
}

/* --- requests: 0 or -errno --- */

static int ask(struct trust *t, enum agent_type type, const void *message, struct error *e)
{
	return agent_request(agent_link_conn(t->link), type, message, e);
}

static int read_file(struct trust *t, const char *path, uint64_t offset, struct error *e)
{
	const struct agent_read m = {
		.offset = offset, .length = TRUST_BUNDLE_MAX + 1, .user = "root", .path = path};

	buf_clear(&t->read);
	return ask(t, AGENT_READ, &m, e);
}

static int write_to(struct trust *t, const char *path, uint32_t flags, const void *data, size_t n,
	struct error *e)
{
	const struct agent_write m = {.flags = flags, .mode = 0644, .user = "root", .path = path};
	struct agent_conn *c = agent_link_conn(t->link);
	int r = ask(t, AGENT_WRITE, &m, e);

	if (r == 0 && agent_send_data(c, data, n) != (ssize_t)n)
		r = -ENOMEM; /* TRUST_BUNDLE_MAX fits the queue */
	return r < 0 ? r : agent_send_end(c);
}

static int write_file(
	struct trust *t, const char *path, const void *data, size_t n, struct error *e)
{
	return write_to(t, path, AGENT_WRITE_PARENTS, data, n, e);
}

static int append_to_bundle(struct trust *t, struct error *e)
{
	int r = trust_bundle_compose_end(
		buf_head(&t->read), buf_len(&t->read), t->text, &t->bundle);

	return r < 0 ? r
		     : write_to(t, t->path, AGENT_WRITE_APPEND | AGENT_WRITE_KEEP_OWNER,
			       buf_head(&t->bundle), buf_len(&t->bundle), e);
}

static int find(struct trust *t, struct error *e)
{
	struct agent_stat m = {.flags = AGENT_STAT_RESOLVE, .user = "root"};

	free(t->path);
	t->path = str_printf("%s%s", t->root, trust_places[t->place]);
	m.path = t->path;
	return t->path ? ask(t, AGENT_STAT, &m, e) : -ENOMEM;
}

static int write_bundle(struct trust *t, struct error *e)
{
	char id[ID_BYTES];
	int r = str_random_id(id, sizeof(id));

	free(t->beside);
	t->beside = r < 0 ? NULL : str_printf("%s.%s", t->path, id);
	r = t->beside ? trust_bundle_compose(
				buf_head(&t->read), buf_len(&t->read), t->text, &t->bundle)
		      : -ENOMEM;
	if (r == -EMSGSIZE)
		return error_set(e, ERROR_LIMIT, EFBIG, "its bundle has more than %d bytes",
			TRUST_BUNDLE_MAX);
	if (r < 0)
		return r;
	return write_file(t, t->beside, buf_head(&t->bundle), buf_len(&t->bundle), e);
}

static int move_bundle(struct trust *t, struct error *e)
{
	const struct agent_move m = {.user = "root", .from = t->beside, .to = t->path};

	return ask(t, AGENT_MOVE, &m, e);
}

static int tell_environment(struct trust *t, struct error *e)
{
	char **env = environment_of(t->instance);
	struct agent_identity m = {.fields = AGENT_ID_ENV,
		.hostname = "",
		.machine_id = "",
		.user = "",
		.workdir = "",
		.env = {.array = (const char *const *)env}};
	int r;

	while (env && env[m.env.count])
		m.env.count++;
	r = env ? ask(t, AGENT_IDENTITY, &m, e) : -ENOMEM;
	environment_free(env);
	return r;
}

static int ask_step(struct trust *t, struct error *e)
{
	_cleanup_free_ char *file = str_printf("%s" TRUST_FILE, t->root);
	_cleanup_free_ char *copy = str_printf("%s" TRUST_BUNDLE, t->root);

	if (!file || !copy)
		return -ENOMEM;
	switch (t->step) {
	case TRUST_LOOK:
		return read_file(t, file, 0, e);
	case TRUST_FIND:
		return find(t, e);
	case TRUST_TAIL:
		return read_file(t, t->path, t->size > TAIL_BYTES ? t->size - TAIL_BYTES : 0, e);
	case TRUST_APPEND:
		return append_to_bundle(t, e);
	case TRUST_READ:
		return read_file(t, t->path, 0, e);
	case TRUST_WRITE:
		return write_bundle(t, e);
	case TRUST_MOVE:
		return move_bundle(t, e);
	case TRUST_COPY:
		return write_file(t, copy, buf_head(&t->bundle), buf_len(&t->bundle), e);
	case TRUST_NOTE:
		return write_file(t, file, t->text, strlen(t->text), e);
	default:
		return tell_environment(t, e);
	}
}

static void go(struct trust *t, enum trust_step step)
{
	struct error e = {0};
	int r;

	t->step = step;
	if (step == TRUST_TELL && !t->environment) {
		finish(t, NULL);
		return;
	}
	/* a snapshot freezes the guest's processes, and setting an identity would continue them */
	if (step == TRUST_TELL && t->instance->job)
		return;
	t->told = step == TRUST_TELL;
	r = ask_step(t, &e);
	if (r == 0) {
		agent_link_send(t->link);
		return;
	}
	(void)error_set_errno(&e, ERROR_INTERNAL, -r, "authorities"); /* if it is not filled */
	finish(t, &e);
}

/* --- answers --- */

static void next_place(struct trust *t)
{
	t->place++;
	if (t->place < TRUST_PLACES) {
		go(t, TRUST_FIND);
		return;
	}
	free(t->path);
	t->path = str_printf("%s" TRUST_BUNDLE, t->root);
	buf_clear(&t->read);
	go(t, TRUST_WRITE);
}

/* Follows a link, so that the file is replaced and not the link. */
static void take_entry(struct trust *t, const struct agent_entry *entry)
{
	char *target = *entry->resolved ? strdup(entry->resolved) : NULL;
	bool appends = t->place == 0 && !t->older && S_ISREG(entry->mode) && entry->size &&
		       entry->size <= TRUST_BUNDLE_MAX / 2;

	if (target) {
		free(t->path);
		t->path = target;
	}
	t->size = entry->size;
	go(t, appends ? TRUST_TAIL : TRUST_READ);
}

static void after_write(struct trust *t)
{
	static const char bundle[] = TRUST_BUNDLE;

	if (t->step == TRUST_WRITE)
		go(t, TRUST_MOVE);
	else if (t->step == TRUST_MOVE && t->place > 0 && !str_ends_with(t->path, bundle))
		go(t, TRUST_COPY);
	else if (t->step == TRUST_NOTE)
		go(t, TRUST_TELL);
	else
		go(t, TRUST_NOTE);
}

static void after_read(struct trust *t)
{
	if (t->step == TRUST_LOOK) {
		t->older = true;
		go(t, is_right(t) ? TRUST_TELL : TRUST_FIND);
	} else if (t->step == TRUST_TAIL) {
		go(t, trust_bundle_has_copy(buf_head(&t->read), buf_len(&t->read)) ? TRUST_READ
										   : TRUST_APPEND);
	} else {
		go(t, TRUST_WRITE);
	}
}

static void refused(struct trust *t, const struct agent_event *ev)
{
	struct error e = {0};

	(void)agent_event_error(ev, &e); /* only the filled error matters */
	if (t->step == TRUST_LOOK)
		go(t, TRUST_FIND); /* it is not there yet */
	else if (t->step == TRUST_FIND)
		next_place(t);
	else
		finish(t, &e);
}

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct trust *t = arg;
	bool reads = t->step == TRUST_LOOK || t->step == TRUST_TAIL || t->step == TRUST_READ;
	struct error e = {0};

	if (ev->type == AGENT_ERROR) {
		refused(t, ev);
	} else if (reads && ev->type == AGENT_DATA) {
		if (buf_add(&t->read, ev->data, ev->length) == 0)
			return;
		(void)error_set(&e, ERROR_LIMIT, EFBIG, "its bundle has more than %d bytes",
			TRUST_BUNDLE_MAX);
		finish(t, &e);
	} else if (reads && ev->type == AGENT_END) {
		after_read(t);
	} else if (reads && ev->type == AGENT_ENTRY) {
		return;
	} else if (t->step == TRUST_FIND) {
		take_entry(t, &ev->entry);
	} else if (t->step == TRUST_TELL) {
		finish(t, NULL); /* the reply says what failed: nothing can be done about it */
	} else {
		after_write(t);
	}
}

static void on_lost(struct agent_link *l, const struct error *why, void *arg)
{
	const struct error copy = *why;

	finish(arg, &copy);
}

static void on_timer(uv_timer_t *timer)
{
	struct trust *t = timer->data;
	struct error e = {0};

	if (uv_now(timer->loop) < t->end_ms) {
		if (t->step == TRUST_TELL && !t->told)
			go(t, TRUST_TELL);
		return;
	}
	(void)error_set(&e, ERROR_TIMEOUT, ETIMEDOUT, "its agent did not write them within %d s",
		TRUST_PATIENCE_MS / 1000);
	finish(t, &e);
}

/* --- beginning --- */

bool trust_is_wanted(const struct instance *i)
{
	return i->fleet->options.backend->guest_root && interception_has_guest(i);
}

static int start(struct trust *t, struct error *e)
{
	static const struct agent_link_ops ops = {.event = on_event, .lost = on_lost};
	int r = interception_guest(t->instance, &t->text, e);

	return r < 0 ? r : instance_agent_connect(t->instance, LINK_OWN, &ops, t, &t->link, e);
}

void trust_install(struct instance *i, bool environment,
	void (*done)(void *arg, const struct error *why), void *arg)
{
	struct trust *t = calloc(1, sizeof(*t));
	struct error e = {0};

	if (i->trust)
		finish(i->trust, NULL);
	if (!t) {
		(void)error_set(&e, ERROR_NO_SPACE, ENOMEM, "out of memory");
		done(arg, &e);
		return;
	}
	*t = (struct trust){.instance = i,
		.root = i->fleet->options.backend->guest_root,
		.read = BUF_INIT(TRUST_BUNDLE_MAX + 1),
		.bundle = BUF_INIT(TRUST_BUNDLE_MAX),
		.environment = environment,
		.done = done,
		.arg = arg,
		.end_ms = uv_now(i->fleet->loop) + TRUST_PATIENCE_MS};
	(void)uv_timer_init(i->fleet->loop, &t->timer); /* these cannot fail */
	(void)uv_timer_start(&t->timer, on_timer, AGAIN_MS, AGAIN_MS);
	t->timer.data = t;
	i->trust = t;
	i->trust_close = trust_close;
	if (start(t, &e) < 0)
		finish(t, &e);
	else
		go(t, t->text ? TRUST_LOOK : TRUST_TELL);
}
