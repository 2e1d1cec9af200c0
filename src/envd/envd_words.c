/* The agent's message is a subject and, where there is an errno, ": " with its text. The subject is
 * a path as it was resolved, or a process, a user or a directory with a word before it. E2B's words
 * are put around the subject. The texts of errors in them are those of Go's library: glibc's that
 * begin with a small letter. */
#include "envd/envd_words.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { ANY = 0 }; /* of the classes: what failed with a path and no row above names */

struct words {
	enum agent_type request;
	unsigned class;
	enum connect_code code;
	unsigned status;  /* of /files; 0: the code's */
	const char *text; /* $: the subject; ^: the directory it is in; !: the error's text */
};

static const struct words table[] = {
	{AGENT_STAT, AGENT_ERR_NOT_FOUND, CONNECT_NOT_FOUND, 0, "file not found: lstat $: !"},
	{AGENT_STAT, ANY, CONNECT_INTERNAL, 0, "error getting file info: lstat $: !"},
	{AGENT_LIST, AGENT_ERR_NOT_FOUND, CONNECT_NOT_FOUND, 0, "path not found: lstat $: !"},
	{AGENT_LIST, AGENT_ERR_NOT_DIRECTORY, CONNECT_INVALID_ARGUMENT, 0,
		"path is not a directory: $"},
	{AGENT_LIST, AGENT_ERR_LOOP, CONNECT_FAILED_PRECONDITION, 0,
		"cyclic symlink or chain >255 links at \"$\""},
	{AGENT_MKDIR, AGENT_ERR_EXISTS, CONNECT_ALREADY_EXISTS, 0, "directory already exists: $"},
	{AGENT_MKDIR, AGENT_ERR_NOT_DIRECTORY, CONNECT_INVALID_ARGUMENT, 0,
		"path already exists but it is not a directory: $"},
	{AGENT_MOVE, AGENT_ERR_NOT_FOUND, CONNECT_NOT_FOUND, 0,
		"source file not found: rename $: !"},
	{AGENT_MOVE, ANY, CONNECT_INTERNAL, 0, "error renaming: rename $: !"},
	{AGENT_REMOVE, ANY, CONNECT_INTERNAL, 0, "error removing file or directory: unlinkat $: !"},
	{AGENT_WATCH, AGENT_ERR_NOT_FOUND, CONNECT_NOT_FOUND, 0, "path $ not found: stat $: !"},
	{AGENT_WATCH, AGENT_ERR_NOT_DIRECTORY, CONNECT_INVALID_ARGUMENT, 0,
		"path $ not a directory"},
	{AGENT_READ, AGENT_ERR_NOT_FOUND, CONNECT_NOT_FOUND, 0, "path '$' does not exist"},
	{AGENT_READ, AGENT_ERR_IS_DIRECTORY, CONNECT_INVALID_ARGUMENT, 0,
		"path '$' is a directory"},
	{AGENT_READ, AGENT_ERR_NOT_DIRECTORY, CONNECT_INTERNAL, 0,
		"error checking if path exists '$': stat $: !"},
	{AGENT_WRITE, AGENT_ERR_IS_DIRECTORY, CONNECT_INVALID_ARGUMENT, 0,
		"path is a directory: $"},
	{AGENT_WRITE, AGENT_ERR_NOT_DIRECTORY, CONNECT_INTERNAL, 0,
		"error ensuring directories: path is a file: ^"},
	{AGENT_WRITE, AGENT_ERR_NO_SPACE, CONNECT_INTERNAL, 507, "not enough disk space available"},
	{AGENT_EXEC, AGENT_ERR_BAD_CWD, CONNECT_INVALID_ARGUMENT, 0, "cwd '$' does not exist"},
	{AGENT_INPUT, AGENT_ERR_INPUT_CLOSED, CONNECT_INTERNAL, 0,
		"error writing to stdin: stdin not enabled or closed"},
	{AGENT_RESIZE_PROCESS, AGENT_ERR_WRONG_KIND, CONNECT_INTERNAL, 0,
		"error resizing tty: tty not assigned to process"},
	{AGENT_CLOSE_INPUT, AGENT_ERR_WRONG_KIND, CONNECT_UNKNOWN, 0,
		"error closing stdin: cannot close stdin for PTY process — send Ctrl+D (0x04) "
		"instead"},
};

/* The length of the subject: all of the message where no text of an error follows. */
static size_t subject_length(const struct agent_error *m)
{
	char tail[128];
	size_t n = strlen(m->message);

	(void)snprintf(tail, sizeof(tail), ": %s", strerror((int)m->err)); /* none is longer */
	return m->err && str_ends_with(m->message, tail) ? n - strlen(tail) : n;
}

struct line {
	char *text;
	size_t size, n;
};

static void add(struct line *l, const char *text, size_t n)
{
	size_t room = l->size - 1 - l->n;

	n = n < room ? n : room;
	memcpy(l->text + l->n, text, n);
	l->n += n;
	l->text[l->n] = '\0';
}

static void add_error(struct line *l, uint32_t err)
{
	const char *text = strerror((int)err);
	const char first = (char)tolower((unsigned char)text[0]);

	add(l, &first, 1);
	add(l, text + 1, strlen(text + 1));
}

static void add_parent(struct line *l, const char *path, size_t n)
{
	while (n > 1 && path[n - 1] != '/')
		n--;
	add(l, path, n > 1 ? n - 1 : n);
}

static void fill(struct line *l, const char *text, const char *subject, size_t n, uint32_t err)
{
	for (; *text; text++)
		if (*text == '$')
			add(l, subject, n);
		else if (*text == '!')
			add_error(l, err);
		else if (*text == '^')
			add_parent(l, subject, n);
		else
			add(l, text, 1);
}

/* Cuts a word off the front. */
static bool skip(const char **subject, size_t *n, const char *word)
{
	size_t length = strlen(word);

	if (*n < length || strncmp(*subject, word, length) != 0)
		return false;
	*subject += length;
	*n -= length;
	return true;
}

/* Requests about files over plain HTTP have other words for it than RPCs. */
static const char *user_text(const struct agent_error *m)
{
	return m->request == AGENT_READ || m->request == AGENT_WRITE
		       ? "error looking up user '$': user: unknown user $"
		       : "invalid username: '$'";
}

static const char *kind_text(const char *message)
{
	return str_ends_with(message, " a terminal")
		       ? "error writing to stdin: tty assigned to process — input should be "
			 "written to the pty, not the stdin"
		       : "error writing to tty: tty not assigned to process — input should be "
			 "written to the stdin, not the tty";
}

static bool fits(const struct words *w, const struct agent_error *m)
{
	if (w->request != m->request)
		return false;
	return w->class == ANY ? m->err && m->message[0] == '/' : w->class == m->class;
}

static const struct words *find(const struct agent_error *m)
{
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++)
		if (fits(&table[i], m))
			return &table[i];
	return NULL;
}

/* What is no row of the table, as the text depends on the message, and the code is as before. */
static const char *special_text(const struct agent_error *m, const char **subject, size_t *n)
{
	if (m->class == AGENT_ERR_BAD_USER && skip(subject, n, "user "))
		return user_text(m);
	if (m->class == AGENT_ERR_WRONG_KIND && m->request == AGENT_INPUT)
		return kind_text(m->message);
	if (m->class != AGENT_ERR_NOT_FOUND || m->err != ESRCH)
		return NULL;
	if (skip(subject, n, "process with tag "))
		return "process with tag $ not found";
	return skip(subject, n, "process ") ? "process with pid $ not found" : NULL;
}

bool envd_words_of(const struct agent_error *m, char *text, size_t size, enum connect_code *code,
	unsigned *status)
{
	struct line l = {text, size, 0};
	const char *subject = m->message, *special;
	const struct words *w;
	size_t n;

	if (!subject || !subject[0] || (m->class == AGENT_ERR_BAD_CWD && m->err != ENOENT))
		return false;
	n = subject_length(m);
	special = special_text(m, &subject, &n);
	w = special ? NULL : find(m);
	if (!special && !w)
		return false;
	(void)skip(&subject, &n, "working directory "); /* a path does not begin like that */
	fill(&l, special ? special : w->text, subject, n, m->err);
	if (w) {
		*code = w->code;
		*status = w->status;
	}
	return true;
}
