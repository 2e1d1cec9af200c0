/* `mayfly template build`: builds an image from a recipe, boots it, and takes a snapshot. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "build/template_from.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/template/template.h"
#include "cli/template/template_dockerfile.h"
#include "cli/template/template_snapshot.h"
#include "image/build.h"
#include "image/home.h"
#include "image/recipe.h"
#include "image/template.h"
#include "image/workdir.h"
#include "io/jailed.h"
#include "policy/network_list.h"
#include "sandbox/prepare.h"
#include "sandbox/sandbox.h"
#include "vmm/cpu_model.h"

#define MIB UINT64_C(0x100000)

struct build_options {
	struct cli_common common;
	const char *recipe, *from_tar, *from_dir, *packages, *fs, *kernel, *modules, *jail,
		*network, *progress;
	uint64_t cpus, memory, disk;
	struct option_list baseline, mirrors;
	struct template_from_options from;
	struct template_dockerfile_options dockerfile;
	bool image_only, force;
};

static const struct build_options defaults = {
	.fs = "ext4", .jail = "on", .progress = "auto", .from.said = "--from"};

static const struct option_spec options[] = {
	{"recipe", 0, OPTION_STRING, "FILE", "the recipe (default: the built-in one of that name)",
		offsetof(struct build_options, recipe), 0, 0, false},
	{"from-tar", 0, OPTION_STRING, "FILE", "take the root file system from a tar archive",
		offsetof(struct build_options, from_tar), 0, 0, false},
	{"from-dir", 0, OPTION_STRING, "DIR", "take the root file system from a directory",
		offsetof(struct build_options, from_dir), 0, 0, false},
	{"from", 0, OPTION_STRING, "SOURCE",
		"take an image: REGISTRY/NAME:TAG, oci:DIR, oci-archive:FILE, docker-archive:FILE "
		"or tar:FILE; or the disk of a snapshot: snapshot:NAME[:TAG]",
		offsetof(struct build_options, from.from), 0, 0, false},
	{"registry", 0, OPTION_STRING, "HOST", "with --from: the registry of names without one",
		offsetof(struct build_options, from.registry), 0, 0, false},
	{"registry-auth", 0, OPTION_STRING, "USER:PASSWORD",
		"with --from: credentials for the registry, or aws://REGION/ID:SECRET for ECR, or "
		"@FILE "
		"with them (default: docker's)",
		offsetof(struct build_options, from.registry_auth), 0, 0, false},
	{"registry-mirror", 0, OPTION_LIST, "[REGISTRY=]HOST[/PATH]",
		"with --from or -t: is asked before that registry (default: Docker Hub; "
		"repeatable)",
		offsetof(struct build_options, mirrors), 0, 0, false},
	{"tag", 't', OPTION_STRING, "NAME[:TAG]",
		"build from a Dockerfile: the template's name; the argument is the directory",
		offsetof(struct build_options, dockerfile.name), 0, 0, false},
	{"file", 'f', OPTION_STRING, "FILE", "with -t: the Dockerfile (default: DIR/Dockerfile)",
		offsetof(struct build_options, dockerfile.file), 0, 0, false},
	{"target", 0, OPTION_STRING, "STAGE",
		"with -t: the stage to build, by name or number (default: the last one)",
		offsetof(struct build_options, dockerfile.target), 0, 0, false},
	{"build-arg", 0, OPTION_LIST, "NAME[=VALUE]", "with -t: a value for ARG NAME (repeatable)",
		offsetof(struct build_options, dockerfile.args), 0, 0, false},
	{"secret", 0, OPTION_LIST, "id=NAME[,src=FILE|,env=NAME]",
		"with -t: for RUN --mount=type=secret; never in the image (repeatable)",
		offsetof(struct build_options, dockerfile.secrets), 0, 0, false},
	{"start", 0, OPTION_STRING, "COMMAND",
		"with -t: runs before the snapshot (default: ENTRYPOINT and CMD)",
		offsetof(struct build_options, dockerfile.start), 0, 0, false},
	{"ready", 0, OPTION_STRING, "COMMAND", "with -t: succeeds when the start command is ready",
		offsetof(struct build_options, dockerfile.ready), 0, 0, false},
	{"no-cache", 0, OPTION_FLAG, NULL, "with -t: run all steps, even those in the cache",
		offsetof(struct build_options, dockerfile.no_cache), 0, 0, false},
	{"cache-max-age", 0, OPTION_DURATION, "TIME",
		"with -t: run steps again that the cache has kept longer (default: any age)",
		offsetof(struct build_options, dockerfile.cache_max_ns), NS_PER_S,
		10 * 365 * 86400 * NS_PER_S, false},
	{"packages", 0, OPTION_STRING, "NAMES", "Debian packages to add to those of the recipe",
		offsetof(struct build_options, packages), 0, 0, false},
	{"fs", 0, OPTION_STRING, "TYPE", "file system of the image: ext4 (default) or erofs",
		offsetof(struct build_options, fs), 0, 0, false},
	{"kernel", 0, OPTION_STRING, "FILE", "a kernel of your own (vmlinux, bzImage or .deb)",
		offsetof(struct build_options, kernel), 0, 0, false},
	{"modules", 0, OPTION_STRING, "DIR", "with --kernel: its modules (/lib/modules/RELEASE)",
		offsetof(struct build_options, modules), 0, 0, false},
	{"cpus", 0, OPTION_NUMBER, "N", "CPUs of its sandboxes, 1 to 4 (default: the recipe's)",
		offsetof(struct build_options, cpus), 1, SANDBOX_CPUS_MAX, false},
	{"memory", 0, OPTION_BYTES, "SIZE", "their memory, 128M to 4G (default: the recipe's)",
		offsetof(struct build_options, memory), SANDBOX_MEMORY_MB_MIN *MIB,
		SANDBOX_MEMORY_MB_MAX *MIB, false},
	{"disk", 0, OPTION_BYTES, "SIZE", "their root disk, up to 10G (default: the recipe's)",
		offsetof(struct build_options, disk), 64 * MIB, SANDBOX_DISK_MB_MAX *MIB, false},
	{"network", 0, OPTION_STRING, "on|off|HOST,...",
		"the most that its sandboxes, and RUN, may reach (default: the recipe's, or "
		"anything)",
		offsetof(struct build_options, network), 0, 0, false},
	{"egress-allow-private", 0, OPTION_LIST, "CIDR",
		"with -t: private addresses that RUN may reach (repeatable)",
		offsetof(struct build_options, dockerfile.floor.private), 0, 0, false},
	{"egress-hosts", 0, OPTION_STRING, "FILE",
		"with -t: names for RUN, lines of ADDRESS[:PORT] NAME..., as /etc/hosts",
		offsetof(struct build_options, dockerfile.floor.hosts), 0, 0, false},
	{"egress-roots", 0, OPTION_STRING, "FILE",
		"with -t: authorities of TLS servers for RUN, in PEM, besides those of this host",
		offsetof(struct build_options, dockerfile.floor.roots), 0, 0, false},
	{"guest-ca", 0, OPTION_STRING, "FILE",
		"with -t: certificates of authorities that RUN's programs trust, as companies have "
		"them",
		offsetof(struct build_options, dockerfile.guest_ca), 0, 0, false},
	{"cpu-baseline", 0, OPTION_LIST, "FILE",
		"use only what these hosts' CPUs share (of doctor --cpu-facts; repeatable)",
		offsetof(struct build_options, baseline), 0, 0, false},
	{"image-only", 0, OPTION_FLAG, NULL, "make the image and do not boot it (needs no KVM)",
		offsetof(struct build_options, image_only), 0, 0, false},
	{"force", 0, OPTION_FLAG, NULL, "build anew what is there already",
		offsetof(struct build_options, force), 0, 0, false},
	{"progress", 0, OPTION_STRING, "HOW",
		"how standard error shows it: auto, plain, or json (an object a line)",
		offsetof(struct build_options, progress), 0, 0, false},
	CLI_OPTION_JAIL(struct build_options),
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* Built-in recipes are in ../share/mayfly/recipes beside the program's directory, or in ../guest
 * where that is a build directory. malloc'ed. */
static char *find_builtin(const char *name, struct error *e)
{
	static const char *const places[] = {"../share/mayfly/recipes", "../guest"};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; str_is_name(name) && slash && i < ARRAY_SIZE(places); i++) {
		char *path = str_printf("%s/%s/%s.recipe", self, places[i], name);

		if (path && access(path, R_OK) == 0)
			return path;
		free(path);
	}
	(void)error_set(e, ERROR_NOT_FOUND, ENOENT,
		"no built-in recipe '%.80s': give one with --recipe FILE, or an image with --from",
		name); /* NULL is what counts */
	return NULL;
}

static int make_recipe(
	enum image_source source, const char *path, struct recipe *ret, struct error *e)
{
	struct recipe r = {.source = source};

	if (config_init(&r.config) < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r.path = strdup(path);
	if (!r.path) {
		recipe_done(&r);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	*ret = r;
	return 0;
}

static bool has_image(const struct home *home, const char *name)
{
	struct image m = {0};

	if (image_load(home, name, &m, NULL) < 0)
		return false;
	image_done(&m);
	return true;
}

/* Without another source: the built-in recipe of that name, or none for an image that is there. */
static int load_builtin(
	const struct home *home, const char *name, struct recipe *ret, struct error *e)
{
	struct error why = {0};
	_cleanup_free_ char *builtin = find_builtin(name, &why);

	if (builtin)
		return recipe_load(builtin, ret, e);
	if (has_image(home, name))
		return make_recipe(IMAGE_SOURCE_NONE, "", ret, e);
	return error_set(e, why.code, why.err, "%s", why.message);
}

static int load_recipe(const struct build_options *o, const struct home *home, const char *name,
	struct recipe *ret, struct error *e)
{
	char *copy;
	int r;

	if (o->from.from) {
		r = make_recipe(IMAGE_SOURCE_NONE, "", ret, e);
	} else if (o->from_tar || o->from_dir) {
		r = make_recipe(o->from_tar ? IMAGE_SOURCE_TAR : IMAGE_SOURCE_DIRECTORY,
			o->from_tar ? o->from_tar : o->from_dir, ret, e);
	} else if (o->recipe) {
		r = recipe_load(o->recipe, ret, e);
	} else {
		r = load_builtin(home, name, ret, e);
	}
	if (r < 0)
		return r;
	if (o->packages)
		r = recipe_add_packages(ret, o->packages, e);
	if (r < 0)
		recipe_done(ret);
	if (r < 0 || !name)
		return r;
	copy = strdup(name);
	if (!copy) {
		recipe_done(ret);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	free(ret->name);
	ret->name = copy;
	return 0;
}

/* NULL: it was not given; "": anything. */
static const char *wanted_network(const struct build_options *o)
{
	return o->network && strcmp(o->network, "on") == 0 ? "" : o->network;
}

static int apply_options(const struct build_options *o, struct image_config *c, struct error *e)
{
	const char *network = wanted_network(o);

	if (o->cpus)
		c->cpus = (uint32_t)o->cpus;
	if (o->memory)
		c->memory_mb = (uint32_t)(o->memory / MIB);
	if (o->disk)
		c->disk_mb = (uint32_t)(o->disk / MIB);
	if (network && config_set_text(&c->network, network) < 0)
		return error_set(
			e, ERROR_USAGE, EINVAL, "--network: the value must be one line of text");
	return 0;
}

static int check_sizes(const struct build_options *o, struct error *e)
{
	if (o->modules && !o->kernel)
		return error_set(e, ERROR_USAGE, EINVAL, "--modules needs --kernel");
	if (o->memory % MIB || o->disk % MIB)
		return error_set(e, ERROR_USAGE, EINVAL, "--memory and --disk: whole MB only");
	return network_list_check(wanted_network(o), "--network", e);
}

static int check(const struct build_options *o, int argc, struct error *e)
{
	int sources = (o->recipe != NULL) + (o->from_tar != NULL) + (o->from_dir != NULL) +
		      (o->from.from != NULL);

	if (sources > 1)
		return error_set(e, ERROR_USAGE, EINVAL,
			"only one of --recipe, --from, --from-tar and --from-dir can be given");
	if (argc > 1)
		return error_set(e, ERROR_USAGE, EINVAL, "give one name of a template");
	if (argc == 0 && !o->recipe)
		return error_set(e, ERROR_USAGE, EINVAL, "give the template's name");
	if (strcmp(o->fs, "ext4") != 0 && strcmp(o->fs, "erofs") != 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--fs %s: must be ext4 or erofs", o->fs);
	return check_sizes(o, e);
}

static int check_name(const char *name, struct error *e)
{
	return name ? workdir_check_name(name, e)
		    : error_set(e, ERROR_USAGE, EINVAL, "the recipe has no name: give one");
}

static int check_absent(
	const struct build_options *o, const struct home *home, const char *name, struct error *e)
{
	int fd = o->force || o->image_only ? -ENOENT : template_open(home, name, NULL);

	if (fd < 0)
		return 0;
	(void)close(fd); /* a directory */
	return error_set(
		e, ERROR_EXISTS, EEXIST, "template '%s' exists: --force builds it anew", name);
}

/* Uses an image that exists and matches. Notes the requested sizes in it. */
static int reuse_image(const struct build_options *o, const struct home *home, const char *name,
	enum image_kind kind, bool *ret_fits, struct error *e)
{
	_cleanup_close_ int fd = -1;
	struct image m = {0};
	int r = 0;

	*ret_fits = false;
	if (o->force || o->image_only || o->disk || o->packages ||
		image_load(home, name, &m, NULL) < 0)
		return 0;
	*ret_fits = m.kind == kind;
	if (*ret_fits && (o->cpus || o->memory || o->network)) {
		r = apply_options(o, &m.config, e);
		fd = openat(home->area_fd[HOME_IMAGES], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = r	     ? r
		    : fd < 0 ? error_set_errno(e, ERROR_INTERNAL, errno, "image '%s'", name)
			     : image_save(fd, &m, e);
	}
	image_done(&m);
	return r;
}

static int make_image(const struct build_options *o, const struct home *home, struct recipe *recipe,
	struct template_from *from, const struct progress *p, struct error *e)
{
	struct image_build_options io = {.home = home,
		.recipe = recipe,
		.kind = strcmp(o->fs, "erofs") == 0 ? IMAGE_EROFS : IMAGE_EXT4};
	bool fits = false;
	int r = 0;

	if (o->from.from) {
		r = template_from_load(from, home, p, &recipe->config.disk_mb, e);
		io.foreign = &from->foreign;
	} else {
		r = reuse_image(o, home, recipe->name, io.kind, &fits, e);
	}
	if (r < 0 || fits)
		return r;
	r = apply_options(o, &recipe->config, e);
	return r ? r : image_build(&io, p, e);
}

static int read_facts(const char *path, struct cpu_facts *ret, struct error *e)
{
	_cleanup_free_ char *text = NULL;
	int r = file_read(AT_FDCWD, path, CPU_FACTS_TEXT_MAX, &text, NULL);

	if (r < 0)
		return error_set_errno(e, ERROR_NOT_FOUND, -r, "cannot read %s", path);
	if (cpu_facts_parse(text, ret) < 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"%s is not what `mayfly doctor --cpu-facts` of this version prints", path);
	return 0;
}

/* What the CPUs of all hosts in the list share, as text; malloc'ed, NULL for an empty list. */
static int shared_facts(const struct option_list *files, char **ret, struct error *e)
{
	struct buf text = BUF_INIT(CPU_FACTS_TEXT_MAX);
	struct cpu_facts all, one;
	int r = 0;

	for (unsigned i = 0; i < files->count && r == 0; i++) {
		r = read_facts(files->items[i], i ? &one : &all, e);
		if (r == 0 && i)
			r = cpu_facts_common(&all, &one, e);
	}
	if (r == 0 && files->count) {
		r = cpu_facts_print(&all, &text);
		*ret = r == 0 ? strndup((const char *)buf_head(&text), buf_len(&text)) : NULL;
		if (!*ret)
			r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	}
	buf_done(&text);
	return r;
}

static int build(const struct build_options *o, const struct home *home, struct recipe *recipe,
	struct template_from *from, const struct progress *p, struct error *e)
{
	_cleanup_free_ char *baseline = NULL;
	struct kernel k = {0};
	int r;

	r = shared_facts(&o->baseline, &baseline, e);
	if (r == 0)
		r = check_absent(o, home, recipe->name, e);
	if (r < 0)
		return r;
	r = make_image(o, home, recipe, from, p, e);
	if (r < 0)
		return r;
	/* also for --image-only, so that a host without the network can boot it */
	r = prepare_kernel(home, o->kernel, o->modules, p, &k, e);
	if (r == 0 && !o->image_only)
		r = prepare_template(
			home, recipe->name, &k, &(struct prepare_more){.baseline = baseline}, p, e);
	kernel_done(&k);
	return r;
}

static json_t *notes_json(const char *notes)
{
	json_t *list = json_array();

	for (size_t n; *notes; notes += n + (notes[n] == '\n')) {
		n = strcspn(notes, "\n");
		(void)json_array_append_new(list, json_stringn(notes, n)); /* shows as missing */
	}
	return list;
}

static int say_built(const struct build_options *o, const struct home *home,
	const struct recipe *recipe, struct template_from *from, double seconds, struct error *e)
{
	const char *notes = template_from_notes(from);
	struct image m = {0};
	int r = 0;

	if (!o->common.json) {
		(void)fputs(notes, stderr);
		printf("%s %s built in %.1f s\n", o->image_only ? "image" : "template",
			recipe->name, seconds);
		return 0;
	}
	r = image_load(home, recipe->name, &m, e);
	if (r == 0)
		r = json_print(json_pack("{s:s, s:b, s:s, s:s, s:o*, s:f, s:o}", "name",
				       recipe->name, "booted", !o->image_only, "source", m.source,
				       "image_digest", m.digest, "source_digest",
				       *from->image.digest ? json_string(from->image.digest) : NULL,
				       "seconds", seconds, "notes", notes_json(notes)),
			e);
	image_done(&m);
	return r;
}

static int parse_from(const struct build_options *o, struct template_from *from, struct error *e)
{
	struct template_from_options given = o->from;

	given.mirrors = &o->mirrors;
	return template_from_parse(&given, from, e);
}

/* Before the long work, whose failure would come late. */
static int prepare(const struct build_options *o, int argc, char **argv, struct home *home,
	struct template_from *from, struct error *e)
{
	int r = check(o, argc, e);

	if (r == 0)
		r = parse_from(o, from, e);
	if (r == 0)
		r = jailed_configure(o->jail, e);
	if (r == 0)
		r = jailed_prepare(NULL, e);
	if (r == 0 && jailed_weakness())
		log_warn("%s", jailed_weakness());
	if (r == 0 && argc)
		r = check_name(argv[0], e);
	if (r == 0)
		r = home_open(NULL, home, e);
	if (r == 0 && argc)
		r = check_absent(o, home, argv[0], e);
	return r;
}

/* --- from a Dockerfile --- */

static int check_dockerfile(const struct build_options *o, int argc, struct error *e)
{
	int r = check_name(o->dockerfile.name, e);

	if (r == 0)
		r = oci_mirrors_check(&o->mirrors, e);
	if (r < 0)
		return r;
	if (argc != 1)
		return error_set(e, ERROR_USAGE, EINVAL,
			"give the directory of the build, as in `mayfly template build -t %s .`",
			o->dockerfile.name);
	if (o->recipe || o->from_tar || o->from_dir || o->from.from || o->packages)
		return error_set(e, ERROR_USAGE, EINVAL,
			"-t builds from a Dockerfile: --recipe, --from, --from-tar, --from-dir and "
			"--packages do not fit");
	if (strcmp(o->fs, "ext4") != 0)
		return error_set(e, ERROR_USAGE, EINVAL, "-t makes ext4 images only");
	return check_sizes(o, e); /* a template of the name is replaced, as docker does it */
}

static int build_dockerfile(const struct build_options *o,
	const struct template_dockerfile_options *more, const char *dir, const struct home *home,
	struct progress_view *view, struct error *e)
{
	struct template_dockerfile_options d = *more;
	_cleanup_free_ char *baseline = NULL;
	struct kernel k = {0};
	int r = shared_facts(&o->baseline, &baseline, e);

	d.registry = o->from.registry;
	d.registry_auth = o->from.registry_auth;
	d.mirrors = &o->mirrors;
	d.network = wanted_network(o);
	if (o->cpus)
		d.cpus = (uint32_t)o->cpus;
	if (o->memory)
		d.memory_mb = (uint32_t)(o->memory / MIB);
	d.disk_mb = (uint32_t)(o->disk / MIB);
	if (r == 0)
		r = prepare_kernel(home, o->kernel, o->modules, &view->progress, &k, e);
	if (r == 0)
		r = template_dockerfile_build(&d, dir, home, &k, view, e);
	if (r == 0 && !o->image_only)
		r = template_dockerfile_prepare(&d, home, &k, baseline, view, e);
	kernel_done(&k);
	return r;
}

static int show_dockerfile(const struct build_options *o,
	const struct template_dockerfile_options *d, const char *dir, const struct home *home,
	struct error *e)
{
	const struct recipe recipe = {.name = (char *)(uintptr_t)d->name};
	uint64_t begin = clock_monotonic_ns();
	struct template_from none = {.source.path = NULL};
	struct progress_view view;
	int r;

	progress_view_open(&view, false);
	r = progress_view_choose(&view, o->progress, e);
	if (r == 0)
		r = build_dockerfile(o, d, dir, home, &view, e);
	if (r < 0)
		progress_view_failed(&view, e);
	progress_view_close(&view);
	if (r < 0)
		return r;
	return say_built(o, home, &recipe, &none,
		(double)(clock_monotonic_ns() - begin) / (double)NS_PER_S, e);
}

static int run_dockerfile(const struct build_options *o, int argc, char **argv, struct error *e)
{
	struct home home = HOME_INIT;
	int r = jailed_configure(o->jail, e);

	if (r == 0)
		r = jailed_prepare(NULL, e);
	if (r == 0)
		r = home_open(NULL, &home, e);
	if (r == 0)
		r = check_dockerfile(o, argc, e);
	if (r == 0)
		r = show_dockerfile(o, &o->dockerfile, argv[0], &home, e);
	home_close(&home);
	return r;
}

/* --- from a snapshot --- */

/* With the sizes of its sandbox, and its template's ready command, as nothing changes what that
 * asks for. By its id, as the name may get another meaning meanwhile. */
static int build_snapshot(
	const struct build_options *o, const char *name, const struct home *home, struct error *e)
{
	struct template_dockerfile_options d = {.name = name, .no_cache = o->force};
	_cleanup_free_ char *base = NULL;
	struct template_snapshot sn;
	struct template t = {0};
	int r = template_snapshot_find(home, template_snapshot_word(o->from.from), &sn, e);

	if (r == 0)
		r = base_snapshot_load(home, &sn.base, &t, e);
	if (r < 0)
		return r;
	base = str_printf("snapshot:%s", sn.id);
	d.base = base;
	d.cpus = sn.base.cpus;
	d.memory_mb = (uint32_t)(sn.base.memory_bytes >> 20);
	d.ready = *t.config.ready_command ? t.config.ready_command : NULL;
	r = base ? show_dockerfile(o, &d, NULL, home, e)
		 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	template_done(&t);
	return r;
}

static int check_snapshot(const struct build_options *o, int argc, struct error *e)
{
	int r = check(o, argc, e);

	if (r == 0 && argc != 1)
		return error_set(e, ERROR_USAGE, EINVAL, "give the template's name");
	if (r == 0 && (o->packages || strcmp(o->fs, "ext4") != 0))
		return error_set(e, ERROR_USAGE, EINVAL,
			"a snapshot is taken as it is, on ext4: --packages and --fs erofs do not "
			"fit; a Dockerfile with FROM %s can add to it (-t)",
			o->from.from);
	return r;
}

static int run_snapshot(const struct build_options *o, int argc, char **argv, struct error *e)
{
	struct template_from none = {.source.path = NULL};
	struct build_options plain = *o;
	struct home home = HOME_INIT;
	int r = check_snapshot(o, argc, e);

	plain.from.from = NULL; /* options of registries do not fit */
	if (r == 0)
		r = prepare(&plain, argc, argv, &home, &none, e);
	if (r == 0)
		r = build_snapshot(o, argv[0], &home, e);
	template_from_done(&none);
	home_close(&home);
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct build_options *o = values;
	uint64_t begin = clock_monotonic_ns();
	struct template_from from = {.source.path = NULL};
	struct progress_view view;
	struct recipe recipe = {0};
	struct home home = HOME_INIT;
	int r;

	if (o->dockerfile.name)
		return run_dockerfile(o, argc, argv, e);
	if (template_dockerfile_is_asked(&o->dockerfile))
		return error_set(e, ERROR_USAGE, EINVAL,
			"-f, --target, --build-arg, --secret, --start, --ready and --no-cache need "
			"-t NAME");
	if (o->from.from && template_snapshot_word(o->from.from))
		return run_snapshot(o, argc, argv, e);
	r = prepare(o, argc, argv, &home, &from, e);

	if (r == 0)
		r = load_recipe(o, &home, argc ? argv[0] : NULL, &recipe, e);
	if (r == 0)
		r = check_name(recipe.name, e);
	if (r == 0)
		r = network_list_check(recipe.config.network, "`network`", e);
	if (r == 0) {
		progress_view_open(&view, false);
		r = progress_view_choose(&view, o->progress, e);
		if (r == 0)
			r = build(o, &home, &recipe, &from, &view.progress, e);
		if (r < 0)
			progress_view_failed(&view, e);
		progress_view_close(&view);
	}
	if (r == 0)
		r = say_built(o, &home, &recipe, &from,
			(double)(clock_monotonic_ns() - begin) / (double)NS_PER_S, e);
	template_from_done(&from);
	recipe_done(&recipe);
	home_close(&home);
	return r;
}

const struct cli_verb cli_verb_template_build = {
	.name = "build",
	.arguments = "[NAME | DIR]",
	.summary = "Build a template: an image, booted once and snapshotted",
	.description = "With -t, builds the template from DIR/Dockerfile, in microVMs.\n"
		       "Without another source, NAME is a built-in recipe: base (Debian with "
		       "Python 3, Node.js 20,\n"
		       "git and a C compiler), python-3.12, node-20, deno, code-interpreter-v1, "
		       "desktop (XFCE,\n"
		       "Chromium), mcp-gateway (for E2B's `mcp`) or mini (busybox). Uses an image "
		       "that --image-only has\n"
		       "made as it is. A new build replaces the old template only when it is "
		       "complete.",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct build_options),
	.run = run,
};
