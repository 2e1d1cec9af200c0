#include "io/jailed.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "io/program.h"

/* For the whole process. The kernel ends them with us. */
static struct {
	pthread_mutex_t lock;
	bool off;
	struct launcher *launchers[2]; /* with a jail, and without */
} here = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int make(struct error *e)
{
	char path[PATH_MAX];
	int r = program_path("mayfly-launcher", path, sizeof(path), e);

	return r < 0 ? r
		     : launcher_make(path, here.off ? JAIL_PLACE_NONE : JAIL_PLACE_EMPTY,
			       &here.launchers[here.off], e);
}

/* The launcher, made at the first call. */
static int obtain(struct launcher **ret, struct error *e)
{
	int r;

	(void)pthread_mutex_lock(&here.lock); /* cannot fail */
	r = here.launchers[here.off] ? 0 : make(e);
	*ret = here.launchers[here.off];
	(void)pthread_mutex_unlock(&here.lock); /* cannot fail */
	return r;
}

int jailed_configure(const char *word, struct error *e)
{
	bool off = strcmp(word, "off") == 0;

	if (!off && strcmp(word, "on") != 0)
		return error_set(e, ERROR_USAGE, EINVAL, "--jail=%s: on or off", word);
	here.off = off;
	return 0;
}

int jailed_prepare(enum jail_kind *ret, struct error *e)
{
	struct launcher *l;
	int r = obtain(&l, e);

	if (r == 0 && ret)
		*ret = launcher_kind(l);
	return r;
}

int jailed_start(
	const struct launcher_start *s, pid_t *ret_pid, enum jail_kind *ret_kind, struct error *e)
{
	struct launcher *l;
	int r = obtain(&l, e);

	if (r == 0)
		r = launcher_start(l, s, ret_pid, e);
	if (r == 0 && ret_kind)
		*ret_kind = launcher_kind(l);
	return r;
}
