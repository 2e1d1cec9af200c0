#include "io/jailed.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "io/program.h"

/* The launchers of this process. The kernel ends them when this process ends. */
static struct {
	pthread_mutex_t lock;
	bool off;
	struct launcher *launchers[JAIL_PLACES_];
} here = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int make(enum jail_place place, struct error *e)
{
	char path[PATH_MAX];
	int r = program_path("mayfly-launcher", path, sizeof(path), e);

	return r < 0 ? r : launcher_make(path, place, &here.launchers[place], e);
}

/* The launcher for a place, made at the first call. */
static int obtain(enum jail_place place, struct launcher **ret, struct error *e)
{
	int r;

	if (here.off)
		place = JAIL_PLACE_NONE;
	(void)pthread_mutex_lock(&here.lock); /* cannot fail */
	r = here.launchers[place] ? 0 : make(place, e);
	*ret = here.launchers[place];
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

bool jailed_is_on(void)
{
	return !here.off;
}

int jailed_prepare(enum jail_kind *ret, struct error *e)
{
	struct launcher *l;
	int r = obtain(JAIL_PLACE_EMPTY, &l, e);

	if (r == 0 && ret)
		*ret = launcher_kind(l);
	return r;
}

const char *jailed_weakness(void)
{
	struct launcher *l;

	(void)pthread_mutex_lock(&here.lock); /* cannot fail */
	l = here.launchers[JAIL_PLACE_EMPTY];
	(void)pthread_mutex_unlock(&here.lock); /* cannot fail */
	if (geteuid() != 0 || here.off || !l || launcher_kind(l) == JAIL_FULL)
		return NULL;
	return "jailed processes have the number of root itself: this root cannot map the users "
	       "from 1879048192 on (a container without these ids, or without CAP_SETUID, "
	       "CAP_SETGID "
	       "and CAP_SETFCAP): give it these, or start Mayfly as another user";
}

int jailed_start(
	const struct launcher_start *s, pid_t *ret_pid, enum jail_kind *ret_kind, struct error *e)
{
	struct launcher *l;
	int r = obtain(JAIL_PLACE_EMPTY, &l, e);

	if (r == 0)
		r = launcher_start(l, s, ret_pid, e);
	if (r == 0 && ret_kind)
		*ret_kind = launcher_kind(l);
	return r;
}

int jailed_start_dialler(const struct launcher_start *s, pid_t *ret, struct error *e)
{
	struct launcher *l;
	int r = obtain(JAIL_PLACE_NETWORK, &l, e);

	return r < 0 ? r : launcher_start(l, s, ret, e);
}
