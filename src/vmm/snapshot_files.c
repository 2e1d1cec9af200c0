#include "vmm/snapshot_files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "vmm/control.h"

static const char *const part_words[SNAPSHOT_PARTS] = {
	"state", "memory", "memory.merged", "disk0.merged", "disk1.merged"};
static const char *const disk_words[SNAPSHOT_DISKS_MAX] = {"disk0", "disk1"};

static_assert((int)SNAPSHOT_PARTS + (int)SNAPSHOT_DISKS_MAX <= (int)CONTROL_FDS_MAX,
	"all of them fit one request");

/* --- which files --- */

void snapshot_needs_format(const struct snapshot_needs *n, char *out)
{
	size_t len = (size_t)snprintf(
		out, SNAPSHOT_NEEDS_BYTES, "%s", n->memory_full ? "full" : "layer"); /* all fits */

	for (unsigned i = SNAPSHOT_PART_MEMORY_MERGED; i < SNAPSHOT_PARTS; i++)
		if (n->part[i])
			len += (size_t)snprintf(
				out + len, SNAPSHOT_NEEDS_BYTES - len, ",%s", part_words[i]);
}

static int part_of(const char *word, size_t n)
{
	for (unsigned i = 0; i < SNAPSHOT_PARTS; i++)
		if (strlen(part_words[i]) == n && memcmp(part_words[i], word, n) == 0)
			return (int)i;
	return -1;
}

int snapshot_needs_parse(const char *text, struct snapshot_needs *ret)
{
	struct snapshot_needs n = {
		.part = {[SNAPSHOT_PART_STATE] = true, [SNAPSHOT_PART_MEMORY] = true}};
	size_t len = strcspn(text, ", ");

	n.memory_full = len == 4 && memcmp(text, "full", 4) == 0;
	if (!n.memory_full && !(len == 5 && memcmp(text, "layer", 5) == 0))
		return -EINVAL;
	for (text += len; *text == ','; text += len) {
		int part;

		len = strcspn(++text, ", ");
		part = part_of(text, len);
		if (part < SNAPSHOT_PART_MEMORY_MERGED)
			return -EINVAL;
		n.part[part] = true;
	}
	*ret = n;
	return 0;
}

/* --- files --- */

static const char *file_name(unsigned part, const struct snapshot_needs *n)
{
	return part == SNAPSHOT_PART_MEMORY && !n->memory_full ? "memory.layer" : part_words[part];
}

int snapshot_files_create(
	int dirfd, const struct snapshot_needs *n, struct snapshot_files *ret, struct error *e)
{
	struct snapshot_files f = SNAPSHOT_FILES_INIT;

	for (unsigned i = 0; i < SNAPSHOT_PARTS; i++) {
		const char *name = file_name(i, n);

		if (!n->part[i])
			continue;
		f.fd[i] = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (f.fd[i] < 0) {
			int err = errno;

			snapshot_files_close(&f);
			return error_set_errno(
				e, ERROR_NO_SPACE, err, "cannot create the snapshot's %s", name);
		}
	}
	*ret = f;
	return 0;
}

void snapshot_files_close(struct snapshot_files *f)
{
	for (unsigned i = 0; i < SNAPSHOT_PARTS; i++)
		cleanup_close_p(&f->fd[i]);
	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX; i++)
		cleanup_close_p(&f->disk_fd[i]);
}

/* --- as words --- */

static void describe(const char *word, int fd, char *text, size_t max, struct control_fds *fds)
{
	size_t n = strlen(text);

	if (fd < 0)
		return;
	(void)snprintf(text + n, max - n, " %s", word); /* the longest request fits */
	fds->fd[fds->count++] = fd;
}

void snapshot_files_describe(
	const struct snapshot_files *f, char *text, size_t max, struct control_fds *fds)
{
	for (unsigned i = 0; i < SNAPSHOT_PARTS; i++)
		describe(part_words[i], f->fd[i], text, max, fds);
	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX; i++)
		describe(disk_words[i], f->disk_fd[i], text, max, fds);
}

/* Returns the place for the descriptor of a word, or NULL. */
static int *place_of(struct snapshot_files *f, const char *word, size_t n)
{
	int part = part_of(word, n);

	if (part >= 0)
		return &f->fd[part];
	for (unsigned i = 0; i < SNAPSHOT_DISKS_MAX; i++)
		if (strlen(disk_words[i]) == n && memcmp(disk_words[i], word, n) == 0)
			return &f->disk_fd[i];
	return NULL;
}

static int take(const char *words, struct control_fds *fds, struct snapshot_files *f)
{
	unsigned next = 0;

	for (;;) {
		size_t n;
		int *place;

		words += strspn(words, " ");
		n = strcspn(words, " ");
		if (!n)
			return next == fds->count ? 0 : -EINVAL;
		place = place_of(f, words, n);
		if (!place || *place >= 0 || next == fds->count)
			return -EINVAL;
		*place = TAKE_FD(fds->fd[next++]);
		words += n;
	}
}

int snapshot_files_take(
	const char *words, struct control_fds *fds, struct snapshot_files *ret, struct error *e)
{
	struct snapshot_files f = SNAPSHOT_FILES_INIT;

	if (take(words, fds, &f) < 0) {
		snapshot_files_close(&f);
		return error_set(e, ERROR_USAGE, EINVAL,
			"the request's files and its descriptors do not match");
	}
	*ret = f;
	return 0;
}

int snapshot_files_check(
	const struct snapshot_files *f, const struct snapshot_needs *n, struct error *e)
{
	for (unsigned i = 0; i < SNAPSHOT_PARTS; i++)
		if (n->part[i] != (f->fd[i] >= 0))
			return error_set(e, ERROR_USAGE, EINVAL, "a snapshot of it %s the file %s",
				n->part[i] ? "needs" : "does not need", part_words[i]);
	return 0;
}
