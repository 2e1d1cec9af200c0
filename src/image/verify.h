/* Proof that big files of a template are undamaged, cheap on every load but the first.
 *
 * When a file is complete, verify_record notes its size and the CRC-32C of its data extents (holes
 * are not read; where data and holes lie is part of the sum, in units of zero-filled 64 KiB) in the
 * text file `checksums` next to it, makes the file durable, and remembers its identity (device, inode,
 * size, mtime) in the file `verified`. verify_check compares the identity. Where it is another one, as
 * that of a copy is, it computes the sum again and remembers the new identity. Any write changes mtime,
 * and with it forces a new sum; ctime would change with every link. This finds damage, not an adversary
 * who can write the directory.
 *
 * Directories of links to files of others (sandbox/layers.h) take their notes over: verify_seal. */
#ifndef IMAGE_VERIFY_H
#define IMAGE_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/progress.h"

/* Where files of two directories were linked into one, the notes of the second one are there under
 * names with this at the end. */
#define VERIFY_IMAGE_SUFFIX ".image"

/* CRC-32C of a file, read through SEEK_DATA; a zero block counts the same as a hole. */
int verify_sum(int fd, const struct progress *p, uint32_t *ret);

/* Notes the sum of `name` in dirfd, replacing an older note; the file is durable then and counts as
 * verified. */
int verify_record(int dirfd, const char *name, struct error *e);

/* 0 when the file is as it was recorded. ERROR_BAD_SNAPSHOT, naming `what` ("template 'x'") and
 * `remedy`, when it is damaged, missing or was never recorded. */
int verify_check(int dirfd, const char *name, const char *what, const char *remedy,
	const struct progress *p, struct error *e);

/* Whether there is a note of that file. */
bool verify_is_recorded(int dirfd, const char *name);

/* Writes the notes of a directory anew. Those of files that are links to the ones of the same name
 * in below_fd (-1: none) are taken over; the others were written just now: they are summed up, and
 * count as verified until the host is started again. */
int verify_seal(int dirfd, int below_fd, const char *const *names, size_t count, struct error *e);

#endif
