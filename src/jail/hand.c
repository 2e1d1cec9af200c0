#include "jail/hand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

struct hand {
	uid_t uid;
	gid_t gid;
	dev_t device;
	unsigned entries;
	uint64_t *measured; /* NULL: it is given away */
};

static int give_at(struct hand *h, int at, const char *name, int depth);

static int give_children(struct hand *h, int at, const char *name, int depth)
{
	DIR *d = file_open_dir(at, name);
	struct dirent *de;
	int r = 0;

	if (!d)
		return -errno;
	while (r == 0 && (de = readdir(d)))
		if (!file_is_dots(de->d_name))
			r = give_at(h, dirfd(d), de->d_name, depth + 1);
	(void)closedir(d); /* read-only */
	return r;
}

/* Each name of a file with n names counts 1/n of its bytes. */
static int take_in(struct hand *h, int at, const char *name, const struct stat *st)
{
	if (h->measured)
		*h->measured += (uint64_t)st->st_blocks * 512 / (st->st_nlink ? st->st_nlink : 1);
	else if (fchownat(at, name, h->uid, h->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* While measuring, a file that vanishes meanwhile is no error. */
static int missed(const struct hand *h, int r)
{
	return h->measured && (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) ? 0 : r;
}

/* Handles the content before the directory itself: afterwards the directory belongs to the other
 * user. */
static int give_at(struct hand *h, int at, const char *name, int depth)
{
	struct stat st;
	int r = 0;

	if (depth > HAND_DEPTH_MAX || ++h->entries > HAND_ENTRIES_MAX)
		return -E2BIG;
	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return missed(h, -errno);
	if (depth == 0)
		h->device = st.st_dev;
	if (st.st_dev != h->device)
		return 0; /* something is mounted there */
	if (S_ISDIR(st.st_mode))
		r = missed(h, give_children(h, at, name, depth));
	return r == 0 ? take_in(h, at, name, &st) : r;
}

int hand_over(const char *path, uid_t uid, gid_t gid)
{
	struct hand h = {.uid = uid, .gid = gid};

	return give_at(&h, AT_FDCWD, path, 0);
}

int hand_measure(const char *path, uint64_t *bytes)
{
	struct hand h = {.measured = bytes};

	return give_at(&h, AT_FDCWD, path, 0);
}
