#include "cli/template/template_dockerfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "build/builder.h"
#include "build/source.h"

/* --- what people see --- */

static int show_step(void *opaque, size_t number, size_t count, const struct dockerfile_step *step)
{
	struct progress_view *view = opaque;

	progress_view_close(view); /* ends the line that it draws */
	(void)fprintf(stderr, "[%zu/%zu] %s\n", number, count, step->text);
	return 0;
}

/* A step's words may come from anywhere: nothing that a terminal acts on is passed. */
static int show_output(void *opaque, const void *data, size_t n)
{
	const unsigned char *p = data;

	progress_view_close(opaque); /* as above */
	for (size_t i = 0; i < n; i++) {
		bool plain = (p[i] >= ' ' && p[i] != 0x7f) || p[i] == '\n' || p[i] == '\t';

		if (plain || p[i] == '\r')
			(void)fputc(plain ? p[i] : '\n', stderr);
		else
			(void)fputc('?', stderr);
	}
	return 0;
}

static void show_note(void *opaque, unsigned line, const char *text)
{
	progress_view_close(opaque);
	(void)fprintf(stderr, "line %u: %s\n", line, text);
}

/* --- what is read --- */

/* `NAME=VALUE`, or a variable of this process. */
static int take_args(const struct option_list *list, struct vars *ret, struct error *e)
{
	int r = 0;

	for (unsigned i = 0; i < list->count && r == 0; i++) {
		const char *word = list->items[i], *value = getenv(word);

		if (*word == '\0' || *word == '=')
			return error_set(e, ERROR_USAGE, EINVAL, "--build-arg must be NAME=VALUE");
		if (strchr(word, '='))
			r = vars_set_entry(ret, word);
		else if (value)
			r = vars_set(ret, word, value);
	}
	if (r == -E2BIG)
		return error_set(e, ERROR_LIMIT, E2BIG, "more than %d --build-arg", VARS_MAX);
	return r < 0 ? error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory") : 0;
}

static int read_dockerfile(
	const char *path, int dirfd, char **ret, size_t *ret_bytes, struct error *e)
{
	int r = path ? file_read(AT_FDCWD, path, SOURCE_BYTES_MAX, ret, ret_bytes)
		     : file_read(dirfd, "Dockerfile", SOURCE_BYTES_MAX, ret, ret_bytes);

	if (r == -EFBIG)
		return error_set(e, ERROR_LIMIT, EFBIG, "the Dockerfile is larger than 1 MiB");
	return r < 0 ? error_set_errno(e, ERROR_NOT_FOUND, -r, "cannot read %s",
			       path ? path : "the Dockerfile of the directory (-f names another)")
		     : 0;
}

/* The Dockerfile's own, or else that of the directory. */
static int read_ignore(const char *path, int dirfd, struct ignore *ret, struct error *e)
{
	_cleanup_free_ char *text = NULL,
			    *own = str_printf("%s.dockerignore", path ? path : "Dockerfile");
	size_t n = 0;
	int r = own ? file_read(path ? AT_FDCWD : dirfd, own, IGNORE_BYTES_MAX, &text, &n)
		    : -ENOMEM;

	if (r == -ENOENT)
		r = file_read(dirfd, ".dockerignore", IGNORE_BYTES_MAX, &text, &n);
	if (r == -ENOENT)
		return ignore_parse("", 0, ret, e);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read .dockerignore");
	return ignore_parse(text, n, ret, e);
}

static void done(struct builder_options *b, struct dockerfile *file, struct ignore *ignore,
	struct vars *args)
{
	dockerfile_done(file);
	ignore_done(ignore);
	vars_done(args);
	cleanup_close_p(&b->context_fd);
}

int template_dockerfile_build(const struct template_dockerfile_options *o, const char *dir,
	const struct home *home, const struct kernel *kernel, struct progress_view *view,
	struct error *e)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	struct dockerfile file = {.escape = '\\'};
	struct ignore ignore = {.count = 0};
	struct vars args = {NULL, 0};
	struct builder_options b = {.home = home,
		.name = o->name,
		.file = &file,
		.args = &args,
		.context_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.ignore = &ignore,
		.kernel = kernel,
		.cpus = o->cpus,
		.memory_mb = o->memory_mb,
		.disk_mb = o->disk_mb,
		.registry = o->registry,
		.registry_auth = o->registry_auth,
		.progress = &view->progress,
		.ops = {show_step, show_output, show_note, view}};
	int r = b.context_fd < 0 ? error_set_errno(e, ERROR_NOT_FOUND, errno,
					   "cannot open the build's directory %s", dir)
				 : read_dockerfile(o->file, b.context_fd, &text, &n, e);

	if (r == 0)
		r = dockerfile_parse(text, n, &file, e);
	if (r == 0)
		r = read_ignore(o->file, b.context_fd, &ignore, e);
	if (r == 0)
		r = take_args(&o->args, &args, e);
	if (r == 0)
		r = builder_run(&b, e);
	done(&b, &file, &ignore, &args);
	return r;
}
