#include "io/subordinate.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "jail/workshop_spec.h"

enum { FILE_MAX = 1 << 20, NAME_MAX_BYTES = 128, PASSWD_MAX = 16 << 10 };

/* Reads a number that `end` follows, and moves to behind that. */
static bool take_number(const char **p, char end, uint64_t *ret)
{
	char text[12];
	size_t n = strspn(*p, "0123456789");

	if (n == 0 || n >= sizeof(text) || ((*p)[n] != end && (*p)[n] != '\0'))
		return false;
	memcpy(text, *p, n);
	text[n] = '\0';
	*p += n;
	return str_parse_u64(text, ret) == 0;
}

/* "name:first:count" */
static bool read_line(const char *p, const char *owner, unsigned count, unsigned *ret)
{
	size_t n = strlen(owner);
	uint64_t first, has;

	if (strncmp(p, owner, n) != 0 || p[n] != ':')
		return false;
	p += n + 1;
	if (!take_number(&p, ':', &first) || *p++ != ':' || !take_number(&p, '\n', &has))
		return false;
	if (first == 0 || has < count || first + count > UINT32_MAX)
		return false;
	*ret = (unsigned)first;
	return true;
}

bool subordinate_range(
	const char *text, const char *name, uid_t uid, unsigned count, unsigned *ret_first)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%u", uid); /* fits */
	while (*text) {
		if (read_line(text, name, count, ret_first) ||
			read_line(text, number, count, ret_first))
			return true;
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return false;
}

/* The user's name; its number where nobody has one for it. */
static void name_user(char name[NAME_MAX_BYTES])
{
	struct passwd *found = NULL, pw;
	char text[PASSWD_MAX];

	if (getpwuid_r(getuid(), &pw, text, sizeof(text), &found) == 0 && found)
		(void)snprintf(name, NAME_MAX_BYTES, "%s", pw.pw_name);
	else
		(void)snprintf(name, NAME_MAX_BYTES, "%u", getuid());
}

static bool find_in(const char *path, const char *name, unsigned *ret)
{
	_cleanup_free_ char *text = NULL;

	return file_read(AT_FDCWD, path, FILE_MAX, &text, NULL) == 0 &&
	       subordinate_range(text, name, getuid(), WORKSHOP_ROOT_IDS, ret);
}

int subordinate_find(struct subordinate *ret, struct error *e)
{
	char name[NAME_MAX_BYTES];

	name_user(name);
	if (find_in("/etc/subuid", name, &ret->uid) && find_in("/etc/subgid", name, &ret->gid))
		return 0;
	return error_set(e, ERROR_HOST, EPERM,
		"Debian images without root need %d subordinate ids, and %s has none in "
		"/etc/subuid and /etc/subgid: as root, usermod --add-subuids 100000-165535 "
		"--add-subgids 100000-165535 %s (or another range that is free), or build as root, "
		"or from an image that others made (--from, --from-tar)",
		WORKSHOP_ROOT_IDS, name, name);
}
