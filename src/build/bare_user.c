#include "build/bare_user.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

enum {
	TABLE_MAX = 1 << 20,
	FIRST_ID = 1000,
	LAST_ID = 60000,
	NAME_MAX_BYTES = 32,
	LINE_BYTES = 160
};

static const char passwd_path[] = "/etc/passwd", group_path[] = "/etc/group",
		  shadow_path[] = "/etc/shadow";

static bool needs_none(const char *name)
{
	return strcmp(name, "root") == 0 || strncmp(name, "root:", 5) == 0 ||
	       (*name >= '0' && *name <= '9');
}

static bool can_be_made(const char *name)
{
	return *name && *name != '-' && strlen(name) <= NAME_MAX_BYTES &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] == '\0';
}

/* Reads a table of users or groups; one that is missing is empty. malloc'ed. */
static int read_table(struct machine *m, const char *path, char **ret, struct error *e)
{
	_cleanup_free_ char *text = calloc(1, TABLE_MAX + 1);
	struct error why = {0};
	size_t n = 0;
	int r = text ? machine_read(m, path, 0, text, TABLE_MAX, &n, &why) : -ENOMEM;

	if (!text)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r < 0 && r != -ENOENT)
		return error_set(e, why.code, why.err, "%s", why.message);
	*ret = TAKE_PTR(text);
	return 0;
}

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : line + strlen(line);
}

/* The name may have a group behind a colon. */
static bool has_name(const char *table, const char *name)
{
	size_t n = strcspn(name, ":");

	for (const char *p = table; *p; p = next_line(p))
		if (strncmp(p, name, n) == 0 && p[n] == ':')
			return true;
	return false;
}

/* The field of a line behind the n-th colon, or NULL. */
static const char *field(const char *line, unsigned n)
{
	for (; n && *line && *line != '\n'; line++)
		n -= *line == ':';
	return n ? NULL : line;
}

/* Whether a line has this number in its third field. The second one may be empty. */
static bool has_id(const char *table, unsigned id)
{
	for (const char *p = table; *p; p = next_line(p)) {
		const char *third = field(p, 2);

		if (third && strchr("0123456789", *third) && *third &&
			strtoul(third, NULL, 10) == id)
			return true;
	}
	return false;
}

static int add_line(
	struct machine *m, const char *path, const char *table, const char *line, struct error *e)
{
	size_t n = strlen(table);
	_cleanup_free_ char *text = str_printf("%s%s", n && table[n - 1] != '\n' ? "\n" : "", line);

	return text ? machine_write(m, path, 0644, n > 0, text, strlen(text), e)
		    : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

static int make_home(struct machine *m, const char *name, struct error *e)
{
	_cleanup_free_ char *path = str_printf("/home/%s", name);
	const struct agent_mkdir above = {.mode = 0755, .user = "root", .path = "/home"},
				 home = {.mode = 0755, .user = name, .path = path};
	struct agent_event ev;
	struct error why = {0};
	int r = path ? machine_call(m, AGENT_MKDIR, &above, AGENT_ENTRY, &ev, &why)
		     : error_set(&why, ERROR_NO_SPACE, ENOMEM, "out of memory");

	if (r == 0 || why.code == ERROR_EXISTS)
		r = machine_call(m, AGENT_MKDIR, &home, AGENT_ENTRY, &ev, &why);
	return r < 0 && why.code != ERROR_EXISTS
		       ? error_set(e, why.code, why.err, "%s", why.message)
		       : 0;
}

/* Without a line there, "x" in /etc/passwd means different things to programs that check
 * passwords. An image without this file has none. */
static int add_shadow(struct machine *m, const char *name, struct error *e)
{
	_cleanup_free_ char *table = NULL;
	char line[LINE_BYTES];
	int r = read_table(m, shadow_path, &table, e);

	(void)snprintf(line, sizeof(line), "%s:*:19000:0:99999:7:::\n", name); /* fits */
	if (r < 0 || !*table || has_name(table, name))
		return r;
	return add_line(m, shadow_path, table, line, e);
}

static int add_user(
	struct machine *m, const char *name, const char *users, const char *groups, struct error *e)
{
	char line[LINE_BYTES];
	unsigned id = FIRST_ID;
	int r;

	while (id < LAST_ID && (has_id(users, id) || has_id(groups, id)))
		id++;
	(void)snprintf(line, sizeof(line), "%s:x:%u:%u::/home/%s:/sbin/nologin\n", name, id, id,
		name); /* these fit */
	r = add_line(m, passwd_path, users, line, e);
	(void)snprintf(line, sizeof(line), "%s:x:%u:\n", name, id);
	if (r == 0 && !has_name(groups, name))
		r = add_line(m, group_path, groups, line, e);
	if (r == 0)
		r = add_shadow(m, name, e);
	return r < 0 ? r : make_home(m, name, e);
}

int bare_user_make(struct machine *m, const char *name, struct error *e)
{
	_cleanup_free_ char *users = NULL, *groups = NULL;
	int r;

	if (needs_none(name))
		return 0;
	r = read_table(m, passwd_path, &users, e);
	if (r == 0)
		r = read_table(m, group_path, &groups, e);
	if (r < 0 || has_name(users, name))
		return r;
	return can_be_made(name)
		       ? add_user(m, name, users, groups, e)
		       : error_set(e, ERROR_USAGE, EINVAL,
				 "there is no user %s, and none of this name can be made", name);
}
