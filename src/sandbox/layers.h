/* What a microVM stands on, as a directory of links: the file of its template's image, the memory
 * it was restored from, and everything that was frozen on top since.
 *
 *	rootfs.ext4 | rootfs.erofs, scratch.ext4	images
 *	memory, memory.1, memory.2, ...			full memory, then what was written on top
 *	disk0, disk0.1, ...; disk1, ...			deltas over each image, lowest first
 *	template.json, hot				of the template
 *	checksums, verified				image/verify.h; with those of a template's
 *							image next to them
 *	state						only of a snapshot
 *
 * Every file is immutable and a hard link, so that directories share what they have in common, a
 * template may be replaced or removed while something stands on it, and a file's space comes free
 * with the last directory that has it: nobody counts, and a crash loses no count.
 *
 * A running sandbox has such a directory, `layers`, without a state. A snapshot of it takes three
 * steps, each of which can be done again after a crash:
 *
 *	vmm_snapshot	writes into `snapshot` of the sandbox's directory, `state` last, which is
 *			damaged before
 *	layers_compose	`layers` and `snapshot` become one directory, the snapshot
 *	layers_advance	a sandbox that went on stands on the snapshot's files from now on
 *
 * All functions block. Errors are those of the host's file system. */
#ifndef DAEMON_LAYERS_H
#define DAEMON_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/launch.h"

#define LAYERS_DIR	    "layers" /* in the directory of a running sandbox */
#define LAYERS_TEMPLATE	    "template.json"
#define LAYERS_SNAPSHOT_DIR "snapshot" /* in there, while one is made */

enum { LAYERS_NAME_BYTES = 24 };

/* Opens the directory `name` in parent_fd; made, empty, when `make`. Descriptor or -errno. */
int layers_open(int parent_fd, const char *name, bool make, struct error *e);

/* Links one file of another directory. A missing one is -ENOENT. The directory may be a microVM's: what
 * is no regular file, or larger than VMM_FILE_MAX, is ERROR_BAD_SNAPSHOT and not linked. */
int layers_take(int from_fd, const char *from, int to_fd, const char *to, struct error *e);

/* Links everything but the state. */
int layers_clone(int from_fd, int to_fd, struct error *e);
/* The state too. */
int layers_clone_snapshot(int from_fd, int to_fd, struct error *e);

/* Makes the stack of `below` with what vmm_snapshot wrote to raw_fd on top, in an empty directory,
 * checksums included. What is in raw_fd says all that is needed (sandbox/launch.h); it stays as it is.
 * With memory = false only the disks count: to be booted from. own_bytes (may be NULL): what raw_fd
 * occupies on disk. ERROR_LIMIT when there would be more deltas of a disk than a microVM can have. */
int layers_compose(
	int below_fd, int raw_fd, int to_fd, bool memory, uint64_t *own_bytes, struct error *e);

/* Of a live snapshot, or one that failed after the disks were switched: the sandbox's `layers` are
 * composed anew from `snapshot`, which is removed, and the fresh deltas get their names. to_fd (-1:
 * none) is an empty directory that gets the snapshot: those layers and the state. own_bytes as
 * above. */
int layers_advance(int sandbox_fd, int to_fd, uint64_t *own_bytes, struct error *e);

/* Names of the top deltas: that of a running sandbox, and the next one's during a snapshot. */
const char *layers_delta_name(unsigned disk);
const char *layers_next_delta_name(unsigned disk);

/* Whether there are deltas of the disk, i.e. it is writable, in the sandbox's directory. */
bool layers_disk_is_writable(int sandbox_fd, unsigned disk);

/* Whether the sandbox stands on as many deltas of a disk as a microVM can have: one more only after
 * vmm_snapshot has merged them. */
bool layers_are_full(int sandbox_fd);

/* Calls add for every file that a launch needs, in order: first the memory, lowest first, then for
 * each disk its image and deltas. Stops at the first non-zero value. */
enum layers_role { LAYERS_MEMORY, LAYERS_IMAGE, LAYERS_DELTA };
int layers_each(int fd, bool memory,
	int (*add)(void *arg, enum layers_role role, unsigned disk, const char *name), void *arg);

#endif
