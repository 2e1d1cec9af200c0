#include "cli/files/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { RANDOM_BYTES = 9 };

static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

static struct {
	volatile sig_atomic_t there;
	int fd, dirfd;
	char name[PATH_MAX], hidden[PATH_MAX];
} partial = {.fd = -1};

static void on_ending(int signo)
{
	if (partial.there)
		(void)unlinkat(partial.dirfd, partial.hidden, 0); /* async-signal-safe */
	(void)raise(signo); /* the default action was put back (SA_RESETHAND) */
}

static void catch_endings(void)
{
	struct sigaction sa = {.sa_handler = on_ending, .sa_flags = (int)SA_RESETHAND}, old;

	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		if (sigaction(endings[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			(void)sigaction(endings[i], &sa, NULL); /* valid signals */
}

/* ".NAME.random" beside NAME. */
static int hide(const char *name, struct error *e)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	char random[RANDOM_BYTES];
	int n;

	if (str_random_id(random, sizeof(random)) < 0)
		return error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	n = snprintf(partial.hidden, sizeof(partial.hidden), "%.*s.%.200s.%s", (int)(base - name),
		name, base, random);
	if (n >= (int)sizeof(partial.hidden) || strlen(name) >= sizeof(partial.name))
		return error_set_errno(e, ERROR_USAGE, ENAMETOOLONG, "%.100s...", name);
	(void)strcpy(partial.name, name); /* fits */
	return 0;
}

int partial_open(int dirfd, const char *name, struct error *e)
{
	int r = hide(name, e);

	if (r < 0)
		return r;
	catch_endings();
	partial.dirfd = dirfd;
	partial.fd = openat(dirfd, partial.hidden, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (partial.fd < 0)
		return error_set_errno(e, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_HOST, errno,
			"cannot write %s", name);
	partial.there = 1;
	return partial.fd;
}

int partial_commit(mode_t mode, struct error *e)
{
	int err = 0;

	if (fchmod(partial.fd, mode) < 0 || close(TAKE_FD(partial.fd)) < 0 ||
		renameat(partial.dirfd, partial.hidden, partial.dirfd, partial.name) < 0)
		err = errno;
	else
		partial.there = 0;
	partial_drop();
	return err ? error_set_errno(e, err == ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, err,
			     "cannot write %s", partial.name)
		   : 0;
}

void partial_drop(void)
{
	if (partial.fd >= 0)
		(void)close(TAKE_FD(partial.fd)); /* it is removed anyway */
	if (partial.there)
		(void)unlinkat(partial.dirfd, partial.hidden, 0); /* nothing better can be done */
	partial.there = 0;
}
