/* mayfly-workshop: runs an external program in a jail, and exits with its status (workshop.h).
 *
 *	mayfly-workshop nobody|reader|root [network] [home=DIR] [read=PATH]... [copy=PATH]...
 *		[write=PATH]... [ids=UID:GID] [bytes=MOST] -- PROGRAM [ARGUMENT]...
 *
 * The program gets descriptors 0 to 2, the environment and the working directory. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "jail/workshop.h"

static int parse_user(const char *word, struct workshop *w)
{
	static const char *const names[WORKSHOP_USERS_] = {"nobody", "reader", "root"};

	for (unsigned i = 0; i < WORKSHOP_USERS_; i++)
		if (strcmp(word, names[i]) == 0) {
			w->user = (enum workshop_user)i;
			return 0;
		}
	return -EINVAL;
}

static int add_path(struct workshop_paths *paths, const char *path)
{
	if (*path != '/' || paths->count == WORKSHOP_PATHS_MAX)
		return -EINVAL;
	paths->items[paths->count++] = path;
	return 0;
}

/* Both are above 0: root has nothing to subordinate. */
static int parse_ids(const char *text, struct workshop *w)
{
	return sscanf(text, "%u:%u", &w->first_uid, &w->first_gid) == 2 && w->first_uid &&
			       w->first_gid
		       ? 0
		       : -EINVAL;
}

static int parse_word(const char *word, struct workshop *w)
{
	struct {
		const char *name;
		struct workshop_paths *to;
	} lists[] = {{"read=", &w->read}, {"copy=", &w->copy}, {"write=", &w->write}};

	for (unsigned i = 0; i < ARRAY_SIZE(lists); i++)
		if (str_starts_with(word, lists[i].name))
			return add_path(lists[i].to, word + strlen(lists[i].name));
	if (str_starts_with(word, "ids="))
		return parse_ids(word + strlen("ids="), w);
	if (str_starts_with(word, "home=/"))
		w->home = word + strlen("home=");
	else if (str_starts_with(word, "bytes="))
		w->bytes_max = strtoull(word + strlen("bytes="), NULL, 10);
	else if (strcmp(word, "network") == 0)
		w->network = true;
	else
		return -EINVAL;
	return 0;
}

static int parse(char **argv, struct workshop *w)
{
	int r = argv[0] && argv[1] ? parse_user(argv[1], w) : -EINVAL;

	for (argv += 2; r == 0; argv++) {
		if (!*argv)
			return -EINVAL;
		if (strcmp(*argv, "--") == 0)
			break;
		r = parse_word(*argv, w);
	}
	if (r == 0)
		w->argv = argv + 1;
	return r == 0 && w->argv[0] && *w->argv[0] == '/' ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	struct workshop w = {0};

	if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) < 0 || parse(argv, &w) < 0) {
		(void)fprintf(stderr, "mayfly runs this program itself\n");
		return WORKSHOP_FAILED;
	}
	return workshop_run(&w);
}
