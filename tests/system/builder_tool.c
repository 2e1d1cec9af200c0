/* Builds an image from a Dockerfile with doubles of machines, for test_builder:
 *
 *   builder-tool HOME NAME DIR [--no-cache|--stranger|--client|--scope WORDS|--force LINE|
 *	--budget BYTES|--owner KEY|--cache-max-age SECONDS|--caches SCOPE|--spec]
 *
 * With --spec, DIR/spec.json is a client's build (build/spec.h) on the base that the Dockerfile
 * names.
 *
 * Prints a line for each step, behind `CACHED` if it was, and what steps write. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "build/builder.h"
#include "build/secrets.h"
#include "build/spec.h"
#include "dockerfile/source.h"
#include "io/jailed.h"
#include "oci/destination.h"

static int step(
	void *opaque, size_t number, size_t count, const struct dockerfile_step *s, bool cached)
{
	(void)printf("%s[%zu/%zu] %s\n", cached ? "CACHED " : "", number, count, s->text);
	return fflush(stdout) ? -EIO : 0;
}

static int output(void *opaque, const void *data, size_t n)
{
	return fwrite(data, 1, n, stdout) == n && fflush(stdout) == 0 ? 0 : -EIO;
}

static void note(void *opaque, unsigned line, const char *text)
{
	(void)printf("note %u: %s\n", line, text);
}

/* `snapshot:ID` is a snapshot of disks, of as many MB as the file `mb` of it says. */
static int snapshot(void *opaque, const char *name, struct base_snapshot *ret, struct error *e)
{
	const struct home *home = opaque;
	char path[64];
	char *text = NULL;
	size_t n = 0;

	if (strncmp(name, "snapshot:", 9) != 0)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/mb", name + 9);
	*ret = (struct base_snapshot){.id = name + 9};
	if (file_read(home->area_fd[HOME_SNAPSHOTS], path, 16, &text, &n) == 0)
		ret->disk_bytes = strtoull(text, NULL, 10) << 20;
	free(text);
	return 1;
}

/* As a client's build with `force` at a step. */
static void force(struct dockerfile *d, unsigned line)
{
	for (size_t k = 0; k < d->stage_count; k++)
		for (size_t i = 0; i < d->stages[k].steps.count; i++)
			d->stages[k].steps.items[i].force =
				d->stages[k].steps.items[i].line == line;
}

/* The client's steps take the place of the file's, whose base stays. */
static int read_spec(struct builder_options *o, struct spec *s, struct error *e)
{
	char *text = NULL, *start = NULL;
	size_t n = 0;
	int r = file_read(o->context_fd, "spec.json", SPEC_BYTES_MAX, &text, &n);

	if (r == 0)
		r = spec_read(text, n, s, e);
	if (r == 0)
		r = spec_make_steps(o->home, s, e);
	if (r == 0 && s->start)
		r = spec_login_command(s->start, &start, e);
	if (r < 0)
		return r;
	s->file.stages[0].base = o->file->stages[0].base;
	o->file = &s->file;
	o->no_triggers = true;
	o->start = start ? start : s->inherited;
	o->ready = s->ready;
	return 0;
}

int main(int argc, char **argv)
{
	struct spec spec = {.root = NULL};
	static const struct vars none = {NULL, 0};
	static char no_initrd[] = "";
	static const struct kernel kernel = {.release = "double", .initrd = no_initrd};
	static const struct oci_reach stranger = {.stranger = true};
	struct ignore ignore = {.count = 0};
	struct home home = HOME_INIT;
	struct disk_budget budget = {.fd = -1};
	struct build_secrets secrets = {.count = 0};
	struct dockerfile d = {.escape = '\\'};
	struct error e = {0};
	struct builder_options o = {.home = &home,
		.file = &d,
		.args = &none,
		.ignore = &ignore,
		.kernel = &kernel,
		.ops = {step, output, note, NULL, snapshot, &home}};
	char *text = NULL;
	size_t n = 0;
	int r = 0;

	if (argc < 4)
		return 2;
	o.name = argv[2];
	o.context_fd = open(argv[3], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	o.no_cache = argc > 4 && strcmp(argv[4], "--no-cache") == 0;
	o.caches = argc > 4 && strcmp(argv[4], "--client") == 0 ? NULL : "";
	if (argc > 5 && strcmp(argv[4], "--caches") == 0)
		o.caches = argv[5];
	if (argc > 4 && strcmp(argv[4], "--stranger") == 0)
		o.reach = &stranger;
	if (argc > 5 && strcmp(argv[4], "--secret") == 0) {
		o.secrets = &secrets;
		r = build_secrets_read(
			&(struct option_list){.items = {argv[5]}, .count = 1}, &secrets, &e);
	}
	if (argc > 5 && strcmp(argv[4], "--trust") == 0)
		o.trust = argv[5];
	if (argc > 5 && strcmp(argv[4], "--scope") == 0)
		o.scope = argv[5];
	if (argc > 5 && strcmp(argv[4], "--owner") == 0)
		o.owner = argv[5];
	if (argc > 5 && strcmp(argv[4], "--cache-max-age") == 0)
		o.cache_max_ns = strtoull(argv[5], NULL, 10) * NS_PER_S;
	if (argc > 5 && strcmp(argv[4], "--budget") == 0) {
		budget.bytes_max = strtoull(argv[5], NULL, 10);
		o.budget = &budget;
	}
	if (r == 0)
		r = file_read(o.context_fd, "Dockerfile", SOURCE_BYTES_MAX, &text, &n);
	if (r == 0)
		r = jailed_prepare(NULL, &e); /* of what fetches files */
	if (r == 0)
		r = home_open(argv[1], &home, &e);
	budget.fd = home.area_fd[HOME_IMAGES];
	if (r == 0)
		r = dockerfile_parse(text, n, &d, &e);
	if (argc > 5 && strcmp(argv[4], "--force") == 0)
		force(&d, (unsigned)strtoul(argv[5], NULL, 10));
	if (r == 0 && argc > 4 && strcmp(argv[4], "--spec") == 0)
		r = read_spec(&o, &spec, &e);
	if (r == 0)
		r = builder_run(&o, &e);
	if (r < 0)
		(void)fprintf(stderr, "%s\n", e.message);
	return r < 0;
}
