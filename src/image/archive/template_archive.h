/* A template as one file, for other hosts: a tar archive, plain or as mayfly-unpack reads it.
 *
 *	NAME/template.json
 *	NAME/rootfs.ext4 and NAME/delta<n>, or NAME/rootfs.erofs and NAME/scratch.ext4
 *	NAME/cpu-baseline, NAME/history.json	where the template has them
 *	NAME/snapshots/<cpus>c-<memory>m/{state,memory,disk<n>,hot,checksums}
 *	NAME/manifest.json	last: {"format": 1, "files": [{"path", "bytes", "sha256"}]}
 *
 * The manifest has the SHA-256 of each file's content, and the archive's digest is that of the
 * manifest: it covers all. Holes are left out (GNU's sparse format 1.0 in pax headers, which tar
 * knows). Kernels are not in it.
 *
 * An archive of others is read in the jail. Nothing of it appears unless all of it is right. */
#ifndef IMAGE_TEMPLATE_ARCHIVE_H
#define IMAGE_TEMPLATE_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "image/home.h"
#include "image/progress.h"
#include "image/unpack.h"

enum {
	TEMPLATE_ARCHIVE_FILES_MAX = 512,
	TEMPLATE_ARCHIVE_PATH_MAX = 128,
	TEMPLATE_ARCHIVE_MANIFEST_MAX = 256 << 10,
	TEMPLATE_ARCHIVE_DIGEST_BYTES = 65, /* hexadecimal SHA-256, NUL */
};

/* Of a file, with its holes. */
#define TEMPLATE_ARCHIVE_FILE_MAX (UINT64_C(64) << 30)

struct template_archive {
	char name[65];
	char digest[TEMPLATE_ARCHIVE_DIGEST_BYTES];
	uint64_t files;
	uint64_t bytes; /* of the files, without their holes */
};

/* Writes a template to a file or a pipe. It cannot go meanwhile. */
int template_export(const struct home *h, const char *name, int fd, const struct progress *p,
	struct template_archive *ret, struct error *e);

struct template_import_options {
	int fd; /* borrowed */
	unpack_fn unpack;
	const char *name;   /* NULL: as in the archive */
	const char *digest; /* that it must have, or NULL */
	bool replace;	    /* a template of that name */
	const struct progress *progress;
};

/* Makes a template of an archive. Its image counts as another one than any that was built here, so
 * builds on it share no steps with builds on others. ERROR_BAD_IMAGE: what it is not; ERROR_EXISTS.
 */
int template_import(const struct home *h, const struct template_import_options *o,
	struct template_archive *ret, struct error *e);

/* Whether a file of a template goes into an archive. */
bool template_archive_takes(const char *path);

#endif
