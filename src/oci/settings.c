#include "oci/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "base/words.h"

enum { SHOWN = 60 };

/* The notes are bounded: one that does not fit is left out. */
static void note(struct buf *notes, const char *what, const char *value)
{
	char shown[SHOWN];

	(void)snprintf(shown, sizeof(shown), "%s", value); /* a long one is cut */
	for (char *p = shown; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	(void)buf_printf(notes, "%s: %s\n", what, shown);
}

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int apply_env(
	const struct oci_config *c, struct image_config *to, struct buf *notes, struct error *e)
{
	for (size_t i = 0; i < c->env.count; i++) {
		int r = config_add_env(to, c->env.items[i]);

		if (r == -ENOMEM)
			return no_memory(e);
		if (r < 0)
			note(notes, "this variable of the image is left out", c->env.items[i]);
	}
	return 0;
}

/* --- the user --- */

bool oci_settings_find_user(const char *passwd, uint64_t id, char out[CONFIG_USER_MAX + 1])
{
	for (const char *p = passwd; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		size_t n = strcspn(p, ":\n");
		const char *number = p[n] == ':' ? strchr(p + n + 1, ':') : NULL;
		char *end;

		if (!number || n == 0 || n > CONFIG_USER_MAX || number[1] < '0' || number[1] > '9')
			continue;
		if (strtoull(number + 1, &end, 10) != id || *end != ':')
			continue;
		memcpy(out, p, n);
		out[n] = '\0';
		return true;
	}
	return false;
}

/* The number behind the ":" of the user; 0 if there is none, as in docker. */
static uint32_t group_of(const char *user)
{
	const char *group = strchr(user, ':');
	uint64_t id = 0;

	if (!group || str_parse_u64(group + 1, &id) < 0 || id > INT32_MAX)
		return 0;
	return (uint32_t)id;
}

static int number_to_name(const char *user, uint64_t id, struct rootfs *f,
	char out[CONFIG_USER_MAX + 1], struct error *e)
{
	struct tree_sink *sink = rootfs_sink(f);
	_cleanup_free_ char *passwd = NULL;

	if (sink->ops->read(sink, "etc/passwd", &passwd, NULL) < 0)
		passwd = NULL; /* then nobody has a name */
	if (oci_settings_find_user(passwd, id, out))
		return 0;
	if (id == 0) {
		(void)snprintf(out, CONFIG_USER_MAX + 1, "root");
		return 0;
	}
	(void)snprintf(out, CONFIG_USER_MAX + 1, "uid%llu", (unsigned long long)id);
	return rootfs_add_login(f, out, (uint32_t)id, group_of(user), e);
}

static int apply_user(const struct oci_config *c, struct rootfs *f, struct image_config *to,
	struct buf *notes, struct error *e)
{
	char name[CONFIG_USER_MAX + 1] = "root";
	size_t n = strcspn(c->user, ":");
	uint64_t id = 0;
	int r = 0;

	if (n > CONFIG_USER_MAX)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"the image's user has a name of more than %d characters", CONFIG_USER_MAX);
	if (n > 0)
		(void)snprintf(name, sizeof(name), "%.*s", (int)n, c->user);
	if (str_parse_u64(name, &id) == 0 && id <= INT32_MAX)
		r = number_to_name(c->user, id, f, name, e);
	if (c->user[n] == ':' && !str_starts_with(name, "uid"))
		note(notes, "the user's group is the one that /etc/passwd has, not",
			c->user + n + 1);
	if (r == 0 && config_set_text(&to->user, name) < 0)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL, "the image's user is unusable");
	return r;
}

/* --- the directory --- */

static int apply_workdir(const struct oci_config *c, struct image_config *to, struct error *e)
{
	char path[TREE_PATH_MAX], text[TREE_PATH_MAX + 1];

	if (oci_settings_workdir(c, path, e) < 0)
		return -EINVAL;
	(void)snprintf(text, sizeof(text), "/%s", path); /* fits */
	return config_set_text(&to->workdir, text) < 0
		       ? error_set(e, ERROR_BAD_IMAGE, EINVAL,
				 "the image's working directory is unusable")
		       : 0;
}

int oci_settings_workdir(const struct oci_config *c, char out[TREE_PATH_MAX], struct error *e)
{
	if (tree_clean_path(c->workdir, out))
		return 0;
	return error_set(e, ERROR_BAD_IMAGE, EINVAL,
		"the image's working directory is unusable: it has .. or is too long");
}

/* --- the command --- */

static int add_words(struct buf *line, const struct oci_strings *words)
{
	return words_join(line, (const char *const *)words->items, words->count);
}

static int apply_command(
	const struct oci_config *c, struct image_config *to, struct buf *notes, struct error *e)
{
	struct buf line = BUF_INIT(CONFIG_TEXT_MAX);
	int r = *to->start_command ? -EEXIST : 0;

	if (r == 0)
		r = add_words(&line, &c->entrypoint);
	if (r == 0)
		r = add_words(&line, &c->command);
	if (r == 0)
		r = buf_add_u8(&line, 0);
	if (r == 0)
		r = config_set_text(&to->start_command, (const char *)buf_head(&line));
	buf_done(&line);
	if (r == -ENOMEM)
		return no_memory(e);
	if (r < 0 && r != -EEXIST)
		note(notes, "the image's command is left out",
			"it is too long or has control characters");
	return 0;
}

/* document.h has checked them. */
static int apply_triggers(const struct oci_config *c, struct image_config *to, struct error *e)
{
	int r = 0;

	for (size_t i = 0; i < c->triggers.count && r == 0; i++)
		r = config_add_trigger(to, c->triggers.items[i]);
	return r < 0 ? no_memory(e) : 0;
}

int oci_settings_apply(const struct oci_config *c, struct rootfs *f, struct image_config *to,
	struct buf *notes, struct error *e)
{
	int r = apply_env(c, to, notes, e);

	if (r == 0)
		r = apply_user(c, f, to, notes, e);
	if (r == 0)
		r = apply_workdir(c, to, e);
	if (r == 0)
		r = apply_triggers(c, to, e);
	return r < 0 ? r : apply_command(c, to, notes, e);
}
