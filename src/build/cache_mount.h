/* What `RUN --mount=type=cache` keeps between builds. Each cache is a file in the state directory's
 * `caches`, named by a digest of the cache's id and of its scope. The operator's builds have the
 * scope "". Those of hosted agents have their key as the scope, for what npm and pip download.
 * Other builds of clients keep nothing. So nothing that one client leaves comes into the image of
 * another.
 *
 * The cache is copied into the guest before the step, and back after the step, even if the step
 * failed. A new file replaces the old one by a rename when it is complete. Beyond
 * CACHE_MOUNTS_BYTES_MAX the least recently used caches are removed. A cache of more than
 * CACHE_MOUNT_BYTES_MAX bytes (of a client CACHE_MOUNT_CLIENT_BYTES_MAX) or FILES_MAX files is not
 * kept. Blocks of zeros take no disk.
 *
 * Names and content come from a guest and are not trusted. They are bytes in a file, and never
 * become names on this host. */
#ifndef BUILD_CACHE_MOUNT_H
#define BUILD_CACHE_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "build/disk_budget.h"
#include "build/files.h"
#include "dockerfile/mount.h"
#include "image/home.h"

#define CACHE_MOUNT_BYTES_MAX	     (UINT64_C(2) << 30)
#define CACHE_MOUNT_CLIENT_BYTES_MAX (UINT64_C(512) << 20)
#define CACHE_MOUNTS_BYTES_MAX	     (UINT64_C(8) << 30)
#define CACHE_MOUNTS_RESERVE	     (UINT64_C(2) << 30) /* caches leave so much of the disk free */

enum { CACHE_MOUNT_WAIT_S = 600 };

struct cache_mount;

/* Opens the cache of a scope with that id. `locked` waits until no other step holds it, and fails
 * with ERROR_TIMEOUT after CACHE_MOUNT_WAIT_S. `private` gives an empty cache that is not kept if
 * another step holds it. `shared` does not wait; the step that ends last decides what is kept. */
int cache_mount_open(const struct home *h, const char *scope, const char *id,
	enum mount_sharing sharing, struct cache_mount **ret, struct error *e);

/* Returns the cache's files, which it owns, or NULL if it is empty. The top is "". */
struct files *cache_mount_files(struct cache_mount *c);

/* Replaces the cache by all that is below a directory of `from`. budget: limits the disk that it
 * takes. */
int cache_mount_keep(struct cache_mount *c, struct files *from, const char *path,
	struct disk_budget *budget, struct error *e);

void cache_mount_close(struct cache_mount *c); /* NULL is fine */

/* Removes the least recently used caches until at most `bytes` are left. Returns how many bytes it
 * freed. */
uint64_t cache_mounts_trim(const struct home *h, uint64_t bytes);

#endif
