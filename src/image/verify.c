#include "image/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/crc32c.h"
#include "base/file.h"

enum { UNIT = 64 << 10, NOTES_MAX = 64 << 10, IDENTITY_BYTES = 224 };

#define FILE_MAX (UINT64_C(65) << 30) /* a disk of 64 GiB with its metadata */

static const char sums_file[] = "checksums";
static const char stamps_file[] = "verified";

/* Files to look for notes in: the directory's own, and those of images that were linked into it. */
static const char *const sums_files[] = {"checksums", "checksums" VERIFY_IMAGE_SUFFIX};
static const char *const stamps_files[] = {"verified", "verified" VERIFY_IMAGE_SUFFIX};

static bool all_zero(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* Sums whole units, so that the sum does not depend on how a file system splits extents. */
static int sum_unit(int fd, uint64_t at, uint8_t *buf, size_t *ret_len, uint32_t *sum)
{
	uint8_t head[8];
	size_t n = 0;

	while (n < UNIT) {
		ssize_t r = pread(fd, buf + n, UNIT - n, (off_t)(at + n));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		n += (size_t)r;
	}
	*ret_len = n;
	if (all_zero(buf, n))
		return 0;
	put_le64(head, at);
	*sum = crc32c(crc32c(*sum, head, sizeof(head)), buf, n);
	return 0;
}

int verify_sum(int fd, const struct progress *p, uint32_t *ret)
{
	_cleanup_free_ uint8_t *buf = malloc(UNIT);
	uint64_t at = 0, units = 0;
	uint32_t sum = 0;
	struct stat st;

	if (!buf || fstat(fd, &st) < 0)
		return buf ? -errno : -ENOMEM;
	while (at < (uint64_t)st.st_size) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA);
		size_t n = 0;
		int r;

		if (data < 0 && errno == ENXIO)
			break; /* a hole up to the end */
		if (data > 0)
			at = (uint64_t)data / UNIT * UNIT;
		r = sum_unit(fd, at, buf, &n, &sum);
		if (r == 0 && ++units % 1024 == 0)
			r = progress_report(
				p, "verify", (int)(at * 100 / ((uint64_t)st.st_size)), NULL);
		if (r < 0)
			return r;
		if (n == 0)
			break;
		at += UNIT;
	}
	*ret = sum;
	return 0;
}

/* Notes are lines "name value value ..."; a name has no blanks. Returns the rest of name's line. */
static const char *find_note(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = text; p && *p;) {
		if (strncmp(p, name, n) == 0 && p[n] == ' ')
			return p + n + 1;
		p = strchr(p, '\n');
		p = p ? p + 1 : NULL;
	}
	return NULL;
}

static int write_note(int dirfd, const char *file, const char *name, const char *value)
{
	_cleanup_free_ char *old = NULL;
	struct buf out = BUF_INIT(NOTES_MAX);
	size_t n = strlen(name);
	int r = file_read_foreign(dirfd, file, NOTES_MAX, &old, NULL);

	for (const char *p = r == 0 ? old : NULL, *end; p && *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, '\n');
		if (strncmp(p, name, n) == 0 && p[n] == ' ')
			continue;
		r = buf_printf(&out, "%.*s\n", (int)(end - p), p);
		if (r < 0)
			break;
	}
	r = buf_printf(&out, "%s %s\n", name, value);
	if (r == 0)
		r = file_write_atomic(dirfd, file, buf_head(&out), buf_len(&out), 0600);
	buf_done(&out);
	return r;
}

static void format_identity(const struct stat *st, uint32_t sum, char out[IDENTITY_BYTES])
{
	(void)snprintf(out, IDENTITY_BYTES,
		"%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%lld.%09ld:%08" PRIx32, (uint64_t)st->st_dev,
		(uint64_t)st->st_ino, (uint64_t)st->st_size, (long long)st->st_mtim.tv_sec,
		st->st_mtim.tv_nsec, sum);
}

/* Appends this boot's id, which makes an identity valid only until the next boot. For files that
 * were written since the host came up, and so never read from its disk. */
static void add_boot(char identity[IDENTITY_BYTES])
{
	_cleanup_free_ char *id = NULL;
	size_t n = strlen(identity);

	if (file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &id, NULL) == 0)
		(void)snprintf(
			identity + n, IDENTITY_BYTES - n, "@%.*s", (int)strcspn(id, "\n"), id);
}

/* Remembers a file that was read whole after st was taken. If the file changed meanwhile, nothing
 * is noted, and the next check reads it again. */
static int stamp(int dirfd, const char *name, int fd, const struct stat *st, uint32_t sum)
{
	char identity[IDENTITY_BYTES];
	struct stat after;

	if (fstat(fd, &after) < 0 || after.st_mtim.tv_sec != st->st_mtim.tv_sec ||
		after.st_mtim.tv_nsec != st->st_mtim.tv_nsec)
		return 0;
	format_identity(st, sum, identity);
	return write_note(dirfd, stamps_file, name, identity);
}

int verify_record(int dirfd, const char *name, struct error *e)
{
	_cleanup_close_ int fd = file_open_foreign(dirfd, name, O_RDONLY, FILE_MAX);
	struct stat st;
	uint32_t sum;
	char value[64];
	int r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : verify_sum(fd, NULL, &sum);

	if (r == 0) {
		(void)snprintf(
			value, sizeof(value), "%" PRIu64 " %08" PRIx32, (uint64_t)st.st_size, sum);
		r = write_note(dirfd, sums_file, name, value);
	}
	if (r == 0)
		r = fsync(fd) < 0 ? -errno : stamp(dirfd, name, fd, &st, sum);
	if (r < 0)
		return error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -r,
			"cannot record the checksum of %s", name);
	return 0;
}

static int damaged(
	struct error *e, const char *what, const char *remedy, const char *name, const char *how)
{
	return error_set(
		e, ERROR_BAD_SNAPSHOT, EIO, "%s: the file %s %s; %s", what, name, how, remedy);
}

/* The rest of name's line, without the newline; malloc'ed, or NULL. */
static char *read_note(int dirfd, const char *const files[2], const char *name)
{
	for (int i = 0; i < 2; i++) {
		_cleanup_free_ char *text = NULL;
		const char *note = NULL;

		if (file_read_foreign(dirfd, files[i], NOTES_MAX, &text, NULL) == 0)
			note = find_note(text, name);
		if (note)
			return strndup(note, strcspn(note, "\n"));
	}
	return NULL;
}

static bool is_stamped(int dirfd, const char *name, const char *identity)
{
	_cleanup_free_ char *note = read_note(dirfd, stamps_files, name);
	char with_boot[IDENTITY_BYTES];

	if (!note || strcmp(note, identity) == 0)
		return note != NULL;
	(void)snprintf(with_boot, sizeof(with_boot), "%s", identity); /* fits */
	add_boot(with_boot);
	return strcmp(note, with_boot) == 0;
}

static bool read_record(int dirfd, const char *name, uint64_t *size, uint32_t *sum)
{
	_cleanup_free_ char *note = read_note(dirfd, sums_files, name);

	return note && sscanf(note, "%" SCNu64 " %" SCNx32, size, sum) == 2;
}

bool verify_is_recorded(int dirfd, const char *name)
{
	uint64_t size;
	uint32_t sum;

	return read_record(dirfd, name, &size, &sum);
}

int verify_check(int dirfd, const char *name, const char *what, const char *remedy,
	const struct progress *p, struct error *e)
{
	_cleanup_close_ int fd = file_open_foreign(dirfd, name, O_RDONLY, FILE_MAX);
	uint64_t want_size;
	uint32_t want, sum;
	char identity[IDENTITY_BYTES];
	struct stat st;
	int r;

	if (fd == -ENOENT)
		return damaged(e, what, remedy, name, "is missing");
	if (fd < 0 || fstat(fd, &st) < 0)
		return damaged(e, what, remedy, name, "is missing or is no regular file");
	if (!read_record(dirfd, name, &want_size, &want))
		return damaged(e, what, remedy, name, "has no checksum");
	if (want_size != (uint64_t)st.st_size)
		return damaged(e, what, remedy, name, "has another size than when it was written");
	format_identity(&st, want, identity);
	if (is_stamped(dirfd, name, identity))
		return 0;
	r = verify_sum(fd, p, &sum);
	if (r < 0)
		return error_set_errno(e, r == -EIO ? ERROR_BAD_SNAPSHOT : ERROR_INTERNAL, -r,
			"%s: cannot read the file %s", what, name);
	if (sum != want)
		return damaged(e, what, remedy, name, "is damaged");
	(void)stamp(
		dirfd, name, fd, &st, sum); /* a directory that cannot be written is no failure */
	return 0;
}

/* --- a directory whose files are shared --- */

static bool same_file(int dirfd, int other_fd, const char *name, const struct stat *st)
{
	struct stat other;

	return other_fd >= 0 && fstatat(other_fd, name, &other, AT_SYMLINK_NOFOLLOW) == 0 &&
	       other.st_ino == st->st_ino && other.st_dev == st->st_dev;
}

bool verify_is_current(int dirfd, const char *name)
{
	char identity[IDENTITY_BYTES];
	struct stat st;
	uint64_t size;
	uint32_t sum;

	if (!read_record(dirfd, name, &size, &sum) ||
		fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || size != (uint64_t)st.st_size)
		return false;
	format_identity(&st, sum, identity);
	return is_stamped(dirfd, name, identity);
}

void verify_share(int dirfd, int from_fd, const char *name)
{
	_cleanup_free_ char *sum = read_note(from_fd, sums_files, name),
			    *identity = read_note(from_fd, stamps_files, name);
	struct stat st;

	if (sum && identity && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		same_file(dirfd, from_fd, name, &st) &&
		write_note(dirfd, sums_file, name, sum) == 0)
		(void)write_note(dirfd, stamps_file, name, identity); /* without it, no use */
}

struct seal {
	int dirfd, below_fd;
	struct buf sums, stamps;
};

static int seal_file(struct seal *s, const char *name)
{
	_cleanup_close_ int fd = file_open_foreign(s->dirfd, name, O_RDONLY, FILE_MAX);
	char identity[IDENTITY_BYTES];
	bool shared, stamped = true;
	struct stat st;
	uint64_t size;
	uint32_t sum;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	shared = same_file(s->dirfd, s->below_fd, name, &st) &&
		 read_record(s->below_fd, name, &size, &sum);
	if (!shared)
		r = verify_sum(fd, NULL, &sum);
	if (r < 0)
		return r;
	format_identity(&st, sum, identity);
	if (shared)
		stamped = is_stamped(s->below_fd, name, identity);
	else
		add_boot(identity);
	r = buf_printf(&s->sums, "%s %" PRIu64 " %08" PRIx32 "\n", name, (uint64_t)st.st_size, sum);
	if (r == 0 && stamped)
		r = buf_printf(&s->stamps, "%s %s\n", name, identity);
	return r;
}

int verify_seal(int dirfd, int below_fd, const char *const *names, size_t count, struct error *e)
{
	struct seal s = {.dirfd = dirfd,
		.below_fd = below_fd,
		.sums = BUF_INIT(NOTES_MAX),
		.stamps = BUF_INIT(NOTES_MAX)};
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = seal_file(&s, names[i]);
	if (r == 0)
		r = file_write_atomic(
			dirfd, stamps_file, buf_head(&s.stamps), buf_len(&s.stamps), 0600);
	if (r == 0)
		r = file_write_atomic(dirfd, sums_file, buf_head(&s.sums), buf_len(&s.sums), 0600);
	buf_done(&s.sums);
	buf_done(&s.stamps);
	return r < 0 ? error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -r,
			       "cannot record checksums")
		     : 0;
}
