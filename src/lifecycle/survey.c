#include "lifecycle/survey.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fleet/fleet.h"

/*	IDLE      nothing asked yet; a microVM may be on its way
 *	TASKS     the processes come
 *	FILES     the files come
 *	COMPLETE  everything was told
 *	FAILED    ops->failed was called
 */
enum survey_state { SURVEY_IDLE, SURVEY_TASKS, SURVEY_FILES, SURVEY_COMPLETE, SURVEY_FAILED };

struct survey {
	struct fleet *fleet;
	const char *path;
	const struct survey_ops *ops;
	void *arg;
	enum survey_state state;
	struct instance_maker *maker;	/* makes the microVM, or NULL */
	struct instance *own;		/* the microVM made of a snapshot, held */
	char running[SANDBOX_ID_BYTES]; /* id of the running sandbox otherwise */
	struct agent_link *link;	/* for listings */
	struct agent_link *contents;	/* for contents; NULL before the first */
	EVP_MD_CTX *digest;
	bool reading;
	struct survey_task *tasks; /* owned, with their commands */
	size_t task_count, task_bytes;
};

struct survey *survey_new(
	struct fleet *f, const char *path, const struct survey_ops *ops, void *arg)
{
	struct survey *s = calloc(1, sizeof(*s));

	if (s)
		*s = (struct survey){.fleet = f, .path = path, .ops = ops, .arg = arg};
	return s;
}

void survey_free(struct survey *s)
{
	if (!s)
		return;
	agent_link_close(s->link);
	agent_link_close(s->contents);
	if (s->maker)
		instance_maker_cancel(s->maker);
	if (s->own)
		instance_drop(s->own);
	EVP_MD_CTX_free(s->digest);
	for (size_t n = 0; n < s->task_count; n++)
		free((char *)s->tasks[n].command);
	free(s->tasks);
	free(s);
}

static void fail(struct survey *s, const struct error *why)
{
	if (s->state == SURVEY_FAILED)
		return;
	s->state = SURVEY_FAILED;
	s->ops->failed(s, why, s->arg);
}

/* --- the lists --- */

static int take_task(struct survey *s, const struct agent_task *t, struct error *e)
{
	size_t bytes = strlen(t->command) + 1;
	struct survey_task *p;
	char *command;

	if (s->task_count == AGENT_TASKS_MAX || s->task_bytes + bytes > SURVEY_TASK_BYTES_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "the sandbox has too many processes");
	p = array_grow(s->tasks, s->task_count, sizeof(*p));
	command = p ? strdup(t->command) : NULL;
	s->tasks = p ? p : s->tasks;
	if (!command)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	p[s->task_count++] = (struct survey_task){t->pid, t->start, command};
	s->task_bytes += bytes;
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct survey_task *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

const struct survey_task *survey_tasks(const struct survey *s, size_t *ret_count)
{
	*ret_count = s->task_count;
	return s->tasks;
}

static void end_tasks(struct survey *s)
{
	if (s->task_count)
		qsort(s->tasks, s->task_count, sizeof(*s->tasks), by_pid);
	s->state = SURVEY_FILES;
}

static void end_files(struct survey *s, bool missing)
{
	s->state = SURVEY_COMPLETE;
	s->ops->files_end(s, missing, s->arg);
}

static bool is_missing(const struct agent_event *ev)
{
	return ev->type == AGENT_ERROR && (ev->error.class == AGENT_ERR_NOT_FOUND ||
						  ev->error.class == AGENT_ERR_NOT_DIRECTORY);
}

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct survey *s = arg;
	struct error e = {0};
	int r = 0;

	if (s->state == SURVEY_TASKS && ev->type == AGENT_TASK)
		r = take_task(s, &ev->task, &e);
	else if (s->state == SURVEY_TASKS && ev->type == AGENT_END)
		end_tasks(s);
	else if (s->state == SURVEY_FILES && ev->type == AGENT_NODE)
		s->ops->node(s, &ev->node, s->arg);
	else if (s->state == SURVEY_FILES && (ev->type == AGENT_END || is_missing(ev)))
		end_files(s, ev->type != AGENT_END);
	else if (s->state != SURVEY_FAILED)
		r = instance_agent_refusal(ev, &e);
	if (r < 0)
		fail(s, &e);
}

static void on_lost(struct agent_link *l, const struct error *why, void *arg)
{
	struct survey *s = arg;

	if (s->state != SURVEY_COMPLETE)
		fail(s, why);
}

static const struct agent_link_ops lists = {.event = on_event, .lost = on_lost};

static int ask(struct survey *s, struct instance *i, struct error *e)
{
	const struct agent_tree tree = {.path = s->path};
	int r = instance_agent_connect(i, LINK_DOUBLE, &lists, s, &s->link, e);

	if (r == 0)
		r = agent_request(agent_link_conn(s->link), AGENT_LIST_TASKS, NULL, e);
	if (r == 0)
		r = agent_request(agent_link_conn(s->link), AGENT_TREE, &tree, e);
	if (r < 0)
		return r;
	s->state = SURVEY_TASKS;
	agent_link_send(s->link);
	return 0;
}

int survey_start(struct survey *s, struct instance *i, struct error *e)
{
	strcpy(s->running, instance_id(i));
	return ask(s, i, e);
}

static void on_made(void *arg, struct instance *i, const struct error *why)
{
	struct survey *s = arg;
	struct error e = {0};

	s->maker = NULL;
	s->own = i;
	if (!i)
		fail(s, why);
	else if (ask(s, i, &e) < 0)
		fail(s, &e);
}

int survey_make(struct survey *s, const struct instance_order *o, struct error *e)
{
	return instances_make(s->fleet, o, on_made, s, &s->maker, e);
}

void survey_pause(struct survey *s)
{
	if (s->link)
		agent_link_pause(s->link);
}

void survey_resume(struct survey *s)
{
	if (s->link)
		agent_link_resume(s->link);
}

/* --- contents --- */

static void end_reading(struct survey *s, bool whole)
{
	uint8_t digest[EVP_MAX_MD_SIZE];

	s->reading = false;
	if (whole && EVP_DigestFinal_ex(s->digest, digest, NULL) != 1)
		whole = false;
	s->ops->digest(s, whole ? digest : NULL, s->arg);
}

static void on_content(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct survey *s = arg;

	if (!s->reading || ev->type == AGENT_ENTRY)
		return;
	if (ev->type != AGENT_DATA)
		end_reading(s, ev->type == AGENT_END);
	else if (EVP_DigestUpdate(s->digest, ev->data, ev->length) != 1)
		end_reading(s, false);
}

static void on_contents_lost(struct agent_link *l, const struct error *why, void *arg)
{
	fail(arg, why);
}

static const struct agent_link_ops reads = {.event = on_content, .lost = on_contents_lost};

static int open_contents(struct survey *s, struct error *e)
{
	struct instance *i = s->own ? s->own : instance_find(s->fleet, s->running);

	if (s->contents)
		return 0;
	if (!i)
		return error_set(e, ERROR_SANDBOX, ESRCH, "the sandbox is not running any more");
	s->digest = EVP_MD_CTX_new();
	if (!s->digest)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	return instance_agent_connect(i, LINK_OWN, &reads, s, &s->contents, e);
}

int survey_read(struct survey *s, const char *path, uint64_t bytes, struct error *e)
{
	const struct agent_read m = {.length = bytes, .path = path};
	int r = open_contents(s, e);

	if (r == 0 && EVP_DigestInit_ex(s->digest, EVP_sha256(), NULL) != 1)
		r = error_set(e, ERROR_INTERNAL, EIO, "cannot compute a checksum");
	if (r == 0)
		r = agent_request(agent_link_conn(s->contents), AGENT_READ, &m, e);
	if (r < 0)
		return r;
	s->reading = true;
	agent_link_send(s->contents);
	return 0;
}
