/* The store of templates.
 *
 *   templates/<name>/
 *     template.json                what this header's struct says
 *     rootfs.ext4 | rootfs.erofs   a hard link to the image's file where the file system allows it,
 *                                  else a copy; never written
 *     console.log                  of the boot that was snapshotted
 *     snapshots/<cpus>c-<mem>m/    state, memory, disk...: written by the snapshot code
 *
 * Building: template_begin gives an empty private directory, template_commit puts it in place whole
 * (replacing an older template of that name); a killed build leaves nothing that the next one does
 * not remove. A template can be removed or replaced while sandboxes run from it: they hold its
 * files open. template.json is hostile input. */
#ifndef IMAGE_TEMPLATE_H
#define IMAGE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/config.h"
#include "image/home.h"
#include "image/image.h"
#include "image/workdir.h"

enum { TEMPLATE_SNAPSHOT_NAME_MAX = 32, TEMPLATE_SNAPSHOTS_MAX = 64 };

struct template
{
	char *name; /* owned strings */
	char *kernel_release;
	char *agent_version;
	char *image_digest;
	enum image_kind kind;
	uint64_t created_s;
	struct image_config config;
	/* Computed on loading, not in the file. */
	uint64_t rootfs_disk_bytes;   /* bytes occupied on the host's disk */
	uint64_t snapshot_disk_bytes; /* of all snapshots */
};

void template_done(struct template *t);

struct template_build {
	struct workdir w;
};

#define TEMPLATE_BUILD_INIT                                                                        \
	{                                                                                          \
		.w = WORKDIR_INIT                                                                  \
	}

/* ERROR_EXISTS when another process builds that name now. */
int template_begin(
	const struct home *h, const char *name, struct template_build *ret, struct error *e);

/* The private directory, with snapshots/ in it; borrowed. */
int template_build_fd(const struct template_build *b);

/* Puts an image's files into it (rootfs.*, and scratch.ext4 when there is one). */
int template_add_image(const struct home *h, const struct template_build *b, const struct image *m,
	struct error *e);

/* Writes template.json (t->name is ignored) and puts the template in place, durably. Files that the
 * caller wrote must be synced by it. b is released in any case. */
int template_commit(struct template_build *b, const struct template *t, struct error *e);
void template_abort(struct template_build *b);

/* Loads the description. ERROR_NOT_FOUND, ERROR_BAD_IMAGE. */
int template_load(const struct home *h, const char *name, struct template *ret, struct error *e);

/* The same from another directory that has its template.json: a copy of one that may be gone. The
 * sizes on disk are not computed. */
int template_load_at(int dirfd, const char *name, struct template *ret, struct error *e);

/* The template's directory: a descriptor, or -errno with e filled. */
int template_open(const struct home *h, const char *name, struct error *e);

/* Calls fn for every template in the order of names; damaged ones have only a name, and the error
 * that loading them gave. Stops at the first non-zero value and returns it. */
typedef int (*template_fn)(void *opaque, const struct template *t, const struct error *damage);
int template_each(const struct home *h, template_fn fn, void *opaque, struct error *e);

int template_remove(const struct home *h, const char *name, struct error *e);

/* "2c-512m". */
void template_snapshot_name(
	uint32_t cpus, uint32_t memory_mb, char out[TEMPLATE_SNAPSHOT_NAME_MAX]);

/* Opens snapshots/<cpus>c-<mem>m of a template's directory, made when `create`: a descriptor, or
 * -ENOENT. */
int template_snapshot_dir(int template_fd, uint32_t cpus, uint32_t memory_mb, bool create);

#endif
