/* Proves that a template's big files are undamaged; only the first check of a file is expensive.
 *
 * verify_record runs when a file is complete. It notes the file's size and the CRC-32C of its data
 * in the text file `checksums` next to it, and makes the file durable. It remembers the file's
 * identity (device, inode, size, mtime) in the file `verified`. The sum covers units of 64 KiB: it
 * skips those that are all zero, and includes the offsets of the others. Holes are not read.
 *
 * verify_check compares the identity. If it differs, as for a copy, it computes the sum again and
 * remembers the new identity. Any write changes mtime and so forces a new sum; ctime would change
 * with every link. This finds damage. It does not stop an adversary who can write to the directory.
 *
 * verify_seal and verify_share copy the notes for directories that link to files of others. */
#ifndef IMAGE_VERIFY_H
#define IMAGE_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/progress.h"

/* When files of two directories are linked into one, the notes of the second (`checksums` and
 * `verified`) get this suffix. */
#define VERIFY_IMAGE_SUFFIX ".image"

/* CRC-32C of a file, read through SEEK_DATA. A zero block counts the same as a hole. */
int verify_sum(int fd, const struct progress *p, uint32_t *ret);

/* Notes the sum of `name` in dirfd and replaces an older note. The file is then durable and counts
 * as verified. */
int verify_record(int dirfd, const char *name, struct error *e);

/* 0 when the file is as recorded. ERROR_BAD_SNAPSHOT, naming `what` ("template 'x'") and `remedy`,
 * when it is damaged, missing or was never recorded. */
int verify_check(int dirfd, const char *name, const char *what, const char *remedy,
	const struct progress *p, struct error *e);

/* Whether that file has a note. */
bool verify_is_recorded(int dirfd, const char *name);

/* Whether it has one, and is known to be as that says. */
bool verify_is_current(int dirfd, const char *name);

/* Copies the notes of a file that is a link to the one of the same name in from_fd. Without them,
 * or if it is another file, nothing is noted: verify_record must do it. */
void verify_share(int dirfd, int from_fd, const char *name);

/* Writes all notes of a directory anew. For files that are links to those of the same name in
 * below_fd (-1: none) it copies the notes. The others were just written: it computes their sums,
 * and they count as verified until the host reboots. */
int verify_seal(int dirfd, int below_fd, const char *const *names, size_t count, struct error *e);

#endif
