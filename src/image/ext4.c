#include "image/ext4.h"

#include <errno.h>
#include <ext2fs/ext2fs.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "image/ext4_dir.h"
#include "io/child.h"

/* Replaced once the content is known. With metadata_csum_seed the checksums do not depend on it. */
#define INITIAL_UUID "6d617966-6c79-4000-8000-000000000000"

struct ext4_image {
	struct tree_sink sink;
	ext2_filsys fs;
	struct ext4_dirs *dirs;
	char *path; /* owned */
	int64_t epoch;
	char dir[TREE_PATH_MAX]; /* the parent directory used last, and its inode */
	ext2_ino_t dir_ino;
	errcode_t write_err; /* the first failed write to the file */
	uint8_t block[65536];
};

static struct ext4_image *of_sink(struct tree_sink *s)
{
	return (struct ext4_image *)(void *)((char *)s - offsetof(struct ext4_image, sink));
}

static int to_errno(errcode_t err)
{
	switch (err) {
	case EXT2_ET_NO_MEMORY:
		return ENOMEM;
	case EXT2_ET_BLOCK_ALLOC_FAIL:
	case EXT2_ET_INODE_ALLOC_FAIL:
		return EFBIG;
	case EXT2_ET_FILE_NOT_FOUND:
		return ENOENT;
	case EXT2_ET_NO_DIRECTORY:
		return ENOTDIR;
	case EXT2_ET_SYMLINK_LOOP:
		return ELOOP;
	case EXT2_ET_SHORT_WRITE:
		return ENOSPC;
	default:
		return err > 0 && err < 4096 ? (int)err : EIO;
	}
}

static int fail(struct error *e, errcode_t err, const char *path)
{
	int n = to_errno(err);

	if (n == EFBIG)
		return error_set(e, ERROR_LIMIT, ENOSPC,
			"the content does not fit into the disk of the image: raise `disk`");
	if (n == ENOSPC)
		return error_set(e, ERROR_NO_SPACE, ENOSPC,
			"no space left on this host's disk while writing the image");
	if (n == EBADMSG || n == ENODATA)
		return error_set(
			e, ERROR_BAD_IMAGE, n, "the source of /%.200s is damaged or cut off", path);
	return error_set(e, ERROR_BAD_IMAGE, n, "cannot put /%.200s into the image: %s", path,
		err < 4096 ? strerror(n) : error_message(err));
}

static void set_owner(struct ext2_inode *inode, const struct tree_entry *t)
{
	uint32_t time = t->mtime < 0 ? 0 : t->mtime > UINT32_MAX ? UINT32_MAX : (uint32_t)t->mtime;

	inode->i_uid = (uint16_t)t->uid;
	ext2fs_set_i_uid_high(*inode, (uint16_t)(t->uid >> 16));
	inode->i_gid = (uint16_t)t->gid;
	ext2fs_set_i_gid_high(*inode, (uint16_t)(t->gid >> 16));
	inode->i_mode = (uint16_t)t->mode;
	inode->i_atime = inode->i_ctime = inode->i_mtime = time;
}

/* Sets a directory's link count as the kernel does: 1 if there are more than EXT2_LINK_MAX. */
static errcode_t limit_links(ext2_filsys fs, ext2_ino_t dir, unsigned before)
{
	struct ext2_inode inode;
	errcode_t err;

	if (before != 1 && before < EXT2_LINK_MAX)
		return 0;
	err = ext2fs_read_inode(fs, dir, &inode);
	if (err)
		return err;
	inode.i_links_count = 1;
	return ext2fs_write_inode(fs, dir, &inode);
}

static errcode_t make_dir(struct ext4_image *x, ext2_ino_t dir, const char *name, ext2_ino_t *ret)
{
	struct ext2_inode parent;
	errcode_t err = ext2fs_read_inode(x->fs, dir, &parent);

	if (!err)
		err = ext2fs_new_inode(x->fs, dir, LINUX_S_IFDIR | 0755, NULL, ret);
	if (!err)
		err = ext4_dirs_link(x->dirs, dir, name, *ret, EXT2_FT_DIR);
	if (!err)
		err = ext2fs_mkdir(x->fs, dir, *ret, NULL);
	return err ? err : limit_links(x->fs, dir, parent.i_links_count);
}

static errcode_t make_implied_dir(
	struct ext4_image *x, ext2_ino_t dir, const char *name, ext2_ino_t *ret)
{
	struct tree_entry t = {.mode = S_IFDIR | 0755, .mtime = x->epoch};
	struct ext2_inode inode;
	errcode_t err = make_dir(x, dir, name, ret);

	if (!err)
		err = ext2fs_read_inode(x->fs, *ret, &inode);
	if (err)
		return err;
	set_owner(&inode, &t);
	return ext2fs_write_inode(x->fs, *ret, &inode);
}

/* Finds a directory in another, or what a link leads to; makes a missing one. */
static errcode_t find_subdir(
	struct ext4_image *x, ext2_ino_t dir, const char *name, ext2_ino_t *ret)
{
	errcode_t err = ext4_dirs_lookup(x->dirs, dir, name, ret);

	if (err == EXT2_ET_FILE_NOT_FOUND)
		return make_implied_dir(x, dir, name, ret);
	if (!err)
		err = ext2fs_check_directory(x->fs, *ret);
	if (err != EXT2_ET_NO_DIRECTORY)
		return err;
	err = ext2fs_namei_follow(x->fs, EXT2_ROOT_INO, dir, name, ret);
	return err ? err : ext2fs_check_directory(x->fs, *ret);
}

/* Finds the inode of a directory. Makes it and its parents when missing. Links are resolved inside
 * the image; ".." stops at its root. */
static errcode_t find_dir(struct ext4_image *x, const char *path, ext2_ino_t *ret)
{
	char part[EXT2_NAME_LEN + 1];
	ext2_ino_t at = EXT2_ROOT_INO;

	if (x->dir_ino && strcmp(path, x->dir) == 0) {
		*ret = x->dir_ino;
		return 0;
	}
	for (const char *p = path; *p;) {
		size_t n = strcspn(p, "/");
		ext2_ino_t next;
		errcode_t err;

		memcpy(part, p, n); /* tree_clean_path: at most 255 */
		part[n] = '\0';
		err = find_subdir(x, at, part, &next);
		if (err)
			return err;
		at = next;
		p += n + (p[n] == '/');
	}
	(void)snprintf(x->dir, sizeof(x->dir), "%s", path); /* both hold TREE_PATH_MAX */
	x->dir_ino = at;
	*ret = at;
	return 0;
}

/* Finds the parent inode and the last component. */
static errcode_t find_place(
	struct ext4_image *x, const char *path, ext2_ino_t *ret, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	char dir[TREE_PATH_MAX];
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (n >= sizeof(dir))
		return ENAMETOOLONG;
	memcpy(dir, path, n);
	dir[n] = '\0';
	*ret_name = slash ? slash + 1 : path;
	return find_dir(x, dir, ret);
}

static errcode_t release_inode(ext2_filsys fs, ext2_ino_t ino, struct ext2_inode *inode)
{
	errcode_t err = 0;

	if (ext2fs_inode_has_valid_blocks2(fs, inode))
		err = ext2fs_punch(fs, ino, inode, NULL, 0, ~(blk64_t)0);
	if (err)
		return err;
	inode->i_dtime = 1; /* any time: marks the inode as deleted */
	if (ext2fs_file_acl_block(fs, inode))
		err = ext2fs_free_ext_attr(fs, ino, NULL);
	if (err)
		return err;
	ext2fs_inode_alloc_stats2(fs, ino, -1, 0);
	return ext2fs_write_inode(fs, ino, inode);
}

/* Removes an entry that is not a directory, so that another can take its place. */
static errcode_t unlink_old(struct ext4_image *x, ext2_ino_t dir, const char *name, ext2_ino_t ino)
{
	struct ext2_inode inode;
	errcode_t err = ext2fs_read_inode(x->fs, ino, &inode);

	if (err)
		return err;
	if (LINUX_S_ISDIR(inode.i_mode))
		return EISDIR;
	err = ext4_dirs_unlink(x->dirs, dir, name, ino);
	if (err)
		return err;
	x->dir_ino = 0; /* it may have been a link to the cached directory */
	if (inode.i_links_count > 1) {
		inode.i_links_count--;
		return ext2fs_write_inode(x->fs, ino, &inode);
	}
	inode.i_links_count = 0;
	return release_inode(x->fs, ino, &inode);
}

static bool all_zero(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* Reads up to n bytes; fewer only at the end. */
static ssize_t read_full(const struct tree_data *d, uint8_t *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = d->read(d->opaque, p + done, n - done);

		if (r < 0)
			return r;
		if (r == 0)
			break;
		done += (size_t)r;
	}
	return (ssize_t)done;
}

static errcode_t write_chunk(ext2_file_t f, uint64_t at, const uint8_t *p, size_t n)
{
	unsigned int written;
	errcode_t err;

	for (size_t done = 0; done < n;) {
		size_t k = n - done < EXT4_BLOCK_BYTES ? n - done : EXT4_BLOCK_BYTES;
		size_t run = 0;

		while (done + run < n && !all_zero(p + done + run, k)) {
			run += k;
			k = n - done - run < EXT4_BLOCK_BYTES ? n - done - run : EXT4_BLOCK_BYTES;
		}
		if (run > 0) {
			err = ext2fs_file_llseek(f, at + done, EXT2_SEEK_SET, NULL);
			if (!err)
				err = ext2fs_file_write(f, p + done, (unsigned)run, &written);
			if (err)
				return err;
		}
		done += run ? run : k; /* a hole */
	}
	return 0;
}

static errcode_t write_data(
	struct ext4_image *x, ext2_ino_t ino, const struct tree_entry *t, const struct tree_data *d)
{
	uint64_t at = 0;
	ext2_file_t f;
	ssize_t n = 0;
	errcode_t err = ext2fs_file_open(x->fs, ino, EXT2_FILE_WRITE, &f), err2;

	if (err)
		return err;
	while (!err && (n = read_full(d, x->block, sizeof(x->block))) > 0) {
		if ((uint64_t)n > t->size - at) {
			n = -EINVAL; /* more than the entry promised */
			break;
		}
		err = write_chunk(f, at, x->block, (size_t)n);
		at += (uint64_t)n;
	}
	if (!err && n < 0)
		err = (errcode_t)-n;
	if (!err && at < t->size)
		err = ENODATA;
	if (!err)
		err = ext2fs_file_set_size2(f, (ext2_off64_t)t->size); /* the file may end in a
								        * hole */
	err2 = ext2fs_file_close(f);
	return err ? err : err2;
}

static int directory_type(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return EXT2_FT_REG_FILE;
	case S_IFCHR:
		return EXT2_FT_CHRDEV;
	case S_IFBLK:
		return EXT2_FT_BLKDEV;
	case S_IFIFO:
		return EXT2_FT_FIFO;
	case S_IFSOCK:
		return EXT2_FT_SOCK;
	default:
		return EXT2_FT_UNKNOWN;
	}
}

static void set_device(struct ext2_inode *inode, dev_t dev)
{
	unsigned ma = major(dev), mi = minor(dev);

	if (ma < 256 && mi < 256)
		inode->i_block[0] = ma << 8 | mi;
	else
		inode->i_block[1] = (mi & 0xff) | (ma << 8) | ((mi & ~0xffu) << 12);
}

/* Makes inodes of regular files and device nodes. */
static errcode_t make_inode(struct ext4_image *x, ext2_ino_t dir, const char *name,
	const struct tree_entry *t, const struct tree_data *d, ext2_ino_t *ret)
{
	struct ext2_inode inode = {.i_links_count = 1};
	errcode_t err = ext2fs_new_inode(x->fs, dir, (int)t->mode, 0, ret);

	if (!err)
		err = ext4_dirs_link(x->dirs, dir, name, *ret, directory_type(t->mode));
	if (err)
		return err;
	ext2fs_inode_alloc_stats2(x->fs, *ret, +1, 0);
	set_owner(&inode, t);
	if (S_ISREG(t->mode)) {
		ext2_extent_handle_t h;

		inode.i_flags |= EXT4_EXTENTS_FL;
		err = ext2fs_extent_open2(x->fs, *ret, &inode, &h); /* writes the empty header */
		if (err)
			return err;
		ext2fs_extent_free(h);
	} else {
		set_device(&inode, t->rdev);
	}
	err = ext2fs_write_new_inode(x->fs, *ret, &inode);
	if (!err && S_ISREG(t->mode) && t->size > 0)
		err = write_data(x, *ret, t, d);
	return err;
}

static errcode_t make_symlink(
	struct ext4_image *x, ext2_ino_t dir, const char *name, const char *target, ext2_ino_t *ret)
{
	errcode_t err = ext2fs_new_inode(x->fs, dir, LINUX_S_IFLNK | 0755, NULL, ret);

	if (!err)
		err = ext4_dirs_link(x->dirs, dir, name, *ret, EXT2_FT_SYMLINK);
	return err ? err : ext2fs_symlink(x->fs, dir, *ret, NULL, target);
}

static errcode_t make_hardlink(
	struct ext4_image *x, ext2_ino_t dir, const char *name, const char *target)
{
	struct ext2_inode inode;
	const char *last;
	ext2_ino_t ino, target_dir;
	errcode_t err = find_place(x, target, &target_dir, &last);

	if (!err)
		err = ext4_dirs_lookup(x->dirs, target_dir, last, &ino);
	if (!err)
		err = ext2fs_read_inode(x->fs, ino, &inode);
	if (err)
		return err;
	if (LINUX_S_ISDIR(inode.i_mode))
		return EISDIR;
	if (inode.i_links_count >= 65000)
		return EMLINK;
	err = ext4_dirs_link(x->dirs, dir, name, ino, directory_type(inode.i_mode));
	if (err)
		return err;
	inode.i_links_count++;
	return ext2fs_write_inode(x->fs, ino, &inode);
}

static errcode_t set_xattrs(struct ext4_image *x, ext2_ino_t ino, const struct tree_entry *t)
{
	struct ext2_xattr_handle *h;
	errcode_t err, err2;

	if (t->xattr_count == 0)
		return 0;
	err = ext2fs_xattrs_open(x->fs, ino, &h);
	if (err)
		return err;
	err = ext2fs_xattrs_read(h);
	for (size_t i = 0; !err && i < t->xattr_count; i++)
		err = ext2fs_xattr_set(h, t->xattrs[i].name, t->xattrs[i].value, t->xattrs[i].size);
	if (!err)
		err = ext2fs_xattrs_write(h);
	err2 = ext2fs_xattrs_close(&h);
	return err ? err : err2;
}

/* Sets owner, mode and times of a directory or symbolic link, new or old. */
static errcode_t finish_inode(struct ext4_image *x, ext2_ino_t ino, const struct tree_entry *t)
{
	struct ext2_inode inode;
	errcode_t err = ext2fs_read_inode(x->fs, ino, &inode);

	if (err)
		return err;
	set_owner(&inode, t);
	return ext2fs_write_inode(x->fs, ino, &inode);
}

static errcode_t add_at(struct ext4_image *x, ext2_ino_t dir, const char *name,
	const struct tree_entry *t, const struct tree_data *d)
{
	ext2_ino_t ino = 0;
	errcode_t err = ext4_dirs_lookup(x->dirs, dir, name, &ino);
	bool there = err == 0;

	if (err && err != EXT2_ET_FILE_NOT_FOUND)
		return err;
	err = 0;
	if (there && S_ISDIR(t->mode) && !t->hardlink) {
		err = ext2fs_check_directory(x->fs, ino);
		if (!err)
			return finish_inode(x, ino, t);
	}
	if (there) {
		err = unlink_old(x, dir, name, ino);
		if (err)
			return err;
	}
	if (t->hardlink)
		return make_hardlink(x, dir, name, t->hardlink);
	if (S_ISDIR(t->mode))
		err = make_dir(x, dir, name, &ino);
	else if (S_ISLNK(t->mode))
		err = make_symlink(x, dir, name, t->symlink, &ino);
	else
		err = make_inode(x, dir, name, t, d, &ino);
	if (!err && (S_ISDIR(t->mode) || S_ISLNK(t->mode)))
		err = finish_inode(x, ino, t);
	return err ? err : set_xattrs(x, ino, t);
}

static int ext4_add(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	struct ext4_image *x = of_sink(s);
	const char *name;
	ext2_ino_t dir;
	errcode_t err;

	if (*t->path == '\0')
		err = S_ISDIR(t->mode) ? finish_inode(x, EXT2_ROOT_INO, t) : EISDIR;
	else {
		err = find_place(x, t->path, &dir, &name);
		if (!err)
			err = add_at(x, dir, name, t, d);
	}
	if (x->write_err)
		err = x->write_err;
	return err ? fail(e, err, t->path) : 0;
}

static int ext4_lookup(struct tree_sink *s, const char *path, struct tree_stat *ret)
{
	struct ext4_image *x = of_sink(s);
	struct ext2_inode inode;
	ext2_ino_t ino;
	errcode_t err = ext2fs_namei_follow(x->fs, EXT2_ROOT_INO, EXT2_ROOT_INO, path, &ino);

	if (!err)
		err = ext2fs_read_inode(x->fs, ino, &inode);
	if (err)
		return -to_errno(err);
	ret->mode = inode.i_mode;
	ret->uid = inode_uid(inode);
	ret->gid = inode_gid(inode);
	return 0;
}

static errcode_t read_whole(ext2_filsys fs, ext2_ino_t ino, char *out, size_t n)
{
	ext2_file_t f;
	unsigned int got = 0;
	size_t done = 0;
	errcode_t err = ext2fs_file_open(fs, ino, 0, &f);

	if (err)
		return err;
	while (!err && done < n) {
		err = ext2fs_file_read(f, out + done, (unsigned)(n - done), &got);
		if (!err && got == 0)
			err = ENODATA;
		done += got;
	}
	(void)ext2fs_file_close(f); /* opened for reading */
	return err;
}

static int ext4_read(struct tree_sink *s, const char *path, char **ret, size_t *ret_len)
{
	struct ext4_image *x = of_sink(s);
	struct ext2_inode inode;
	_cleanup_free_ char *data = NULL;
	ext2_ino_t ino;
	errcode_t err = ext2fs_namei_follow(x->fs, EXT2_ROOT_INO, EXT2_ROOT_INO, path, &ino);

	if (!err)
		err = ext2fs_read_inode(x->fs, ino, &inode);
	if (err)
		return -to_errno(err);
	if (!LINUX_S_ISREG(inode.i_mode) || EXT2_I_SIZE(&inode) > TREE_SMALL_FILE_MAX)
		return -EFBIG;
	data = calloc(1, EXT2_I_SIZE(&inode) + 1);
	if (!data)
		return -ENOMEM;
	err = read_whole(x->fs, ino, data, EXT2_I_SIZE(&inode));
	if (err)
		return -to_errno(err);
	*ret = TAKE_PTR(data);
	if (ret_len)
		*ret_len = EXT2_I_SIZE(&inode);
	return 0;
}

/* Called for every failed write, whatever the calling function then returns. */
static errcode_t on_write_error(io_channel channel, unsigned long block, int count,
	const void *data, size_t size, int written, errcode_t err)
{
	ext2_filsys fs = channel->app_data;
	struct ext4_image *x = fs->priv_data;

	if (!x->write_err)
		x->write_err = err;
	return err;
}

static const struct tree_sink_ops ext4_ops = {ext4_add, ext4_lookup, ext4_read};

/* Gives every setting, so that every host makes the same image. Initialises inode tables here, so
 * that the guest's kernel need not do it in the background; in the file they are holes anyway. Does
 * not initialise the journal: that would write zeros over holes. */
static int run_mke2fs(const char *path, uint64_t bytes, int64_t epoch, struct error *e)
{
	char size[32], extended[160], fake_time[64], journal[16];
	uint64_t grow = (uint64_t)EXT4_GROW_GIB << 30;
	const char *argv[] = {"mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-i",
		"16384", "-m", "0", "-O",
		"none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,"
		"sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum,"
		"metadata_csum_seed",
		"-J", journal, "-U", INITIAL_UUID, "-E", extended, "-L", "mayfly", path, size,
		NULL};
	const char *env[] = {"MKE2FS_CONFIG=/dev/null", fake_time, "LC_ALL=C.UTF-8", NULL};
	const char *const write[] = {path, NULL};
	const struct io_workshop workshop = {.user = "nobody", .write = write};
	struct child_options o = {.argv = argv,
		.env = env,
		.workshop = &workshop,
		.timeout_ns = 300 * NS_PER_S,
		.remedy = "install e2fsprogs"};

	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes / EXT4_BLOCK_BYTES);
	(void)snprintf(journal, sizeof(journal), "size=%d", EXT4_JOURNAL_MIB);
	(void)snprintf(fake_time, sizeof(fake_time), "E2FSPROGS_FAKE_TIME=%lld", (long long)epoch);
	(void)snprintf(extended, sizeof(extended),
		"nodiscard,lazy_itable_init=0,lazy_journal_init=1,root_owner=0:0,hash_"
		"seed=" INITIAL_UUID ",resize=%llu",
		(unsigned long long)(grow > 2 * bytes ? grow : 2 * bytes) / EXT4_BLOCK_BYTES);
	return child_run(&o, NULL, e);
}

/* The only file that mke2fs can reach must be there. */
static int make_empty(const char *path, struct error *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, errno,
			"cannot make %s", path);
	(void)close(fd); /* nothing was written */
	return 0;
}

int ext4_create(
	const char *path, uint64_t bytes, int64_t epoch, struct ext4_image **ret, struct error *e)
{
	struct ext4_image *x;
	errcode_t err;
	int r;

	if (bytes < EXT4_BYTES_MIN || bytes > EXT4_BYTES_MAX)
		return error_set(e, ERROR_LIMIT, EINVAL, "`disk` must be from 64M to 16T");
	r = make_empty(path, e);
	if (r == 0)
		r = run_mke2fs(path, bytes, epoch, e);
	if (r < 0)
		return r;
	initialize_ext2_error_table();
	x = calloc(1, sizeof(*x));
	if (!x)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	x->sink.ops = &ext4_ops;
	x->epoch = epoch;
	x->path = strdup(path);
	err = ext2fs_open(path, EXT2_FLAG_RW | EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &x->fs);
	if (!err)
		err = ext2fs_read_bitmaps(x->fs);
	if (err || !x->path) {
		ext4_abandon(x);
		return fail(e, err ? err : ENOMEM, "");
	}
	/* The library's block cache loses errors when it writes blocks back. */
	err = io_channel_set_options(x->fs->io, "cache=off");
	if (err) {
		ext4_abandon(x);
		return fail(e, err, "");
	}
	x->fs->priv_data = x;
	x->fs->io->write_error = on_write_error;
	x->fs->now = (time_t)epoch; /* the library uses it for all its time stamps */
	x->dirs = ext4_dirs_new(x->fs);
	if (!x->dirs) {
		ext4_abandon(x);
		return fail(e, ENOMEM, "");
	}
	*ret = x;
	return 0;
}

struct tree_sink *ext4_sink(struct ext4_image *x)
{
	return &x->sink;
}

/* mke2fs reserves the blocks of inode tables that it zeroes. SEEK_DATA reports them as holes, but
 * the host's file system counts them as used. */
static void give_back_holes(int fd)
{
	struct stat st;
	off_t hole = 0, data;

	if (fstat(fd, &st) < 0)
		return;
	while (hole < st.st_size && (hole = lseek(fd, hole, SEEK_HOLE)) >= 0 && hole < st.st_size) {
		data = lseek(fd, hole, SEEK_DATA);
		if (data < 0)
			data = st.st_size;
		/* If this is not supported, only space is lost. */
		(void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, hole, data - hole);
		hole = data;
	}
}

static errcode_t sync_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return errno;
	give_back_holes(fd);
	return fsync(fd) < 0 ? errno : 0;
}

int ext4_finish(struct ext4_image *x, const uint8_t uuid[16], struct error *e)
{
	errcode_t err;

	memcpy(x->fs->super->s_uuid, uuid, 16);
	memcpy(x->fs->super->s_hash_seed, uuid, 16);
	x->fs->super->s_kbytes_written = 0;
	ext2fs_mark_super_dirty(x->fs);
	err = ext2fs_close_free(&x->fs);
	if (!err)
		err = x->write_err;
	if (!err)
		err = sync_file(x->path);
	ext4_abandon(x);
	return err ? fail(e, err, "") : 0;
}

void ext4_abandon(struct ext4_image *x)
{
	if (!x)
		return;
	ext4_dirs_free(x->dirs);
	if (x->fs)
		ext2fs_free(x->fs); /* without writing */
	free(x->path);
	free(x);
}
