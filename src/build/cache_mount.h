/* What `RUN --mount=type=cache` keeps between the operator's builds: a file each in the state
 * directory's `caches`, named by a digest of the cache's id. Builds of clients keep nothing: what
 * one of them leaves there would be in another one's image.
 *
 * The directory is copied into the guest before the step, and what it has then is kept after it. A
 * step that fails keeps it, too: it is a cache. A file appears by a rename when it is complete.
 * Caches that were used least recently go beyond CACHE_MOUNTS_BYTES_MAX; one that is larger than
 * CACHE_MOUNT_BYTES_MAX, or has more than FILES_MAX files, is not kept. Zeros take no disk.
 *
 * Names and content are a guest's. They are bytes in a file here, and never names on this host. */
#ifndef BUILD_CACHE_MOUNT_H
#define BUILD_CACHE_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "build/disk_budget.h"
#include "build/files.h"
#include "build/mount.h"
#include "image/home.h"

#define CACHE_MOUNT_BYTES_MAX  (UINT64_C(2) << 30)
#define CACHE_MOUNTS_BYTES_MAX (UINT64_C(8) << 30)
#define CACHE_MOUNTS_RESERVE   (UINT64_C(2) << 30) /* of the disk, that caches leave free */

enum { CACHE_MOUNT_WAIT_S = 600 };

struct cache_mount;

/* Opens a cache. Locked: waits until no other step has it locked (ERROR_TIMEOUT). Private: where
 * another one has it, an empty one that is not kept. Shared: as it is; who ends last decides. */
int cache_mount_open(const struct home *h, const char *id, enum mount_sharing sharing,
	struct cache_mount **ret, struct error *e);

/* What it has, owned by it; NULL: nothing. Its top is "". */
struct files *cache_mount_files(struct cache_mount *c);

/* Keeps what is below a directory of `from` in place of that. budget: what it may take, and leaves
 * free. */
int cache_mount_keep(struct cache_mount *c, struct files *from, const char *path,
	struct disk_budget *budget, struct error *e);

void cache_mount_close(struct cache_mount *c); /* NULL is fine */

/* Removes what was used least recently until at most `bytes` are left. Returns the bytes freed. */
uint64_t cache_mounts_trim(const struct home *h, uint64_t bytes);

#endif
