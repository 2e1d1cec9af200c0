/* `mayfly logs`: what a guest wrote to its console. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "daemon/sandbox_dir.h"
#include "image/home.h"
#include "image/template.h"
#include "vmm/launch.h"

enum { CHUNK = 64 * 1024, FOLLOW_MS = 100 };

struct logs_options {
	struct cli_common common;
	const char *template;
	bool follow;
};

static const struct option_spec options[] = {
	{"follow", 'f', OPTION_FLAG, NULL, "go on until the sandbox ends",
		offsetof(struct logs_options, follow), 0, 0, false},
	{"template", 'T', OPTION_STRING, "NAME", "the boot that made this template's snapshot",
		offsetof(struct logs_options, template), 0, 0, false},
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* Copies what is there from the current offset on. A guest may write anything: what could command a
 * terminal is replaced when the output is one. */
static int copy(int fd, struct error *e)
{
	bool tty = isatty(STDOUT_FILENO);
	char data[CHUNK];
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) > 0) {
		int r;

		for (ssize_t i = 0; tty && i < n; i++)
			if ((data[i] < ' ' && !strchr("\n\r\t", data[i])) || data[i] == 0x7f ||
				data[i] == '\0')
				data[i] = '?';
		r = fd_write_full(STDOUT_FILENO, data, (size_t)n);
		if (r < 0)
			return error_set_errno(e, ERROR_INTERNAL, -r, "cannot write the output");
	}
	return n < 0 ? error_set_errno(e, ERROR_INTERNAL, errno, "cannot read the log") : 0;
}

/* -1 and no error: the guest has not written anything yet. */
static int open_log(int dirfd, const char *whose, struct error *e)
{
	int fd = openat(dirfd, "console.log", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT)
		return error_set_errno(e, ERROR_INTERNAL, errno, "boot log of %s", whose);
	return fd;
}

static int follow(int dirfd, const char *whose, struct error *e)
{
	const struct timespec pause = {.tv_nsec = FOLLOW_MS * (long)NS_PER_MS};
	_cleanup_close_ int fd = -1;

	for (;;) {
		/* asked first, so that nothing written before the end is missed */
		bool live = vmm_dir_is_live(dirfd) == 1;
		int r = 0;

		if (fd < 0)
			fd = open_log(dirfd, whose, e);
		if (fd >= 0)
			r = copy(fd, e);
		else if (e->code != ERROR_NONE)
			r = fd;
		if (r < 0 || !live)
			return r;
		(void)nanosleep(&pause, NULL); /* a shorter one is fine */
	}
}

static int print_log(int dirfd, const char *whose, struct error *e)
{
	_cleanup_close_ int fd = open_log(dirfd, whose, e);

	if (fd >= 0)
		return copy(fd, e);
	return e->code != ERROR_NONE ? fd : 0;
}

static int template_log(const struct home *home, const char *name, struct error *e)
{
	_cleanup_close_ int fd = template_open(home, name, e);

	return fd < 0 ? fd : print_log(fd, name, e);
}

static int sandbox_log(const struct home *home, const char *prefix, bool following, struct error *e)
{
	struct sandbox_dirs dirs = SANDBOX_DIRS_INIT;
	_cleanup_close_ int fd = -1;
	char id[SANDBOX_ID_BYTES];
	int r = sandbox_dirs_open(home->path, &dirs, e);

	if (r == 0)
		r = sandbox_find(&dirs, prefix, id, e);
	if (r == 0) {
		fd = sandbox_open_dir(&dirs, id, e);
		r = fd < 0 ? fd : following ? follow(fd, id, e) : print_log(fd, id, e);
	}
	sandbox_dirs_close(&dirs);
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct logs_options *o = values;
	struct home home = HOME_INIT;
	int r;

	if ((argc == 1) == (o->template != NULL) || argc > 1)
		return error_set(
			e, ERROR_USAGE, EINVAL, "give the id of a sandbox, or --template NAME");
	r = home_open(NULL, &home, e);
	if (r == 0)
		r = o->template ? template_log(&home, o->template, e)
				: sandbox_log(&home, argv[0], o->follow, e);
	home_close(&home);
	return r;
}

const struct cli_verb cli_verb_logs = {
	.name = "logs",
	.arguments = "ID",
	.summary = "Print a sandbox's or template's boot log",
	.description =
		"What the guest's kernel wrote to its console. A sandbox restored from a snapshot\n"
		"begins with an empty one; the boot is in its template's log.",
	.options = options,
	.values_bytes = sizeof(struct logs_options),
	.run = run,
};
