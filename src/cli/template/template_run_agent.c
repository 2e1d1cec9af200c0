#include "cli/template/template_run_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/template/template_files.h"
#include "dockerfile/dockerfile.h"
#include "image/image.h"
#include "image/template.h"
#include "proto/agent_settings.h"
#include "proto/json_tree.h"

static const char directory[] = "agent";

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

/* --- the plan --- */

/* Clients know their archive, not where it lies. */
static int unpack_archive(const char *files, int dirfd, struct disk_budget *budget, struct error *e)
{
	struct error why = {0};
	int r = template_files_unpack(dirfd, directory, files, budget, &why);
	const char *text = why.message;

	if (r == 0)
		return 0;
	if (str_starts_with(text, files))
		text += strlen(files) + strspn(text + strlen(files), ": ");
	return error_set(e, why.code, why.err, "the archive: %s", text);
}

static int unpack_files(struct run_agent *a, const char *files, int dirfd,
	struct disk_budget *budget, struct error *e)
{
	int r = files ? unpack_archive(files, dirfd, budget, e) : 0;

	if (!files && mkdirat(dirfd, directory, 0755) < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make a directory");
	if (r == 0)
		a->fd = openat(dirfd, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r < 0 || a->fd >= 0)
		return r;
	return error_set_errno(e, ERROR_INTERNAL, errno, "cannot open the agent's files");
}

/* The builder takes the Dockerfile as it is, and other plans as steps. */
static int add_plan(const struct agent_plan *p, struct spec *s, struct error *e)
{
	if (p->dockerfile) {
		dockerfile_done(&s->file);
		return dockerfile_parse(p->dockerfile, p->dockerfile_bytes, &s->file, e);
	}
	return json_object_set(s->root, "steps", p->steps) < 0 ? no_memory(e) : 0;
}

static int take_size(
	const json_t *settings, const char *name, uint32_t wanted, uint32_t *size, struct error *e)
{
	if (!json_object_get(settings, name))
		return 0;
	if (wanted > *size)
		return error_set(e, ERROR_LIMIT, ERANGE,
			"agent.json: %s must be at most %u, for which the host has made room: give "
			"more in the settings of the request",
			name, *size);
	*size = wanted;
	return 0;
}

/* What agent.json says goes for the snapshot, too. The daemon has checked the request's sizes, and
 * made room for them. */
static int take_sizes(const struct agent_plan *p, struct spec *s, struct error *e)
{
	struct agent_sizes z = agent_settings_sizes(p->settings);
	int r = take_size(p->settings, "cpus", z.cpus, &s->cpus, e);

	return r < 0 ? r : take_size(p->settings, "memory", z.memory_mb, &s->memory_mb, e);
}

int run_agent_unpack(
	struct run_agent *a, struct spec *s, int dirfd, struct disk_budget *budget, struct error *e)
{
	const json_t *agent = json_object_get(s->root, "agent");
	const char *files = json_tree_word(agent, "files");
	int r = unpack_files(a, files, dirfd, budget, e);

	a->is = true;
	a->registry = json_tree_word(agent, "registry");
	if (r == 0)
		r = agent_plan_make(files ? a->fd : -1, agent, &a->plan, e);
	if (r == 0)
		r = take_sizes(&a->plan, s, e);
	if (r == 0 && !a->plan.dockerfile)
		a->caches = json_tree_word(agent, "caches");
	return r == 0 ? add_plan(&a->plan, s, e) : r;
}

/* --- what it stands on --- */

/* Whether FROM may name a template of the operator that is not there. The daemon knows. */
static bool may_be_missing(const struct home *home, const struct dockerfile *d, size_t stage)
{
	const char *base = d->stages[stage].base;
	int fd;

	for (size_t i = 0; i < stage; i++)
		if (strcmp(d->stages[i].name, base) == 0)
			return false;
	if (!str_is_name(base))
		return false;
	fd = template_open(home, base, NULL);
	if (fd >= 0)
		(void)close(fd); /* a directory */
	return fd < 0;
}

int run_agent_needs(const struct run_agent *a, struct spec *s, const struct home *home,
	run_agent_need_fn need, void *opaque, struct error *e)
{
	const char *given = json_tree_word(json_object_get(s->root, "agent"), "base");
	_cleanup_free_ char *base = NULL;
	int r = 0;

	for (size_t i = 0; a->plan.dockerfile && i < s->file.stage_count && r == 0; i++) {
		_cleanup_free_ char *name = NULL;

		if (may_be_missing(home, &s->file, i))
			r = need(opaque, false, s->file.stages[i].base, &name, e);
	}
	if (r < 0 || a->plan.dockerfile)
		return r;
	if (!given)
		r = need(opaque, true, a->plan.base, &base, e);
	if (r == 0 && json_object_set_new(s->root, "base",
			      json_pack("{s:s}", "template", given ? given : base)) < 0)
		return no_memory(e);
	return r;
}

int run_agent_ignore(const struct run_agent *a, struct ignore *ret, struct error *e)
{
	static const char usual[] = "**/node_modules\n.git\n**/__pycache__\n.venv\n.requirements\n";
	struct buf text = BUF_INIT(IGNORE_BYTES_MAX + sizeof(usual));
	_cleanup_free_ char *own = NULL;
	size_t n = 0;
	int r = file_read_foreign(a->fd, ".dockerignore", IGNORE_BYTES_MAX, &own, &n);

	if (r == -EFBIG)
		return error_set(e, ERROR_LIMIT, EFBIG, ".dockerignore has more than %d bytes",
			IGNORE_BYTES_MAX);
	r = a->plan.dockerfile ? 0 : buf_add_str(&text, usual);
	if (r == 0 && own)
		r = buf_add(&text, own, n);
	r = r < 0 ? no_memory(e)
		  : ignore_parse((const char *)buf_head(&text), buf_len(&text), ret, e);
	buf_done(&text);
	if (r < 0)
		error_prefix(e, ".dockerignore");
	return r;
}

/* --- what the image says --- */

static int find_entry(struct run_agent *a, struct image_config *c, struct error *e)
{
	if (a->plan.entry)
		return 0;
	if (!*c->start_command)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the Dockerfile has neither ENTRYPOINT nor CMD: say what starts the agent "
			"there, or as \"entry\" in agent.json");
	a->plan.entry = strdup(c->start_command);
	return a->plan.entry ? 0 : no_memory(e);
}

int run_agent_take_config(
	struct run_agent *a, const struct home *home, const char *name, struct error *e)
{
	struct image m = {0};
	int r = image_load(home, name, &m, e);

	if (r == 0) {
		a->dir = strdup(m.config.workdir);
		a->user = strdup(m.config.user);
		r = a->dir && a->user ? find_entry(a, &m.config, e) : no_memory(e);
	}
	image_done(&m);
	return r;
}

static int add_env(struct image_config *c, const char *name, const char *value)
{
	_cleanup_free_ char *entry = str_printf("%s=%s", name, value);

	return entry ? config_add_env(c, entry) : -ENOMEM;
}

/* The program waits for its input in the snapshot (sandbox/entry.h), and is not started there as
 * another kind of template's. */
static int set_entry(
	struct run_agent *a, struct image_config *c, const json_t *answer, struct error *e)
{
	json_t *env = json_object_get(answer, "env"), *value;
	const char *trust = json_string_value(json_object_get(answer, "trust")), *key;
	char port[16];
	/* that of a Dockerfile is the agent; a template that it stands on may have services */
	int r = a->plan.dockerfile ? config_set_text(&c->start_command, "") : 0;

	(void)snprintf(port, sizeof(port), "%d", AGENT_SETTING_PORT); /* fits */
	if (r == 0 && strcmp(json_tree_text(a->plan.settings, "protocol"), "http") == 0)
		r = add_env(c, "PORT", port);
	json_object_foreach(env, key, value)
	{
		if (r == 0)
			r = add_env(c, key, json_string_value(value));
	}
	if (r == 0)
		r = config_set_text(&c->entry_command, env ? a->plan.entry : "");
	if (r == 0 && trust) {
		a->trust = strdup(trust);
		r = a->trust ? 0 : -ENOMEM;
	}
	return r < 0 ? error_set(
			       e, ERROR_LIMIT, -r, "the agent's command or variables are too long")
		     : 0;
}

int run_agent_take_answer(struct run_agent *a, const struct home *home, const char *name,
	const char *text, struct error *e)
{
	_cleanup_close_ int fd =
		openat(home->area_fd[HOME_IMAGES], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	json_t *answer = json_tree_stored(text);
	struct image m = {0};
	int r = image_load(home, name, &m, e);

	a->disk_mb = (uint32_t)json_integer_value(json_object_get(answer, "diskMB"));
	if (r == 0)
		r = set_entry(a, &m.config, answer, e);
	if (r == 0)
		r = fd < 0 ? error_set_errno(e, ERROR_INTERNAL, EBADF, "the image is missing")
			   : image_save(fd, &m, e);
	image_done(&m);
	json_decref(answer);
	return r;
}

json_t *run_agent_json(const struct run_agent *a)
{
	const json_t *protocol = json_object_get(a->plan.settings, "protocol");

	return json_pack("{s:{s:s, s:s, s:s, s:s, s:s, s:O}}", "agent", "kind", a->plan.kind,
		"entry", a->plan.entry, "protocol",
		protocol ? json_string_value(protocol) : "stdin", "dir", a->dir, "user", a->user,
		"settings", a->plan.settings);
}

void run_agent_done(struct run_agent *a)
{
	cleanup_close_p(&a->fd);
	agent_plan_done(&a->plan);
	free(a->dir);
	free(a->user);
	free(a->trust);
}
