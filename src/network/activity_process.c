#include "network/activity_process.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "network/activity.h"
#include "network/activity_record.h"

enum { WORDS_MAX = 32, CWD_MAX = 512, USER_MAX = 128, PATH_MAX_BYTES = 512, REASON_MAX = 256 };

/* --- what was asked for --- */

/* Bytes in a record, or more. */
static size_t cost(char c)
{
	if (c == '"' || c == '\\' || c == '\n' || c == '\t')
		return 2;
	return c >= ' ' && c < 0x7f ? 1 : 6;
}

/* As much as fits into *left bytes of a record; sets *cut if that is not all. */
static json_t *text(const char *s, size_t *left, bool *cut)
{
	size_t n = 0, whole = strlen(s);

	for (; n < whole && cost(s[n]) <= *left; n++)
		*left -= cost(s[n]);
	*cut = *cut || n < whole;
	return json_stringn_nocheck(s, str_cut(s, whole, n));
}

static void put(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value); /* what does not fit into memory is left out */
}

static void put_path(json_t *o, const char *key, const char *s, size_t max)
{
	bool cut = false;

	if (s && *s)
		put(o, key, text(s, &max, &cut));
}

json_t *activity_command(const struct agent_exec *exec, const char *via)
{
	json_t *o = json_pack("{s:s, s:s}", "state", "started", "via", via), *argv = json_array();
	size_t left = ACTIVITY_TEXT_MAX;
	bool cut = exec->argv.count > WORDS_MAX;

	for (uint32_t i = 0; i < exec->argv.count && i < WORDS_MAX; i++)
		(void)json_array_append_new(argv, text(exec->argv.array[i], &left, &cut));
	put(o, "argv", argv);
	if (cut)
		put(o, "cut", json_true());
	put_path(o, "user", exec->user, USER_MAX);
	put_path(o, "cwd", exec->cwd, CWD_MAX);
	return o;
}

/* Bytes that are not UTF-8 are replaced when the record is written. The last word may be cut. */
static json_t *words(const struct agent_program *m, bool *cut)
{
	size_t left = ACTIVITY_TEXT_MAX / 2, at = 0;
	json_t *argv = json_array();
	char word[AGENT_COMMAND_MAX + 1];

	*cut = m->command_bytes == AGENT_COMMAND_MAX;
	for (unsigned i = 0; at < m->command_bytes; i++) {
		size_t n = strnlen((const char *)m->command + at, m->command_bytes - at);

		if (i == WORDS_MAX) {
			*cut = true;
			break;
		}
		memcpy(word, m->command + at, n);
		word[n] = '\0';
		(void)json_array_append_new(argv, text(word, &left, cut)); /* or less */
		at += n + 1;
	}
	return argv;
}

static json_t *program_started(const struct agent_program *m)
{
	json_t *o = json_pack("{s:s, s:I}", "state", "started", "pid", (json_int_t)m->pid);
	bool cut;

	put(o, "argv", words(m, &cut));
	if (cut)
		put(o, "cut", json_true());
	if (m->parent)
		put(o, "parent", json_integer(m->parent));
	if (m->uid != UINT32_MAX)
		put(o, "uid", json_integer(m->uid));
	return o;
}

json_t *activity_program(const struct agent_program *m)
{
	bool killed = WIFSIGNALED(m->value);

	if (m->event == AGENT_PROGRAM_STARTED)
		return program_started(m);
	if (m->event != AGENT_PROGRAM_ENDED)
		return NULL;
	return json_pack("{s:s, s:I, s:I}", "state", "ended", "pid", (json_int_t)m->pid,
		killed ? "signal" : "exitCode",
		(json_int_t)(killed ? WTERMSIG(m->value) : WEXITSTATUS(m->value)));
}

json_t *activity_file(const struct agent_file *m)
{
	size_t left = PATH_MAX_BYTES;
	bool cut = false;
	json_t *o;

	if (m->event != AGENT_FILE_WRITTEN || m->path[0] != '/')
		return NULL;
	o = json_pack("{s:s, s:I}", "state", "written", "pid", (json_int_t)m->pid);
	put(o, "path", text(m->path, &left, &cut));
	if (cut)
		put(o, "cut", json_true());
	return o;
}

json_t *activity_no_files(const char *why)
{
	json_t *o = json_pack("{s:s}", "state", "unavailable");

	put_path(o, "reason", why, REASON_MAX);
	return o;
}

/* --- which of them run --- */

struct noted_process {
	struct noted_process *next;
	uint32_t pid;
	char sandbox_id[];
};

static struct noted_process **bucket_of(struct fleet *f, const char *sandbox_id)
{
	return &f->processes[str_hash64(sandbox_id) % FLEET_BUCKETS];
}

static struct noted_process **find(struct fleet *f, const char *sandbox_id, uint32_t pid)
{
	struct noted_process **p = bucket_of(f, sandbox_id);

	while (*p && ((*p)->pid != pid || strcmp((*p)->sandbox_id, sandbox_id) != 0))
		p = &(*p)->next;
	return p;
}

static unsigned count(struct fleet *f, const char *sandbox_id)
{
	unsigned n = 0;

	for (const struct noted_process *p = *bucket_of(f, sandbox_id); p; p = p->next)
		n += strcmp(p->sandbox_id, sandbox_id) == 0;
	return n;
}

static void drop(struct noted_process **at)
{
	struct noted_process *p = *at;

	*at = p->next;
	free(p);
}

void activity_processes_gone(struct fleet *f, const char *sandbox_id)
{
	for (struct noted_process **p = bucket_of(f, sandbox_id); *p;)
		if (strcmp((*p)->sandbox_id, sandbox_id) == 0)
			drop(p);
		else
			p = &(*p)->next;
}

void activity_processes_free(struct fleet *f)
{
	for (unsigned i = 0; i < FLEET_BUCKETS; i++)
		while (f->processes[i])
			drop(&f->processes[i]);
}

static void keep(struct fleet *f, const char *sandbox_id, uint32_t pid)
{
	struct noted_process **list = bucket_of(f, sandbox_id), *p;
	size_t bytes = strlen(sandbox_id) + 1;

	if (*find(f, sandbox_id, pid) || count(f, sandbox_id) >= PROCESSES_MAX)
		return;
	p = calloc(1, sizeof(*p) + bytes);
	if (!p)
		return;
	p->pid = pid;
	memcpy(p->sandbox_id, sandbox_id, bytes);
	p->next = *list;
	*list = p;
}

/* --- records --- */

void activity_process_started(
	struct fleet *f, const char *sandbox_id, const char *key_id, uint32_t pid, json_t *command)
{
	if (!command)
		return;
	put(command, "pid", json_integer(pid));
	keep(f, sandbox_id, pid);
	activity_say(f, sandbox_id, key_id, STORE_ACTIVITY_PROCESS, command);
}

void activity_process_ended(struct fleet *f, const char *sandbox_id, const char *key_id,
	uint32_t pid, const struct agent_exit *how)
{
	struct noted_process **at = find(f, sandbox_id, pid);
	bool killed = how->flags & AGENT_EXIT_SIGNALED;
	json_t *said;

	if (!*at)
		return;
	drop(at);
	said = json_pack("{s:s, s:I, s:I}", "state", "ended", "pid", (json_int_t)pid,
		killed ? "signal" : "exitCode", (json_int_t)how->status);
	if (how->flags & AGENT_EXIT_TIMED_OUT)
		put(said, "timedOut", json_true());
	activity_say(f, sandbox_id, key_id, STORE_ACTIVITY_PROCESS, said);
}

void activity_cell(struct fleet *f, const char *sandbox_id, const char *key_id,
	const char *language, const char *code)
{
	size_t left = ACTIVITY_TEXT_MAX;
	bool cut = false;
	json_t *said = json_pack("{s:s, s:s, s:s*, s:o}", "state", "started", "via", "cell",
		"language", language, "code", text(code, &left, &cut));

	if (said && cut)
		put(said, "cut", json_true());
	activity_say(f, sandbox_id, key_id, STORE_ACTIVITY_PROCESS, said);
}
