/* The store of templates.
 *
 *   templates/<name>/
 *     template.json                the fields of struct template
 *     rootfs.ext4 | rootfs.erofs   a hard link to the image's file where the file system allows it,
 *     delta0, delta1, ...          else a copy; never written. Likewise its deltas (image.h)
 *     console.log                  of the boot that was snapshotted
 *     snapshots/<cpus>c-<mem>m/    state, memory, disk...: written by the snapshot code
 *
 * template_begin gives an empty private directory. template_commit puts it in place as a whole, and
 * replaces an older template of that name. The next build removes what a killed build left. A
 * template can be removed or replaced while sandboxes run from it: they hold its files open.
 * template.json is untrusted. */
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
	unsigned deltas; /* of the image */
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

/* Starts a build. ERROR_EXISTS when another process is building that name. */
int template_begin(
	const struct home *h, const char *name, struct template_build *ret, struct error *e);

/* The private directory, which contains snapshots/; borrowed. */
int template_build_fd(const struct template_build *b);

/* Links or copies an image's files into it, with what is known of their checksums: rootfs.*, its
 * deltas, and scratch.ext4 if there is one. */
int template_add_image(const struct home *h, const struct template_build *b, const struct image *m,
	struct error *e);

/* Notes the checksums of the image's files (verify.h) in a template's directory, unless they are
 * known there already. */
int template_record_image(int fd, enum image_kind kind, unsigned deltas, struct error *e);

/* Writes template.json (t->name is ignored) and puts the template in place, durably. The caller
 * must have synced the files that it wrote. Releases b in any case. */
int template_commit(struct template_build *b, const struct template *t, struct error *e);
void template_abort(struct template_build *b);

/* A key: a digest of everything that a template was made of, as text of one line. A build may note
 * it with its template, so that a later build of the same inputs finds the template and need not
 * run. */
enum { TEMPLATE_KEY_MAX = 64 };
int template_note_key(const struct template_build *b, const char *key, struct error *e);

/* Finds a template with that key. Returns 1 if `name` has it, or if another template has it: then
 * this function makes `name` from that one's files. 0: no template has the key. Else -errno. */
int template_reuse(const struct home *h, const char *name, const char *key, struct error *e);

/* Makes `name` a template of the same files as `from`, in place of one that is there. */
int template_clone(const struct home *h, const char *from, const char *name, struct error *e);

/* What it was made of step by step, as JSON: [{"step": text, "bytes": that it
 * wrote}]; "" of one that was made otherwise. malloc'ed. */
#define TEMPLATE_HISTORY_FILE "history.json"
enum { TEMPLATE_HISTORY_MAX = 4 << 20 };
int template_history(const struct home *h, const char *name, char **ret, struct error *e);

/* Bytes on the host's disk, with those of its image. */
struct template_bytes {
	uint64_t unique; /* that go with it */
	uint64_t
		shared; /* that others have, too: steps that are kept, sandboxes, other templates */
};
struct template_bytes template_bytes(const struct home *h, const char *name);

/* Loads the description. ERROR_NOT_FOUND, ERROR_BAD_IMAGE. */
int template_load(const struct home *h, const char *name, struct template *ret, struct error *e);

/* The same from another directory with a template.json: a copy whose template may be gone. Does not
 * compute the sizes on disk. */
int template_load_at(int dirfd, const char *name, struct template *ret, struct error *e);

/* Opens the template's directory. Returns a descriptor, or -errno with e filled. */
int template_open(const struct home *h, const char *name, struct error *e);

/* The same, and keeps the directory from being removed until the descriptor is closed, also when
 * another template takes its name meanwhile. */
int template_hold(const struct home *h, const char *name, struct error *e);

/* Calls fn for every template, in the order of names. A damaged one has only a name, and the error
 * of loading it. Stops at the first non-zero value and returns it. */
typedef int (*template_fn)(void *opaque, const struct template *t, const struct error *damage);
int template_each(const struct home *h, template_fn fn, void *opaque, struct error *e);

/* Removes a template at once. Space that somebody holds (workdir_hold) is freed by a later sweep.
 * ERROR_NOT_FOUND. */
int template_remove(const struct home *h, const char *name, struct error *e);

/* "2c-512m". */
void template_snapshot_name(
	uint32_t cpus, uint32_t memory_mb, char out[TEMPLATE_SNAPSHOT_NAME_MAX]);

/* Opens snapshots/<cpus>c-<mem>m in a template's directory; makes it if `create` is set. Returns a
 * descriptor, or -ENOENT. */
int template_snapshot_dir(int template_fd, uint32_t cpus, uint32_t memory_mb, bool create);

#endif
