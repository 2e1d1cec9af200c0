#include "build/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "image/template.h"
#include "image/words.h"

enum { SCRATCH_MB = 4096 };

static int take_config(const struct image_config *c, struct stage_state *to)
{
	int r = stage_state_set(&to->user, c->user);

	for (size_t i = 0; i < c->env_count && r == 0; i++)
		r = vars_set_entry(&to->env, c->env[i]);
	if (r == 0 && *c->workdir)
		r = stage_state_set(&to->workdir, c->workdir);
	if (r == 0)
		r = stage_state_set(&to->command, c->start_command);
	if (r == 0)
		r = stage_state_set(&to->network, c->network);
	to->disk_mb = c->disk_mb;
	return r;
}

/* --- templates --- */

static int find_template(
	const struct base_options *o, const char *name, struct stage_state *to, struct error *e)
{
	struct template t = {0};
	int r = template_load(o->home, name, &t, e);

	if (r < 0)
		return r;
	if (t.kind != IMAGE_EXT4)
		r = error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"template '%s' has an EROFS image: only ext4 can be built on", name);
	if (r == 0 && take_config(&t.config, to) < 0)
		r = stage_no_memory(e);
	template_done(&t);
	if (r < 0)
		return r;
	to->image_fd = template_open(o->home, name, e);
	return to->image_fd < 0 ? to->image_fd : 0;
}

static bool is_template(const struct base_options *o, const char *name)
{
	_cleanup_close_ int fd = str_is_name(name) ? template_open(o->home, name, NULL) : -1;

	return fd >= 0;
}

/* --- images --- */

static int make_image(const struct base_options *o, const char *name,
	const struct image_foreign *foreign, uint32_t disk_mb, struct stage_state *to,
	struct error *e)
{
	char copy[32];
	struct recipe recipe = {.name = copy, .source = IMAGE_SOURCE_NONE};
	const struct image_build_options io = {
		.home = o->work, .recipe = &recipe, .kind = IMAGE_EXT4, .foreign = foreign};
	struct image m = {0};
	int r = config_init(&recipe.config) < 0 ? stage_no_memory(e) : 0;

	(void)snprintf(copy, sizeof(copy), "%s", name); /* fits: base_find */
	recipe.config.disk_mb = o->disk_mb ? o->disk_mb : disk_mb;
	if (r == 0 && config_set_text(&recipe.config.user, "root") < 0)
		r = stage_no_memory(e);
	if (r == 0)
		r = image_build(&io, o->progress, e);
	if (r == 0)
		r = image_load(o->work, name, &m, e);
	if (r == 0 && take_config(&m.config, to) < 0)
		r = stage_no_memory(e);
	image_done(&m);
	config_done(&recipe.config);
	if (r < 0)
		return r;
	to->image_fd =
		openat(o->work->area_fd[HOME_IMAGES], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return to->image_fd < 0 ? error_set_errno(e, ERROR_INTERNAL, errno, "the base's image") : 0;
}

static int fill_nothing(
	void *opaque, struct rootfs *f, struct image_config *config, struct error *e)
{
	return 0;
}

/* Entry point and command apart, as a Dockerfile may change one of them. */
static int set_words(char **slot, const struct oci_strings *words)
{
	struct buf line = BUF_INIT(CONFIG_TEXT_MAX);
	int r = words_join(&line, (const char *const *)words->items, words->count);

	if (r == 0)
		r = buf_add_u8(&line, 0);
	if (r == 0)
		r = stage_state_set(slot, (const char *)buf_head(&line));
	buf_done(&line);
	return r;
}

static int find_image(const struct base_options *o, const char *text, const char *name,
	struct stage_state *to, struct error *e)
{
	const struct template_from_options fo = {.from = text,
		.said = "FROM",
		.registry = o->registry,
		.registry_auth = o->registry_auth};
	struct template_from from = {.source.path = NULL};
	uint32_t disk_mb = 0;
	int r = template_from_parse(&fo, &from, e);

	if (r == 0)
		r = template_from_load(&from, o->home, o->progress, &disk_mb, e);
	if (r == 0)
		r = make_image(o, name, &from.foreign, disk_mb, to, e);
	if (r == 0 && from.source.kind != OCI_SOURCE_TAR &&
		(set_words(&to->entry, &from.image.config.entrypoint) < 0 ||
			set_words(&to->command, &from.image.config.command) < 0))
		r = error_set(e, ERROR_LIMIT, E2BIG, "the command of %.200s is too long", text);
	template_from_done(&from);
	return r;
}

int base_find(const struct base_options *o, const char *name, unsigned number,
	struct stage_state *ret, struct error *e)
{
	const struct image_foreign nothing = {"oci", fill_nothing, NULL};
	char image[32];

	(void)snprintf(image, sizeof(image), "base-%u", number); /* fits */
	if (strcmp(name, "scratch") == 0)
		return make_image(o, image, &nothing, SCRATCH_MB, ret, e);
	if (is_template(o, name))
		return find_template(o, name, ret, e);
	return find_image(o, name, image, ret, e);
}
