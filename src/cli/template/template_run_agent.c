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
#include "build/dockerfile.h"
#include "cli/template/template_files.h"
#include "image/image.h"
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
	if (json_object_set_new(s->root, "base", json_pack("{s:s}", "template", p->base)) < 0 ||
		json_object_set(s->root, "steps", p->steps) < 0)
		return no_memory(e);
	return 0;
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
	return r == 0 ? add_plan(&a->plan, s, e) : r;
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

/* The program waits for its input in the snapshot (sandbox/entry.h). Not so with variables, which
 * come with an invocation. */
static int set_entry(const struct run_agent *a, struct image_config *c, struct error *e)
{
	const json_t *s = a->plan.settings;
	char port[16];
	int r = 0;

	(void)snprintf(port, sizeof(port), "PORT=%d", AGENT_SETTING_PORT); /* fits */
	if (strcmp(json_tree_text(s, "protocol"), "http") == 0)
		r = config_add_env(c, port);
	if (r == 0 && json_object_size(json_object_get(s, "env")) == 0 &&
		json_object_size(json_object_get(s, "secrets")) == 0)
		r = config_set_text(&c->entry_command, a->plan.entry);
	return r < 0 ? error_set(
			       e, ERROR_LIMIT, -r, "the agent's command or variables are too long")
		     : 0;
}

static int take(struct run_agent *a, struct image *m, struct error *e)
{
	struct image_config *c = &m->config;

	a->dir = strdup(c->workdir);
	a->user = strdup(c->user);
	if (!a->dir || !a->user)
		return no_memory(e);
	if (!a->plan.dockerfile)
		return set_entry(a, c, e);
	if (!a->plan.entry && !*c->start_command)
		return error_set(e, ERROR_USAGE, EINVAL,
			"the Dockerfile has neither ENTRYPOINT nor CMD: say what starts the agent "
			"there, or as \"entry\" in agent.json");
	if (!a->plan.entry)
		a->plan.entry = strdup(c->start_command);
	if (!a->plan.entry || config_set_text(&c->start_command, "") < 0)
		return no_memory(e);
	return set_entry(a, c, e);
}

int run_agent_take_config(
	struct run_agent *a, const struct home *home, const char *name, struct error *e)
{
	_cleanup_close_ int fd =
		openat(home->area_fd[HOME_IMAGES], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct image m = {0};
	int r = image_load(home, name, &m, e);

	if (r == 0)
		r = take(a, &m, e);
	if (r == 0)
		r = fd < 0 ? error_set_errno(e, ERROR_INTERNAL, EBADF, "the image is missing")
			   : image_save(fd, &m, e);
	image_done(&m);
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
}
