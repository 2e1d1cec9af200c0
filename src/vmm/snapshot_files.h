/* The files of one snapshot. mayfly-vmm opens no path: whoever asks for a snapshot creates the
 * files and sends their descriptors. A word of the request names each of them (control.h). */
#ifndef VMM_SNAPSHOT_FILES_H
#define VMM_SNAPSHOT_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "proto/snapshot.h"

struct control_fds;

enum snapshot_part {
	SNAPSHOT_PART_STATE,
	SNAPSHOT_PART_MEMORY, /* file `memory` or `memory.layer` */
	SNAPSHOT_PART_MEMORY_MERGED,
	SNAPSHOT_PART_DISK0_MERGED, /* for disk n: this + n */
	SNAPSHOT_PART_DISK1_MERGED,
	SNAPSHOT_PARTS
};

/* The files that the next snapshot of a VM writes. Only a snapshot changes this. */
struct snapshot_needs {
	bool memory_full;	   /* all of the memory, as there is nothing below */
	bool part[SNAPSHOT_PARTS]; /* state and memory are always true */
};

/* Format it as one word of a status, and parse it. out has SNAPSHOT_NEEDS_BYTES. Returns 0 or
 * -EINVAL. */
enum { SNAPSHOT_NEEDS_BYTES = 96 };
void snapshot_needs_format(const struct snapshot_needs *n, char *out);
int snapshot_needs_parse(const char *text, struct snapshot_needs *ret);

struct snapshot_files {
	int fd[SNAPSHOT_PARTS];		 /* -1: none */
	int disk_fd[SNAPSHOT_DISKS_MAX]; /* per disk: new delta, or where it is saved; -1 */
};
#define SNAPSHOT_FILES_INIT                                                                        \
	{                                                                                          \
		.fd = {-1, -1, -1, -1, -1}, .disk_fd = { -1, -1 }                                  \
	}

/* Creates the needed parts for reading and writing, in a directory that has none of them. On
 * failure all are closed; the caller removes the directory. */
int snapshot_files_create(
	int dirfd, const struct snapshot_needs *n, struct snapshot_files *ret, struct error *e);
void snapshot_files_close(struct snapshot_files *f);

/* Appends a word for each file to a request of at most `max` bytes, and its descriptor (borrowed)
 * to fds. */
void snapshot_files_describe(
	const struct snapshot_files *f, char *text, size_t max, struct control_fds *fds);
/* The reverse. Takes all of fds over. ERROR_USAGE when words and descriptors do not match. */
int snapshot_files_take(
	const char *words, struct control_fds *fds, struct snapshot_files *ret, struct error *e);

/* Checks that just the needed files are there, else ERROR_USAGE. */
int snapshot_files_check(
	const struct snapshot_files *f, const struct snapshot_needs *n, struct error *e);

#endif
