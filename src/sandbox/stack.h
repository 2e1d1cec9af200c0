/* A stack: the files that a microVM stands on, as a directory of links. They are its template's
 * image, the memory it was restored from, and everything frozen on top since: layers of memory, and
 * deltas of disks.
 *
 *	rootfs.ext4 | rootfs.erofs, scratch.ext4	images
 *	delta0, delta1, ...			deltas of the template's image, lowest first
 *	memory, memory.1, memory.2, ...			full memory, then what was written on top
 *	disk0, disk0.1, ...; disk1, ...			deltas over each image, lowest first
 *	template.json, hot				of the template
 *	checksums, verified				image/verify.h; with those of a template's
 *							image next to them
 *	state						only of a snapshot
 *
 * Every file is immutable and a hard link. So directories share what they have in common, and a
 * template may be replaced or removed while something stands on it. A file's space is freed with
 * the last directory that has it. Nobody counts references, so a crash loses no count.
 *
 * A running sandbox has a stack, the directory `layers`, without a state. A snapshot of it takes
 * three steps. Each can be repeated after a crash:
 *
 *	vmm_snapshot	writes into `snapshot` of the sandbox's directory; `state` comes last and
 *			is damaged until then
 *	stack_compose	makes one directory of `layers` and `snapshot`: the snapshot
 *	stack_advance	makes a sandbox that goes on stand on the snapshot's files
 *
 * All functions block. Errors are those of the host's file system. */
#ifndef SANDBOX_STACK_H
#define SANDBOX_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/launch.h"

#define STACK_DIR	   "layers" /* in the directory of a running sandbox */
#define STACK_TEMPLATE	   "template.json"
#define STACK_SNAPSHOT_DIR "snapshot" /* in there, while a snapshot is made */

enum { STACK_NAME_BYTES = 24 };

/* Opens the directory `name` in parent_fd. make: replaces it by an empty one first. Returns a
 * descriptor or -errno. */
int stack_open(int parent_fd, const char *name, bool make, struct error *e);

/* Links one file of another directory. A missing one is -ENOENT. The directory may be a microVM's:
 * anything but a regular file of at most VMM_FILE_MAX bytes is ERROR_BAD_SNAPSHOT and not
 * linked. */
int stack_take(int from_fd, const char *from, int to_fd, const char *to, struct error *e);

/* Links everything but the state. */
int stack_clone(int from_fd, int to_fd, struct error *e);
/* Links the state, too. */
int stack_clone_snapshot(int from_fd, int to_fd, struct error *e);

/* Makes the stack of `below`, with what vmm_snapshot wrote to raw_fd on top, in an empty directory,
 * checksums included. raw_fd has all that is needed (sandbox/launch.h) and stays as it is. memory =
 * false: only the disks, to boot from. own_bytes (may be NULL): what raw_fd occupies on disk.
 * ERROR_LIMIT when a disk would have more deltas than a microVM can have. */
int stack_compose(
	int below_fd, int raw_fd, int to_fd, bool memory, uint64_t *own_bytes, struct error *e);

/* For a live snapshot, or one that failed after the disks switched. Composes the sandbox's `layers`
 * anew from `snapshot`, removes `snapshot`, and gives the fresh deltas their names. to_fd (-1:
 * none) is an empty directory that gets the snapshot: that stack and the state, or only the disks
 * without memory. own_bytes as above: of what to_fd gets. */
int stack_advance(int sandbox_fd, int to_fd, bool memory, uint64_t *own_bytes, struct error *e);

/* Names of the top deltas: a running sandbox's, and the next one's during a snapshot. */
const char *stack_delta_name(unsigned disk);
const char *stack_next_delta_name(unsigned disk);

/* True if the sandbox's directory has deltas of the disk, so the disk is writable. */
bool stack_disk_is_writable(int sandbox_fd, unsigned disk);

/* True if a disk of the sandbox has as many deltas as a microVM can have. vmm_snapshot must merge
 * them before there can be one more. */
bool stack_is_full(int sandbox_fd);

/* Calls add for every file that a launch needs, in order: the memory, lowest first, then each
 * disk's image and deltas. Stops at the first non-zero value. */
enum stack_role { STACK_MEMORY, STACK_IMAGE, STACK_DELTA };
int stack_each(int fd, bool memory,
	int (*add)(void *arg, enum stack_role role, unsigned disk, const char *name), void *arg);

#endif
