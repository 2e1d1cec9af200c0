/* The image builders and the template store as a program, for tests/system/test_image.
 *
 *   image-tool build RECIPE [erofs]        images/<name>
 *   image-tool kernel AGENT [KERNEL [MODULES]]
 *   image-tool unpack ARCHIVE FOLDER TO    what a recipe takes from a Maven artifact
 *   image-tool template NAME IMAGE         a template without snapshots
 *   image-tool list | remove NAME
 *
 * The state directory is $MAYFLY_HOME; $JAIL is the value of --jail. Prints progress to stderr,
 * results to stdout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/build.h"
#include "image/registry.h"
#include "image/template.h"
#include "io/jailed.h"

static int show(void *opaque, const char *stage, int percent, const char *line)
{
	if (line)
		(void)fprintf(stderr, "%s: %s\n", stage, line);
	return 0;
}

static const struct progress progress = {show, NULL};

static int do_build(const struct home *h, char **argv, struct error *e)
{
	struct recipe recipe;
	struct image_build_options o = {.home = h,
		.recipe = &recipe,
		.kind = argv[1] && strcmp(argv[1], "erofs") == 0 ? IMAGE_EROFS : IMAGE_EXT4};
	int r = recipe_load(argv[0], &recipe, e);

	if (r < 0)
		return r;
	r = image_build(&o, &progress, e);
	if (r == 0)
		(void)printf("%s/images/%s\n", h->path, recipe.name);
	recipe_done(&recipe);
	return r;
}

static int do_kernel(const struct home *h, char **argv, struct error *e)
{
	struct kernel_options o = {
		.agent = argv[0], .kernel = argv[1], .modules = argv[1] ? argv[2] : NULL};
	struct kernel k;
	int r = kernel_prepare(h, &o, &progress, &k, e);

	if (r < 0)
		return r;
	(void)printf("%s\n%s\n%s\n", k.release, k.vmlinux, k.initrd);
	kernel_done(&k);
	return 0;
}

static int do_unpack(char **argv, struct error *e)
{
	if (!argv[1] || !argv[2])
		return error_set(e, ERROR_USAGE, 0, "usage: image-tool unpack ARCHIVE FOLDER TO");
	return registry_unpack(unpack, argv[0], argv[1], argv[2], e);
}

static int do_template(const struct home *h, char **argv, struct error *e)
{
	struct template_build b = TEMPLATE_BUILD_INIT;
	struct template t = {0};
	struct image m;
	int r = argv[1] ? image_load(h, argv[1], &m, e) : -1;

	if (r < 0)
		return r;
	r = template_begin(h, argv[0], &b, e);
	if (r == 0) {
		t = (struct template){.kernel_release = (char *)"6.1.0",
			.agent_version = (char *)"1",
			.image_digest = m.digest,
			.kind = m.kind,
			.created_s = m.created_s,
			.config = m.config};
		r = template_add_image(h, &b, &m, e);
	}
	if (r == 0)
		r = template_commit(&b, &t, e);
	template_abort(&b);
	image_done(&m);
	return r;
}

static int print_one(void *opaque, const struct template *t, const struct error *damage)
{
	(void)printf("%s %s\n", t->name, damage ? damage->message : t->image_digest);
	return 0;
}

static int run(const struct home *h, char **argv, struct error *e)
{
	if (strcmp(argv[0], "list") == 0)
		return template_each(h, print_one, NULL, e);
	if (!argv[1])
		return error_set(
			e, ERROR_USAGE, 0, "usage: image-tool build|kernel|template|remove ...");
	if (strcmp(argv[0], "build") == 0)
		return do_build(h, argv + 1, e);
	if (strcmp(argv[0], "kernel") == 0)
		return do_kernel(h, argv + 1, e);
	if (strcmp(argv[0], "unpack") == 0)
		return do_unpack(argv + 1, e);
	if (strcmp(argv[0], "template") == 0)
		return do_template(h, argv + 1, e);
	if (strcmp(argv[0], "remove") == 0)
		return template_remove(h, argv[1], e);
	return error_set(e, ERROR_USAGE, 0, "unknown verb %s", argv[0]);
}

int main(int argc, char **argv)
{
	struct home h = HOME_INIT;
	struct error e = {0};
	const char *jail = getenv("JAIL");
	int r = argc < 2 ? -1 : jailed_configure(jail ? jail : "on", &e);

	if (r == 0)
		r = home_open(NULL, &h, &e);

	if (r == 0)
		r = run(&h, argv + 1, &e);
	home_close(&h);
	if (r < 0) {
		(void)fprintf(stderr, "image-tool: %s\n", e.message);
		return e.code ? error_exit_status(e.code) : 1;
	}
	return 0;
}
