/* `mayfly template ls|show|rm`. The other verbs have files of their own. */
#include "cli/template/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/json.h"
#include "cli/table.h"
#include "image/home.h"
#include "image/template.h"
#include "image/workdir.h"

#define MIB UINT64_C(0x100000)

enum { SNAPSHOTS_TEXT_MAX = 256 };

/* Names of a template's snapshots ("2c-512m"), sorted; a malloc'ed NULL-terminated list or NULL. */
static char **snapshots(const struct home *home, const char *name)
{
	_cleanup_close_ int fd = template_open(home, name, NULL);
	_cleanup_close_ int dir = -1;
	char **names = NULL;

	if (fd < 0)
		return NULL;
	dir = openat(fd, "snapshots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || workdir_list(dir, &names) < 0)
		return NULL;
	return names;
}

static json_t *snapshots_json(const struct home *home, const char *name)
{
	char **names = snapshots(home, name);
	json_t *list = json_array();

	for (char **n = names; n && *n; n++)
		(void)json_array_append_new(list, json_text(*n)); /* shows as missing */
	workdir_list_free(names);
	return list;
}

static void snapshots_text(const struct home *home, const char *name, char out[SNAPSHOTS_TEXT_MAX])
{
	char **names = snapshots(home, name);
	size_t at = 0;

	out[0] = '\0';
	for (char **n = names; n && *n && at < SNAPSHOTS_TEXT_MAX; n++)
		at += (size_t)snprintf(out + at, SNAPSHOTS_TEXT_MAX - at, "%s%s",
			n == names ? "" : " ", *n); /* a long list is cut */
	workdir_list_free(names);
}

static json_t *list_json(char *const *items, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(list, json_text(items[i])); /* shows as missing */
	return list;
}

static json_t *to_json(const struct home *home, const struct template *t)
{
	const struct image_config *c = &t->config;
	struct template_bytes bytes = template_bytes(home, t->name);

	return json_pack(
		"{s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:s, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, "
		"s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:o}",
		"name", t->name, "status", "ready", "description", json_text(c->description),
		"created", json_time(t->created_s * NS_PER_S), "file_system",
		image_kind_name(t->kind), "kernel", json_text(t->kernel_release), "agent_version",
		json_text(t->agent_version), "image_digest", t->image_digest, "cpus", (int)c->cpus,
		"memory_bytes", (json_int_t)(c->memory_mb * MIB), "disk_bytes",
		(json_int_t)(c->disk_mb * MIB), "user", json_text(c->user), "workdir",
		json_text(c->workdir), "network", json_text(c->network), "env",
		list_json(c->env, c->env_count), "onbuild",
		list_json(c->triggers, c->trigger_count), "start_command",
		json_text(c->start_command), "ready_command", json_text(c->ready_command),
		"warm_command", json_text(c->warm_command), "entry_command",
		json_text(c->entry_command), "rootfs_disk_bytes", (json_int_t)t->rootfs_disk_bytes,
		"snapshot_disk_bytes", (json_int_t)t->snapshot_disk_bytes, "unique_bytes",
		(json_int_t)bytes.unique, "shared_bytes", (json_int_t)bytes.shared, "snapshots",
		snapshots_json(home, t->name));
}

/* --- ls --- */

struct ls_options {
	struct cli_common common;
	bool quiet;
};

struct ls {
	const struct ls_options *o;
	const struct home *home;
	struct table table;
	json_t *list;
};

static void ls_quiet(const struct template *t, const struct error *damage)
{
	if (!damage)
		printf("%s\n", t->name);
}

static void ls_json(struct ls *l, const struct template *t, const struct error *damage)
{
	json_t *one = damage ? json_pack("{s:s, s:s, s:o}", "name", t->name, "status", "damaged",
				       "problem", json_text(damage->message))
			     : to_json(l->home, t);

	(void)json_array_append_new(l->list, one); /* shows as missing */
}

static void ls_row(struct ls *l, const struct template *t, const struct error *damage)
{
	char cpus[16], memory[16], disk[16], unique[16], shared[16], age[TABLE_AGE_BYTES];
	const char *const row[] = {
		t->name, cpus, memory, disk, unique, shared, age, t->config.description};
	const char *const bad[] = {
		t->name, "-", "-", "-", "-", "-", "-", "damaged: see mayfly template show"};
	struct template_bytes bytes;

	if (damage) {
		table_add(&l->table, bad);
		return;
	}
	(void)snprintf(cpus, sizeof(cpus), "%u", t->config.cpus);
	(void)str_format_bytes(t->config.memory_mb * MIB, memory);
	(void)str_format_bytes(t->config.disk_mb * MIB, disk);
	bytes = template_bytes(l->home, t->name);
	(void)str_format_bytes(bytes.unique, unique);
	(void)str_format_bytes(bytes.shared, shared);
	(void)table_age(t->created_s * NS_PER_S, age);
	table_add(&l->table, row);
}

static int ls_one(void *opaque, const struct template *t, const struct error *damage)
{
	struct ls *l = opaque;

	if (l->o->common.json)
		ls_json(l, t, damage);
	else if (l->o->quiet)
		ls_quiet(t, damage);
	else
		ls_row(l, t, damage);
	return 0;
}

static int ls_run(void *values, int argc, char **argv, struct error *e)
{
	static const char *const heading[] = {
		"NAME", "CPUS", "MEMORY", "DISK", "UNIQUE", "SHARED", "AGE", "DESCRIPTION"};
	struct home home = HOME_INIT;
	struct ls l = {.o = values, .home = &home, .table.columns = ARRAY_SIZE(heading)};
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0)
		r = home_open(NULL, &home, e);
	if (r < 0)
		return r;
	l.list = json_array();
	if (!l.o->common.json && !l.o->quiet)
		table_add(&l.table, heading);
	r = template_each(&home, ls_one, &l, e);
	if (table_print(&l.table) < 0 && r == 0)
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (r == 0 && l.o->common.json)
		r = json_print(json_incref(l.list), e);
	json_decref(l.list);
	home_close(&home);
	return r;
}

static const struct option_spec ls_options[] = {
	{"quiet", 'q', OPTION_FLAG, NULL, "print names only", offsetof(struct ls_options, quiet), 0,
		0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

const struct cli_verb cli_verb_template_ls = {
	.name = "ls",
	.arguments = "",
	.summary = "List the templates",
	.options = ls_options,
	.values_bytes = sizeof(struct ls_options),
	.run = ls_run,
};

/* --- show --- */

static void show_text(const struct home *home, const struct template *t)
{
	const struct image_config *c = &t->config;
	struct template_bytes bytes = template_bytes(home, t->name);
	char list[SNAPSHOTS_TEXT_MAX], a[16], b[16], age[TABLE_AGE_BYTES];

	snapshots_text(home, t->name, list);
	printf("name         %s\n", t->name);
	printf("description  %s\n", c->description);
	printf("built        %s ago\n", table_age(t->created_s * NS_PER_S, age));
	printf("size         root file system %s, snapshots %s\n",
		str_format_bytes(t->rootfs_disk_bytes, a),
		str_format_bytes(t->snapshot_disk_bytes, b));
	printf("on disk      %s of its own, %s shared\n", str_format_bytes(bytes.unique, a),
		str_format_bytes(bytes.shared, b));
	printf("sandboxes    %u CPUs, %s memory, ", c->cpus,
		str_format_bytes(c->memory_mb * MIB, a));
	printf("%s disk\n", str_format_bytes(c->disk_mb * MIB, a));
	printf("snapshots    %s\n", *list ? list : "none");
	printf("file system  %s\n", image_kind_name(t->kind));
	printf("kernel       %s\n", t->kernel_release);
	printf("agent        %s\n", t->agent_version);
	printf("image        sha256:%s\n", t->image_digest);
	printf("user         %s\n", *c->user ? c->user : "root");
	printf("workdir      %s\n", *c->workdir ? c->workdir : "the user's home");
	if (*c->network)
		printf("network      %s\n", c->network);
	if (*c->start_command)
		printf("start        %s\n", c->start_command);
	if (*c->ready_command)
		printf("ready        %s\n", c->ready_command);
	if (*c->warm_command)
		printf("warm         %s\n", c->warm_command);
	if (*c->entry_command)
		printf("entry        %s\n", c->entry_command);
	for (size_t i = 0; i < c->env_count; i++)
		printf("env          %s\n", c->env[i]);
	for (size_t i = 0; i < c->trigger_count; i++)
		printf("onbuild      %s\n", c->triggers[i]);
}

static int show_run(void *values, int argc, char **argv, struct error *e)
{
	const struct cli_common *o = values;
	struct home home = HOME_INIT;
	struct template t = {0};
	int r;

	if (argc != 1)
		return error_set(e, ERROR_USAGE, EINVAL, "give the name of one template");
	r = home_open(NULL, &home, e);
	if (r == 0)
		r = template_load(&home, argv[0], &t, e);
	if (r == 0) {
		if (o->json)
			r = json_print(to_json(&home, &t), e);
		else
			show_text(&home, &t);
		template_done(&t);
	}
	home_close(&home);
	return r;
}

static const struct option_spec show_options[] = {
	CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};

const struct cli_verb cli_verb_template_show = {
	.name = "show",
	.arguments = "TEMPLATE",
	.summary = "Say what a template is made of",
	.options = show_options,
	.values_bytes = sizeof(struct cli_common),
	.run = show_run,
};

/* --- rm --- */

struct rm_options {
	struct cli_common common;
	bool keep_image;
};

/* The template, and the image that it was made from. One that is only an image is removed too. */
static int remove_one(
	const struct rm_options *o, const struct home *home, const char *name, struct error *e)
{
	struct error missing = {0};
	int image = -ENOENT, r;

	if (!o->keep_image && str_is_tagged_name(name))
		image = workdir_remove(home->area_fd[HOME_IMAGES], name);
	r = template_remove(home, name, &missing);

	if (r < 0 && !(missing.code == ERROR_NOT_FOUND && image == 0)) {
		if (e->code == ERROR_NONE)
			*e = missing;
		return r;
	}
	if (image < 0 && image != -ENOENT)
		return error_set_errno(e, ERROR_HOST, -image, "cannot remove image '%s'", name);
	return 0;
}

static int rm_run(void *values, int argc, char **argv, struct error *e)
{
	struct home home = HOME_INIT;
	int r;

	if (argc == 0)
		return error_set(e, ERROR_USAGE, EINVAL, "give names of templates");
	r = home_open(NULL, &home, e);
	/* all of them, though one may fail; the first failure is reported */
	for (int i = 0; r == 0 && i < argc; i++)
		if (remove_one(values, &home, argv[i], e) == 0)
			printf("%s\n", argv[i]);
	home_close(&home);
	return e->code == ERROR_NONE ? r : -EIO;
}

static const struct option_spec rm_options[] = {
	{"keep-image", 0, OPTION_FLAG, NULL, "leave the image for another build",
		offsetof(struct rm_options, keep_image), 0, 0, false},
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

const struct cli_verb cli_verb_template_rm = {
	.name = "rm",
	.arguments = "TEMPLATE...",
	.summary = "Remove templates",
	.description = "Running sandboxes go on, because they hold the files open. Prints the "
		       "removed names.",
	.options = rm_options,
	.values_bytes = sizeof(struct rm_options),
	.run = rm_run,
};

/* --- the group --- */

static const struct cli_verb *const verbs[] = {&cli_verb_template_build, &cli_verb_template_ls,
	&cli_verb_template_show, &cli_verb_template_history, &cli_verb_template_tag,
	&cli_verb_template_export, &cli_verb_template_import, &cli_verb_template_rm,
	&cli_verb_template_prune, &cli_verb_template_run_build, NULL};

const struct cli_verb cli_verb_template = {
	.name = "template",
	.arguments = "",
	.summary = "Build, list, copy and remove templates",
	.verbs = verbs,
};
