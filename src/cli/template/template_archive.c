/* `mayfly template export|import`. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/template/template.h"
#include "image/template.h"
#include "image/workdir.h"
#include "image/archive/template_archive.h"
#include "io/jailed.h"

static const char digest_prefix[] = "sha256:";

/* If the archive goes to standard output, messages go to standard error. */
static int say(bool json, FILE *to, const struct template_archive *a, struct error *e)
{
	char size[16];

	if (json && to == stdout)
		return json_print(json_pack("{s:s, s:s+, s:I, s:I}", "name", a->name, "digest",
					  digest_prefix, a->digest, "files", (json_int_t)a->files,
					  "bytes", (json_int_t)a->bytes),
			e);
	(void)fprintf(to, "%s %s%s %llu files, %s\n", a->name, digest_prefix, a->digest,
		(unsigned long long)a->files, str_format_bytes(a->bytes, size));
	return 0;
}

/* --- export --- */

struct export_options {
	struct cli_common common;
	const char *output;
};

/* Opens a new file only, because a link that somebody put there would lead elsewhere. Removes a
 * file that a killed export left. */
static int create_part(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
		(void)unlink(path); /* open() says what is wrong */
	return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* A file appears when it is complete. */
static int export_to(const struct home *home, const char *name, const char *path,
	struct template_archive *a, struct progress_view *view, struct error *e)
{
	_cleanup_free_ char *tmp = str_printf("%s.part", path);
	_cleanup_close_ int fd = -1;
	int r;

	if (!tmp)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	fd = create_part(tmp);
	if (fd < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "cannot write %s", tmp);
	r = template_export(home, name, fd, &view->progress, a, e);
	if (r == 0 && (fsync(fd) < 0 || rename(tmp, path) < 0))
		r = error_set_errno(e, ERROR_NO_SPACE, errno, "cannot write %s", path);
	if (r < 0)
		(void)unlink(tmp); /* what can be said is said */
	return r;
}

static int export_run(void *values, int argc, char **argv, struct error *e)
{
	const struct export_options *o = values;
	bool to_stdout = !o->output || strcmp(o->output, "-") == 0;
	struct template_archive a;
	struct progress_view view;
	struct home home = HOME_INIT;
	int r;

	if (argc != 1)
		return error_set(e, ERROR_USAGE, EINVAL, "give the name of one template");
	if (to_stdout && isatty(STDOUT_FILENO))
		return error_set(e, ERROR_USAGE, EINVAL,
			"cannot write an archive to a terminal: give -o FILE, or a pipe");
	r = home_open(NULL, &home, e);
	progress_view_open(&view, to_stdout);
	if (r == 0 && to_stdout)
		r = template_export(&home, argv[0], STDOUT_FILENO, &view.progress, &a, e);
	else if (r == 0)
		r = export_to(&home, argv[0], o->output, &a, &view, e);
	progress_view_close(&view);
	if (r == 0)
		r = say(o->common.json, to_stdout ? stderr : stdout, &a, e);
	home_close(&home);
	return r;
}

static const struct option_spec export_options[] = {
	{"output", 'o', OPTION_STRING, "FILE", "write there (default: standard output)",
		offsetof(struct export_options, output), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

const struct cli_verb cli_verb_template_export = {
	.name = "export",
	.arguments = "TEMPLATE",
	.summary = "Write a template to a file for another host",
	.description = "The archive has the template's image and snapshots, with the SHA-256 of "
		       "each file. Prints its\ndigest, which covers all files. Take care: the "
		       "snapshots have the memory of programs, with\nall that they had there.",
	.options = export_options,
	.values_bytes = sizeof(struct export_options),
	.run = export_run,
};

/* --- import --- */

struct import_options {
	struct cli_common common;
	const char *name, *digest, *jail;
	bool force;
};

static int check_import(const struct import_options *o, int argc, struct error *e)
{
	if (argc != 1)
		return error_set(e, ERROR_USAGE, EINVAL, "give one file, or - for standard input");
	if (o->name && workdir_check_name(o->name, e) < 0) {
		error_prefix(e, "--name");
		return -EINVAL;
	}
	if (o->digest && (!str_starts_with(o->digest, digest_prefix) ||
				 strlen(o->digest) != strlen(digest_prefix) + 64))
		return error_set(e, ERROR_USAGE, EINVAL, "--digest must be sha256: and 64 digits");
	return 0;
}

/* A snapshot of other sizes than the archive's needs a boot. */
static void note_kernel(const struct home *home, const char *name)
{
	struct template t = {0};

	if (template_load(home, name, &t, NULL) < 0)
		return;
	if (faccessat(home->area_fd[HOME_KERNELS], t.kernel_release, F_OK, 0) < 0)
		(void)fprintf(stderr,
			"note: kernel %s is not on this host: sandboxes of %s have the sizes of "
			"its snapshots only\n",
			t.kernel_release, name);
	template_done(&t);
}

static int import_run(void *values, int argc, char **argv, struct error *e)
{
	const struct import_options *o = values;
	struct template_import_options io = {.unpack = unpack,
		.name = o->name,
		.digest = o->digest ? o->digest + strlen(digest_prefix) : NULL,
		.replace = o->force};
	_cleanup_close_ int fd = -1;
	struct template_archive a;
	struct progress_view view;
	struct home home = HOME_INIT;
	int r = check_import(o, argc, e);

	if (r == 0)
		r = jailed_configure(o->jail, e);
	if (r == 0)
		r = jailed_prepare(NULL, e);
	if (r == 0)
		r = home_open(NULL, &home, e);
	if (r < 0)
		return r;
	fd = strcmp(argv[0], "-") == 0 ? dup(STDIN_FILENO) : open(argv[0], O_RDONLY | O_CLOEXEC);
	progress_view_open(&view, false);
	io.fd = fd;
	io.progress = &view.progress;
	r = fd < 0 ? error_set_errno(e, ERROR_NOT_FOUND, errno, "cannot open %s", argv[0])
		   : template_import(&home, &io, &a, e);
	progress_view_close(&view);
	if (r < 0)
		error_prefix(e, "%s", argv[0]);
	if (r == 0) {
		note_kernel(&home, a.name);
		r = say(o->common.json, stdout, &a, e);
	}
	home_close(&home);
	return r;
}

static const struct import_options import_defaults = {.jail = "on"};

static const struct option_spec import_options[] = {
	{"name", 0, OPTION_STRING, "NAME", "of the template (default: as it was exported)",
		offsetof(struct import_options, name), 0, 0, false},
	{"digest", 0, OPTION_STRING, "sha256:...", "refuse an archive with another digest",
		offsetof(struct import_options, digest), 0, 0, false},
	{"force", 0, OPTION_FLAG, NULL, "replace a template of that name",
		offsetof(struct import_options, force), 0, 0, false},
	CLI_OPTION_JAIL(struct import_options),
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

const struct cli_verb cli_verb_template_import = {
	.name = "import",
	.arguments = "FILE",
	.summary = "Make a template from a file that export wrote",
	.description = "The template appears only if each file has the SHA-256 that the archive "
		       "says, and the archive\n"
		       "has the digest of --digest. The archive may be compressed (gzip, bzip2, "
		       "xz, zstd).",
	.options = import_options,
	.defaults = &import_defaults,
	.values_bytes = sizeof(struct import_options),
	.run = import_run,
};
