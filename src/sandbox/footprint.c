#include "sandbox/footprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum {
	BLOCK_BYTES = 512,    /* of st_blocks */
	DEPTH_MAX = 3,	      /* template, snapshots, sizes */
	TEMPLATE_FILES = 512, /* files of templates beyond these count as a state's own */
};

struct inodes {
	ino_t of[TEMPLATE_FILES];
	unsigned count;
};

/* Calls add for every entry that stat succeeds on. */
static void each_entry(int parent_fd, const char *name,
	void (*add)(void *arg, int fd, const char *name, const struct stat *st), void *arg)
{
	DIR *d = file_open_dir(parent_fd, name);
	struct dirent *de;
	struct stat st;

	if (!d)
		return;
	while ((de = readdir(d)))
		if (*de->d_name != '.' &&
			fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			add(arg, dirfd(d), de->d_name, &st);
	(void)closedir(d); /* read-only */
}

struct walk {
	struct inodes *found;
	unsigned depth;
};

/* Notes a template's file. One with a single link is shared with nobody and left out. */
static void add_template_file(void *arg, int fd, const char *name, const struct stat *st)
{
	struct walk *w = arg;
	struct walk below = {w->found, w->depth + 1};

	if (S_ISDIR(st->st_mode) && w->depth < DEPTH_MAX)
		each_entry(fd, name, add_template_file, &below);
	else if (S_ISREG(st->st_mode) && st->st_nlink > 1 && w->found->count < TEMPLATE_FILES)
		w->found->of[w->found->count++] = st->st_ino;
}

struct sum {
	const struct inodes *without;
	uint64_t bytes;
};

static void add_file(void *arg, int fd, const char *name, const struct stat *st)
{
	struct sum *s = arg;

	for (unsigned i = 0; i < s->without->count; i++)
		if (s->without->of[i] == st->st_ino)
			return;
	if (S_ISREG(st->st_mode))
		s->bytes += (uint64_t)st->st_blocks * BLOCK_BYTES;
}

uint64_t footprint_of(const struct home *h, enum home_area area, const char *name)
{
	struct inodes of_templates = {.count = 0};
	struct walk w = {&of_templates, 0};
	struct sum s = {.without = &of_templates};

	each_entry(h->area_fd[HOME_TEMPLATES], ".", add_template_file, &w);
	each_entry(h->area_fd[area], name, add_file, &s);
	return s.bytes;
}
