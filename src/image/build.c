#include "image/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "image/debian.h"
#include "image/ext4.h"
#include "image/rootfs.h"
#include "image/tree_dir.h"
#include "image/unpack.h"
#include "image/workdir.h"
#include "io/child.h"

struct build {
	const struct image_build_options *o;
	const struct progress *p;
	struct workdir w;
	char *path; /* owned: path of the temporary directory */
	int64_t epoch;
	struct image_config config; /* the recipe's, and what the source makes of it */
	uint8_t digest[ROOTFS_DIGEST_BYTES];
	uint64_t entries, bytes;
};

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

/* The time stamp of generated files and of the file system. Fixed when the environment asks for a
 * reproducible build. */
static int64_t build_epoch(void)
{
	const char *s = getenv("SOURCE_DATE_EPOCH");
	uint64_t v;

	if (s && str_parse_u64(s, &v) == 0 && v <= UINT32_MAX)
		return (int64_t)v;
	return (int64_t)(clock_realtime_ns() / NS_PER_S);
}

static int fill_debian(struct build *b, struct rootfs *f, struct error *e)
{
	_cleanup_free_ char *tmp = str_printf("%s/work", b->path);
	int r;

	if (!tmp)
		return no_memory(e);
	if (mkdir(tmp, 0711) < 0)
		return error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, errno,
			"cannot make %s", tmp);
	r = debian_add(f, b->o->recipe, tmp, b->p, e);
	(void)file_remove_own_tree(AT_FDCWD, tmp); /* if this fails, the whole directory is removed
					        * later */
	return r;
}

static int fill_source(struct build *b, struct rootfs *f, struct error *e)
{
	const struct image_foreign *foreign = b->o->foreign;
	const struct recipe *r = b->o->recipe;

	if (foreign)
		return foreign->fill(foreign->opaque, f, &b->config, e);
	switch (r->source) {
	case IMAGE_SOURCE_DEBIAN:
		return fill_debian(b, f, e);
	case IMAGE_SOURCE_BUSYBOX:
		return rootfs_add_busybox(f, e);
	case IMAGE_SOURCE_TAR:
		return unpack_path(unpack, r->path, (struct parse_options){.job = PARSE_TAR},
			rootfs_sink(f), e);
	case IMAGE_SOURCE_DIRECTORY:
		return rootfs_add_directory(f, r->path, geteuid() != 0, e);
	default:
		return error_set(e, ERROR_USAGE, EINVAL,
			"the image cannot be built again without its source: give --from, "
			"--recipe, --from-tar or --from-dir");
	}
}

static void free_rootfs(struct rootfs **f)
{
	rootfs_free(*f);
}

static int fill(struct build *b, struct tree_sink *sink, struct error *e)
{
	_cleanup_(free_rootfs) struct rootfs *f = rootfs_new(sink, b->epoch, b->p);
	int r = f ? fill_source(b, f, e) : no_memory(e);

	if (r == 0)
		r = rootfs_finalize(f, &b->config, b->o->foreign != NULL, e);
	if (r == 0)
		r = rootfs_digest(f, b->digest, e);
	if (r == 0)
		rootfs_counts(f, &b->entries, &b->bytes);
	return r;
}

/* Makes a UUID from the digest: its bytes and its text. */
static void uuid_of(const struct build *b, uint8_t uuid[16], char text[STR_UUID_BYTES])
{
	memcpy(uuid, b->digest, 16);
	str_uuid(uuid, 8, text);
}

static int build_ext4(struct build *b, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s/%s", b->path, image_file_name(IMAGE_EXT4));
	char text[STR_UUID_BYTES];
	struct ext4_image *x;
	uint8_t uuid[16];
	int r;

	if (!path)
		return no_memory(e);
	r = ext4_create(path, (uint64_t)b->o->recipe->config.disk_mb << 20, b->epoch, &x, e);
	if (r < 0)
		return r;
	r = fill(b, ext4_sink(x), e);
	if (r < 0) {
		ext4_abandon(x);
		return r;
	}
	uuid_of(b, uuid, text);
	return ext4_finish(x, uuid, e);
}

static int build_scratch(struct build *b, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s/scratch.ext4", b->path);
	const uint8_t uuid[16] = {0x73, 0x63, 0x72, 0x61, 0x74, 0x63, 0x80, 0x68, 0x80};
	struct ext4_image *x;
	int r;

	if (!path)
		return no_memory(e);
	r = ext4_create(path, (uint64_t)ROOTFS_SCRATCH_MB << 20, b->epoch, &x, e);
	return r < 0 ? r : ext4_finish(x, uuid, e);
}

static int run_mkfs_erofs(struct build *b, const char *tree, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s/%s", b->path, image_file_name(IMAGE_EROFS));
	char time[32], uuid[STR_UUID_BYTES];
	uint8_t id[16];
	const char *argv[] = {"mkfs.erofs", "--quiet", "-T", time, "--preserve-mtime", "-U", uuid,
		path, tree, NULL};
	const char *const read[] = {tree, NULL}, *const write[] = {path, NULL};
	const struct io_workshop workshop = {.user = "reader", .read = read, .write = write};
	struct child_options o = {.argv = argv,
		.timeout_ns = 1800 * NS_PER_S,
		.workshop = &workshop,
		.remedy = "install erofs-utils, or build an ext4 image"};
	int fd;

	if (!path)
		return no_memory(e);
	fd = openat(b->w.fd, image_file_name(IMAGE_EROFS), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, errno,
			"cannot make %s", path);
	(void)close(fd); /* the only file that it can write must be there */
	uuid_of(b, id, uuid);
	(void)snprintf(time, sizeof(time), "%lld", (long long)b->epoch);
	return child_run(&o, NULL, e);
}

static void free_tree_dir(struct tree_dir **d)
{
	tree_dir_free(*d);
}

static int build_erofs(struct build *b, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s/tree", b->path);
	_cleanup_(free_tree_dir) struct tree_dir *d = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (geteuid() != 0)
		return error_set(e, ERROR_HOST, EPERM,
			"EROFS images can be built by root only: build an ext4 image, or as root");
	if (!path)
		return no_memory(e);
	if (mkdirat(b->w.fd, "tree", 0755) < 0)
		return error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, errno,
			"cannot make a directory");
	fd = openat(b->w.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot open a directory");
	r = tree_dir_new(fd, b->epoch, &d, e);
	if (r == 0)
		r = fill(b, tree_dir_sink(d), e);
	if (r == 0)
		r = tree_dir_finish(d, e);
	if (r == 0)
		r = run_mkfs_erofs(b, path, e);
	if (r == 0 && file_remove_own_tree(b->w.fd, "tree") < 0)
		r = error_set(e, ERROR_INTERNAL, EIO, "cannot remove %s", path);
	return r == 0 ? build_scratch(b, e) : r;
}

static int save(struct build *b, struct error *e)
{
	const struct recipe *recipe = b->o->recipe;
	struct image m = {.kind = b->o->kind,
		.created_s = (uint64_t)b->epoch,
		.content_bytes = b->bytes,
		.entries = b->entries};
	char hex[2 * ROOTFS_DIGEST_BYTES + 1];
	int r;

	str_hex(b->digest, ROOTFS_DIGEST_BYTES, hex);
	m.name = recipe->name; /* borrowed, like the rest: m is not freed */
	m.digest = hex;
	m.source = (char *)(uintptr_t)(b->o->foreign ? b->o->foreign->source
						     : image_source_name(recipe->source));
	m.config = b->config;
	r = image_save(b->w.fd, &m, e);
	return r;
}

int image_build(const struct image_build_options *o, const struct progress *p, struct error *e)
{
	struct build b = {.o = o, .p = p, .epoch = build_epoch(), .w = WORKDIR_INIT};
	int r = config_copy(&o->recipe->config, &b.config);

	if (r < 0)
		return no_memory(e);
	r = workdir_begin(o->home->area_fd[HOME_IMAGES], o->recipe->name, "image", &b.w, e);
	if (r < 0) {
		config_done(&b.config);
		return r;
	}
	b.path = home_path(o->home, HOME_IMAGES, b.w.tmp, NULL);
	if (!b.path)
		r = no_memory(e);
	else
		r = o->kind == IMAGE_EROFS ? build_erofs(&b, e) : build_ext4(&b, e);
	if (r == 0)
		r = save(&b, e);
	if (r == 0)
		r = workdir_commit(&b.w, e);
	workdir_abort(&b.w);
	config_done(&b.config);
	free(b.path);
	return r;
}
