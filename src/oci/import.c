#include "oci/import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/str.h"
#include "oci/settings.h"

#define MIB UINT64_C(0x100000)

enum {
	BLOCK = 4096,
	INODE_BYTES = 16384, /* of the disk for each file: ext4.c */
	DISK_MB_MIN = 4096,
	ROOM_MB = 1024,
};

static int report(const struct oci_import *i, const char *stage, size_t layer, struct error *e)
{
	size_t n = i->image->layer_count;
	char line[64];
	int r;

	(void)snprintf(line, sizeof(line), "layer %zu of %zu", layer + 1, n);
	r = progress_report(i->progress, stage, (int)(layer * 100 / n), line);
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended") : 0;
}

static int read_layer(const struct oci_import *i, size_t layer, enum parse_job job,
	struct tree_sink *to, struct error *e)
{
	struct parse_options o = {.job = job, .fd = i->image->layers[layer]};
	int r;

	if (lseek(o.fd, 0, SEEK_SET) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "layer %zu", layer + 1);
	r = i->unpack(&o, to, e);
	if (r < 0 && e && !str_starts_with(e->message, "layer "))
		error_prefix(e, "layer %zu", layer + 1);
	return r;
}

static void note_devices(struct oci_import *i)
{
	uint64_t n = oci_merge_count(i->merge).devices;

	if (n) /* a note that does not fit is left out */
		(void)buf_printf(
			&i->notes, "%" PRIu64 " device nodes of the image are left out\n", n);
}

int oci_import_plan(struct oci_import *i, const struct oci_image *image, unpack_fn read,
	const struct progress *p, struct error *e)
{
	int r = 0;

	*i = (struct oci_import){.image = image, .progress = p, .unpack = read};
	buf_init(&i->notes, OCI_NOTES_MAX);
	i->merge = oci_merge_new(&oci_merge_limits);
	if (!i->merge)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	for (size_t k = 0; k < image->layer_count && r == 0; k++) {
		struct tree_sink *to;

		r = report(i, "read the layers", k, e);
		if (r == 0)
			r = oci_merge_next(i->merge, &to, e);
		if (r == 0)
			r = read_layer(i, k, PARSE_NAMES, to, e);
	}
	if (r == 0)
		note_devices(i);
	return r;
}

uint64_t oci_import_bytes(const struct oci_import *i)
{
	struct oci_merge_counts c = oci_merge_count(i->merge);
	uint64_t blocks = c.bytes + c.entries * BLOCK, inodes = c.entries * INODE_BYTES;

	return blocks > inodes ? blocks : inodes;
}

uint32_t oci_import_disk_mb(const struct oci_import *i)
{
	uint64_t need = oci_import_bytes(i);
	uint64_t mb = (need + need / 8) / MIB + ROOM_MB;

	if (mb > CONFIG_DISK_MB_MAX)
		return CONFIG_DISK_MB_MAX;
	return mb < DISK_MB_MIN ? DISK_MB_MIN : (uint32_t)mb;
}

int oci_import_write(struct oci_import *i, struct tree_sink *to, struct error *e)
{
	int r = oci_merge_write_directories(i->merge, to, e);

	for (size_t k = 0; k < i->image->layer_count && r == 0; k++)
		if (oci_merge_needs(i->merge, k))
			r = read_layer(i, k, PARSE_TAR, oci_merge_replay(i->merge, k, to), e);
	return r < 0 ? r : oci_merge_finish(i->merge, e);
}

static int fill(void *opaque, struct rootfs *f, struct image_config *config, struct error *e)
{
	struct oci_import *i = opaque;
	char workdir[TREE_PATH_MAX];
	int r = oci_settings_workdir(&i->image->config, workdir, e);

	if (r == 0)
		r = oci_merge_make_directory(i->merge, workdir, rootfs_epoch(f), e);
	if (r == 0)
		r = oci_import_write(i, rootfs_sink(f), e);
	return r < 0 ? r : oci_settings_apply(&i->image->config, f, config, &i->notes, e);
}

struct image_foreign oci_import_foreign(struct oci_import *i)
{
	return (struct image_foreign){.source = "oci", .fill = fill, .opaque = i};
}

void oci_import_done(struct oci_import *i)
{
	oci_merge_free(i->merge);
	i->merge = NULL;
	buf_done(&i->notes);
}
