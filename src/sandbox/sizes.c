#include "sandbox/sizes.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "image/template.h"
#include "image/workdir.h"

enum { LIST_MAX = 1024 }; /* of all templates; the next call sees the rest */

struct entry {
	char template[NAME_MAX + 1];
	char name[TEMPLATE_SNAPSHOT_NAME_MAX];
	uint64_t used_ns, bytes;
};

struct list {
	struct entry *entries;
	size_t count;
};

void sizes_used(int snapshot_fd)
{
	(void)futimens(snapshot_fd, NULL); /* another user's home: a worse order then */
}

static int open_snapshots(const struct home *h, const char *template)
{
	_cleanup_close_ int fd = template_open(h, template, NULL);

	return fd < 0 ? -1 : openat(fd, "snapshots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static uint64_t bytes_of(int fd)
{
	static const char *const names[] = {"memory", "disk0", "disk1", "hot", "state"};
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		sum += file_disk_bytes(fd, names[i]);
	return sum;
}

static void add_entry(struct list *l, const char *template, int snapshots_fd, const char *name)
{
	_cleanup_close_ int fd =
		openat(snapshots_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct entry *x = &l->entries[l->count];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || l->count == LIST_MAX ||
		strlen(template) >= sizeof(x->template) || strlen(name) >= sizeof(x->name))
		return;
	strcpy(x->template, template); /* both lengths were checked */
	strcpy(x->name, name);
	x->used_ns = (uint64_t)st.st_mtim.tv_sec * NS_PER_S + (uint64_t)st.st_mtim.tv_nsec;
	x->bytes = bytes_of(fd);
	l->count++;
}

/* Adds all snapshots but the one of the template's own sizes. */
static void add_template(struct list *l, const struct home *h, const char *template)
{
	_cleanup_close_ int fd = open_snapshots(h, template);
	char own[TEMPLATE_SNAPSHOT_NAME_MAX], **names = NULL;
	struct template t = {0};

	if (fd < 0 || template_load(h, template, &t, NULL) < 0)
		return;
	template_snapshot_name(t.config.cpus, t.config.memory_mb, own);
	template_done(&t);
	if (workdir_list(fd, &names) < 0)
		return;
	for (char **p = names; *p; p++)
		if (strcmp(*p, own) != 0)
			add_entry(l, template, fd, *p);
	workdir_list_free(names);
}

static int used_last_first(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->used_ns < y->used_ns) - (x->used_ns > y->used_ns);
}

static void evict(const struct home *h, const struct entry *x)
{
	_cleanup_close_ int fd = open_snapshots(h, x->template);

	log_info("removing the snapshot %s of template %s: others were used later", x->name,
		x->template);
	if (fd >= 0)
		(void)workdir_remove(fd, x->name); /* the next call tries again */
}

static uint64_t default_bytes(const struct home *h)
{
	struct statvfs v;

	if (fstatvfs(h->fd, &v) < 0)
		return UINT64_MAX; /* the limit on their number still holds */
	return (uint64_t)v.f_blocks * v.f_frsize / 100 * SIZES_PERCENT;
}

void sizes_evict(const struct home *h, uint64_t bytes_max)
{
	_cleanup_free_ struct entry *entries = calloc(LIST_MAX + 1, sizeof(*entries));
	struct list l = {.entries = entries};
	char **templates = NULL;
	uint64_t bytes = 0;

	if (!entries || workdir_list(h->area_fd[HOME_TEMPLATES], &templates) < 0)
		return;
	for (char **p = templates; *p; p++)
		add_template(&l, h, *p);
	workdir_list_free(templates);
	qsort(entries, l.count, sizeof(*entries), used_last_first);
	if (!bytes_max)
		bytes_max = default_bytes(h);
	for (size_t i = 0; i < l.count; i++) {
		bytes += entries[i].bytes;
		if (i > 0 && (i >= SIZES_MAX || bytes > bytes_max))
			evict(h, &entries[i]);
	}
}
