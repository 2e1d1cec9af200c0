/* POST /sandboxes/{id}/diff, our extension: the files and processes that differ between two
 * snapshots, or between a snapshot and the running sandbox. Both sides are surveyed at the same
 * time (survey.h) and compared while the lists arrive (compare.h). Files that the lists leave in
 * doubt are read.
 *
 *	LISTING   the lists arrive; `out` gathers the differences
 *	READING   reads an unsure file on both sides; the lists wait
 *	ANSWERING sends the answer
 *	OVER      the answer is sent
 *
 * Everything belongs to the request, so it ends if the client leaves. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/cleanup.h"
#include "fleet/compare.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "lifecycle/survey.h"
#include "proto/json_text.h"
#include "store/keys.h"
#include "store/sandboxes.h"
#include "store/snapshots.h"

enum {
	DIFF_S = 300, /* for the whole request */
	FILES_MAX = 16 * 1024 * 1024,
	OUT_MAX = 48 * 1024 * 1024, /* with processes, whose text grows sixfold at most */
};

#define READ_MAX (UINT64_C(1) << 30) /* bytes of unsure files; beyond, they count as changed */

enum diff_state { DIFF_LISTING, DIFF_READING, DIFF_ANSWERING, DIFF_OVER };

struct diff {
	struct request *request;
	enum diff_state state;
	struct survey *sides[2];
	bool missing[2];
	struct compare *compare;
	char path[AGENT_PATH_MAX + 1];	 /* the directory */
	char unsure[AGENT_PATH_MAX + 1]; /* the file being read */
	uint64_t read;			 /* bytes so far */
	unsigned digests;		 /* number received, of 2 */
	bool differs;
	uint8_t digest[SURVEY_DIGEST_BYTES];
	struct buf out;
	bool first, truncated;
	uv_timer_t limit;
	struct lane_job place; /* in the lane of comparisons */
};

static void on_limit_closed(uv_handle_t *h)
{
	free(h->data);
}

static void diff_free(struct diff *d)
{
	lane_leave(&d->place);
	survey_free(d->sides[0]);
	survey_free(d->sides[1]);
	compare_free(d->compare);
	buf_done(&d->out);
	uv_close((uv_handle_t *)&d->limit, on_limit_closed);
}

static void on_done(struct request *r, bool complete)
{
	diff_free(r->data);
}

static void fail(struct diff *d, const struct error *why)
{
	if (d->state >= DIFF_ANSWERING)
		return;
	d->state = DIFF_OVER;
	reply_failure(d->request, why);
}

static void fail_with(struct diff *d, enum error_code code, int err, const char *message)
{
	struct error e = {0};

	(void)error_set(&e, code, err, "%s", message); /* only the filled error matters */
	fail(d, &e);
}

/* --- the answer --- */

static void send_more(struct diff *d)
{
	size_t n = buf_len(&d->out), room = request_room(d->request);

	if (n > room)
		n = room;
	if (n)
		(void)request_write(d->request, buf_head(&d->out), n); /* or the client has gone */
	buf_consume(&d->out, n);
	if (buf_len(&d->out))
		return; /* on_drained continues */
	d->state = DIFF_OVER;
	(void)request_end(d->request); /* as above */
}

static void on_drained(struct request *r)
{
	struct diff *d = r->data;

	if (d->state == DIFF_ANSWERING)
		send_more(d);
}

static const struct request_ops ops = {.drained = on_drained, .done = on_done};

static int add_string(struct buf *b, const char *s)
{
	return json_text_string(b, s, strlen(s), JSON_TEXT_UTF8);
}

static int add_task(struct buf *b, const struct survey_task *t, bool *first)
{
	int r = buf_printf(b, "%s{\"pid\":%u,\"command\":", *first ? "" : ",", t->pid);

	*first = false;
	if (r == 0)
		r = add_string(b, t->command);
	return r == 0 ? buf_add_u8(b, '}') : r;
}

/* Adds the tasks of `of` that are not in `without`; both are sorted by pid. */
static int add_tasks(struct buf *b, const struct survey *of, const struct survey *without)
{
	size_t count, others, at = 0;
	const struct survey_task *t = survey_tasks(of, &count);
	const struct survey_task *o = survey_tasks(without, &others);
	bool first = true;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		while (at < others && (o[at].pid < t[i].pid ||
					      (o[at].pid == t[i].pid && o[at].start < t[i].start)))
			at++;
		if (at == others || o[at].pid != t[i].pid || o[at].start != t[i].start)
			r = add_task(b, &t[i], &first);
	}
	return r;
}

static int add_processes(struct diff *d)
{
	struct buf *b = &d->out;
	int r = buf_printf(b, "],\"truncated\":%s,\"processes\":{\"started\":[",
		d->truncated ? "true" : "false");

	if (r == 0)
		r = add_tasks(b, d->sides[1], d->sides[0]);
	if (r == 0)
		r = buf_add_str(b, "],\"ended\":[");
	if (r == 0)
		r = add_tasks(b, d->sides[0], d->sides[1]);
	return r == 0 ? buf_add_str(b, "]}}") : r;
}

static void answer(struct diff *d)
{
	const struct http_reply reply = {.status = 200, .content_type = "application/json"};

	if (add_processes(d) < 0) {
		fail_with(d, ERROR_NO_SPACE, ENOMEM, "out of memory");
		return;
	}
	d->state = DIFF_ANSWERING;
	for (unsigned i = 0; i < 2; i++) { /* a slow client must not keep machines */
		survey_free(d->sides[i]);
		d->sides[i] = NULL;
	}
	if (request_stream(d->request, &reply, (int64_t)buf_len(&d->out)) == 0)
		send_more(d); /* otherwise the client is gone, and on_done follows */
}

/* --- comparing --- */

static const char *type_name(uint32_t mode)
{
	return S_ISREG(mode)   ? "file"
	       : S_ISDIR(mode) ? "directory"
	       : S_ISLNK(mode) ? "link"
			       : "other";
}

/* Returns false when the answer takes no more. */
static bool tell(struct diff *d, const char *change, const char *path, uint32_t mode)
{
	struct buf *b = &d->out;
	size_t before = buf_len(b);
	int r = buf_printf(b, "%s{\"change\":\"%s\",\"type\":\"%s\",\"path\":", d->first ? "" : ",",
		change, type_name(mode));

	if (r == 0)
		r = add_string(b, path);
	if (r == 0)
		r = buf_add_u8(b, '}');
	if (r == 0 && buf_len(b) <= FILES_MAX) {
		d->first = false;
		return true;
	}
	b->end = b->start + before;
	d->truncated = true;
	return false;
}

static bool read_unsure(struct diff *d, const struct agent_node *n)
{
	struct error e = {0};

	if (n->size > READ_MAX || d->read + n->size > READ_MAX)
		return tell(d, "changed", n->path, n->mode);
	d->read += n->size;
	strcpy(d->unsure, n->path); /* bounded by the decoder */
	d->state = DIFF_READING;
	d->digests = 0;
	d->differs = false;
	for (unsigned i = 0; i < 2; i++) {
		survey_pause(d->sides[i]);
		if (survey_read(d->sides[i], d->unsure, n->size, &e) < 0) {
			fail(d, &e);
			return false;
		}
	}
	return true;
}

static bool take_step(struct diff *d, enum compare_step step, const struct agent_node *n)
{
	switch (step) {
	case COMPARE_ADDED:
		return tell(d, "added", n->path, n->mode);
	case COMPARE_DELETED:
		return tell(d, "deleted", n->path, n->mode);
	case COMPARE_CHANGED:
		return tell(d, "changed", n->path, n->mode);
	case COMPARE_UNSURE:
		return read_unsure(d, n);
	case COMPARE_MORE:
	case COMPARE_DONE:
		break;
	}
	return false;
}

static void finish(struct diff *d)
{
	if (d->missing[0] && d->missing[1])
		fail_with(d, ERROR_NOT_FOUND, ENOENT,
			"there is no such directory in either of the two: give another path");
	else
		answer(d);
}

static void pump(struct diff *d)
{
	enum compare_step step = COMPARE_MORE;
	struct agent_node n;

	while (d->state == DIFF_LISTING && (step = compare_next(d->compare, &n)) != COMPARE_MORE &&
		take_step(d, step, &n))
		;
	if (d->state != DIFF_LISTING)
		return;
	if (step == COMPARE_DONE || d->truncated) {
		finish(d);
		return;
	}
	for (unsigned i = 0; i < 2; i++)
		if (!compare_is_full(d->compare, i))
			survey_resume(d->sides[i]);
}

static unsigned side_of(const struct diff *d, const struct survey *s)
{
	return s == d->sides[1];
}

static void on_node(struct survey *s, const struct agent_node *n, void *arg)
{
	struct diff *d = arg;
	unsigned side = side_of(d, s);
	struct error e = {0};

	if (d->state >= DIFF_ANSWERING)
		return;
	if (compare_add(d->compare, side, n, &e) < 0) {
		fail(d, &e);
		return;
	}
	pump(d);
	if (d->state < DIFF_ANSWERING && compare_is_full(d->compare, side))
		survey_pause(s);
}

static void on_files_end(struct survey *s, bool missing, void *arg)
{
	struct diff *d = arg;
	unsigned side = side_of(d, s);

	d->missing[side] = missing;
	compare_end(d->compare, side);
	pump(d);
}

static void on_digest(struct survey *s, const uint8_t *digest, void *arg)
{
	struct diff *d = arg;

	if (d->state != DIFF_READING)
		return;
	if (!digest)
		d->differs = true; /* it just changed, or was removed, which is a change too */
	else if (d->digests == 0)
		memcpy(d->digest, digest, sizeof(d->digest));
	else if (memcmp(d->digest, digest, sizeof(d->digest)) != 0)
		d->differs = true;
	if (++d->digests < 2)
		return;
	d->state = DIFF_LISTING;
	if (d->differs)
		(void)tell(d, "changed", d->unsure, S_IFREG); /* pump checks for itself */
	pump(d);
}

static void on_failed(struct survey *s, const struct error *why, void *arg)
{
	fail(arg, why);
}

static const struct survey_ops survey_ops = {
	.node = on_node, .files_end = on_files_end, .digest = on_digest, .failed = on_failed};

static void on_limit(uv_timer_t *t)
{
	fail_with(t->data, ERROR_TIMEOUT, ETIMEDOUT,
		"the comparison took too long: give a path to compare less");
}

/* --- the request --- */

static int make_side(
	struct diff *d, unsigned side, const struct store_snapshot *sn, struct error *e)
{
	struct fleet *fleet = fleet_of(d->request);
	_cleanup_close_ int fd = openat(fleet->home.area_fd[HOME_SNAPSHOTS], sn->id,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct sandbox_origin origin = {.fd = fd, .memory = true};
	const struct instance_order o = {
		.origin = &origin,
		.hold = true,
		.look = true,
		.key_id = d->request->key->id,
		.template = sn->template_alias,
		.template_id = sn->template_id,
		.cpus = sn->cpus,
		.memory_bytes = sn->memory_bytes,
		.disk_bytes = sn->disk_bytes,
		.public_traffic = true, /* no token: nobody can find it */
	};

	if (!sn->memory)
		return error_set(e, ERROR_USAGE, EINVAL,
			"a snapshot without memory cannot be compared: make a sandbox of it, and a "
			"snapshot of that");
	if (fd < 0)
		return error_set_errno(
			e, ERROR_BAD_SNAPSHOT, errno, "the files of the snapshot are missing");
	return survey_make(d->sides[side], &o, e);
}

/* Takes a place until the request is done. False: answered. */
static bool take_place(struct diff *d, struct request *r)
{
	struct lane *l = &fleet_of(r)->diffs;
	struct error e = {0};

	d->place.key_id = r->key->id;
	if (lane_enter(l, &d->place))
		return true;
	if (lane_count_of(l, r->key->id) >= l->key_max)
		(void)error_set(&e, ERROR_TOO_MANY, EBUSY,
			"this key has its maximum of %u comparisons at the same time: try again "
			"when "
			"one is done",
			l->key_max); /* only the filled error matters, as below */
	else
		(void)error_set(&e, ERROR_NO_SPACE, EBUSY,
			"%u comparisons are under way at the moment: try again", l->max);
	reply_failure(r, &e);
	return false;
}

/* NULL: answered. path is a string or missing. From here on the request owns the result. */
static struct diff *diff_new(struct request *r, const char *path)
{
	struct diff *d = api_calloc(r, sizeof(*d));

	if (!d || !take_place(d, r)) {
		free(d);
		return NULL;
	}
	d->request = r;
	d->first = true;
	strcpy(d->path, path); /* bounded by take_path */
	buf_init(&d->out, OUT_MAX);
	(void)uv_timer_init(request_loop(r), &d->limit); /* cannot fail */
	d->limit.data = d;
	(void)uv_timer_start(&d->limit, on_limit, DIFF_S * 1000, 0);
	request_set_ops(r, &ops, d);
	d->compare = compare_new();
	for (unsigned i = 0; i < 2; i++)
		d->sides[i] = survey_new(fleet_of(r), d->path, &survey_ops, d);
	if (d->compare && d->sides[0] && d->sides[1] && buf_add_str(&d->out, "{\"files\":[") == 0)
		return d;
	fail_with(d, ERROR_NO_SPACE, ENOMEM, "out of memory");
	return NULL;
}

/* to NULL: the running sandbox. */
static void start(struct request *r, struct instance *i, const char *path,
	const struct store_snapshot *from, const struct store_snapshot *to)
{
	struct diff *d = diff_new(r, path);
	struct error e = {0};
	int err;

	if (!d)
		return;
	err = make_side(d, 0, from, &e);
	if (err == 0)
		err = to ? make_side(d, 1, to, &e) : survey_start(d->sides[1], i, &e);
	if (err < 0)
		fail(d, &e);
}

/* Finds one of the client's snapshots; false: answered. */
static bool take_snapshot(
	struct request *r, const char *key, const json_t *value, struct store_snapshot *ret)
{
	const char *reason = "it must be the name of a snapshot";
	struct template_ref ref;
	struct error e = {0};

	if (!json_is_string(value) ||
		template_ref_parse(json_string_value(value), &ref, &reason) < 0) {
		reply_error(r, 400, "%s: %s", key, reason);
		return false;
	}
	if (api_find_snapshot(r, &ref, ret, &e) == 0)
		return true;
	if (e.code == ERROR_NOT_FOUND)
		reply_error(r, 404, "there is no snapshot '%.200s'", json_string_value(value));
	else
		reply_failure(r, &e);
	return false;
}

static bool take_path(struct request *r, const json_t *body, const char **ret)
{
	const json_t *v = json_object_get(body, "path");

	*ret = "/";
	if (!v || json_is_null(v))
		return true;
	*ret = json_string_value(v);
	if (*ret && **ret == '/' && strlen(*ret) == json_string_length(v) &&
		strlen(*ret) <= AGENT_PATH_MAX)
		return true;
	reply_error(r, 400, "path must be that of a directory, beginning with '/'");
	return false;
}

static void take_diff(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	struct store_sandbox *sb = body ? api_find(r) : NULL;
	const json_t *to = json_object_get(body, "to");
	bool now = !to || json_is_null(to);
	struct instance *i = NULL;
	struct store_snapshot first, second;
	const char *path;

	if (sb && take_path(r, body, &path) &&
		take_snapshot(r, "from", json_object_get(body, "from"), &first) &&
		(now || take_snapshot(r, "to", to, &second)) &&
		(!now || (i = api_find_running(r, sb))) && auth_may_create(r, now ? 1 : 2))
		start(r, i, path, &first, now ? NULL : &second);
	store_sandbox_free(sb);
	json_decref(body);
}

void api_diff(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_diff);
}
