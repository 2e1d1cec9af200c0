#include "image/fetch.h"

#include <archive.h>
#include <archive_entry.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/kernel.h"
#include "image/modules.h"
#include "io/child.h"

#define PACKAGE "linux-image-cloud-amd64"
#define STAGE	"download the kernel"
#define INSTEAD                                                                                    \
	"give a kernel with --kernel FILE --modules DIR, or a package with --kernel FILE.deb"

enum { DOWNLOAD_TIMEOUT_S = 900 };

/* Finds the versioned package in the dependency line "  Depends: linux-image-6.1...". */
static bool find_dependency(const char *text, char *out, size_t size)
{
	static const char head[] = "Depends: linux-image-";

	for (const char *p = text; (p = strstr(p, head)); p++) {
		const char *name = p + strlen("Depends: ");
		size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.+-");

		if (isdigit((unsigned char)p[sizeof(head) - 1]) && n < size) {
			memcpy(out, name, n);
			out[n] = '\0';
			return true;
		}
	}
	return false;
}

static int package_name(char *out, size_t size, struct error *e)
{
	const char *argv[] = {"apt-cache", "depends", "--important", PACKAGE, NULL};
	const char *env[] = {"LC_ALL=C.UTF-8", NULL};
	struct child_options o = {.argv = argv,
		.env = env,
		.timeout_ns = 60 * NS_PER_S,
		.remedy = "this host has no apt; " INSTEAD};
	struct buf text = BUF_INIT(CHILD_OUTPUT_MAX);
	struct error ignored = {0};
	bool found = false;
	int r;

	if (!child_program_exists("apt-cache"))
		return error_set(e, ERROR_HOST, ENOENT,
			"this host has no apt to get a kernel from: %s", INSTEAD);
	r = child_run(&o, &text, &ignored);
	if (r == 0 && buf_add_u8(&text, 0) == 0)
		found = find_dependency((const char *)buf_head(&text), out, size);
	buf_done(&text);
	if (!found)
		return error_set(e, ERROR_HOST, ENOENT,
			"apt does not know the package " PACKAGE
			": run `apt-get update` as root, or %s",
			INSTEAD);
	return 0;
}

static int find_deb(const char *path, char **ret)
{
	DIR *d = opendir(path);
	struct dirent *de;

	if (!d)
		return -errno;
	while (!*ret && (de = readdir(d)))
		if (str_ends_with(de->d_name, ".deb"))
			*ret = str_printf("%s/%s", path, de->d_name);
	(void)closedir(d); /* read-only */
	return *ret ? 0 : -ENOENT;
}

int fetch_kernel_package(
	const char *path, const struct progress *p, char **ret_deb, struct error *e)
{
	char package[128];
	const char *argv[] = {"apt-get", "-q", "download", package, NULL, NULL, NULL};
	const char *env[] = {"LC_ALL=C.UTF-8", NULL};
	struct child_options o = {
		.argv = argv, .env = env, .cwd = path, .timeout_ns = DOWNLOAD_TIMEOUT_S * NS_PER_S};
	int r = package_name(package, sizeof(package), e);

	if (r < 0)
		return r;
	r = progress_report(p, STAGE, PROGRESS_NO_PERCENT, package);
	if (r < 0)
		return error_set_errno(e, ERROR_INTERNAL, -r, STAGE);
	if (geteuid() == 0) { /* apt's own user cannot write to our directory */
		argv[4] = "-o";
		argv[5] = "APT::Sandbox::User=root";
	}
	r = child_run(&o, NULL, e);
	if (r < 0) {
		error_prefix(
			e, "cannot download %s (run `apt-get update`, or " INSTEAD ")", package);
		return r;
	}
	r = find_deb(path, ret_deb);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "apt-get download left no package") : 0;
}

static void free_archive(struct archive **a)
{
	(void)archive_read_free(*a); /* read-only */
}

struct inner {
	struct archive *outer;
	char data[65536];
};

static la_ssize_t read_inner(struct archive *a, void *opaque, const void **ret)
{
	struct inner *in = opaque;

	*ret = in->data;
	return archive_read_data(in->outer, in->data, sizeof(in->data));
}

static int write_file(struct archive *a, int dirfd, const char *name, uint64_t max)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	_cleanup_free_ char *data = malloc(65536);
	uint64_t done = 0;
	la_ssize_t n = 1;
	int r;

	if (fd < 0 || !data)
		return fd < 0 ? -errno : -ENOMEM;
	while ((n = archive_read_data(a, data, 65536)) > 0) {
		done += (uint64_t)n;
		r = done > max ? -EFBIG : fd_write_full(fd, data, (size_t)n);
		if (r < 0)
			return r;
	}
	return n < 0 ? -EINVAL : 0;
}

/* Takes the wanted files, chosen by their path in the package. Only last components become file
 * names. */
static int take_entry(struct archive *a, struct archive_entry *entry, int dirfd, int modules_fd)
{
	const char *path = archive_entry_pathname(entry), *base;

	if (!path || archive_entry_filetype(entry) != S_IFREG)
		return 0;
	path += strspn(path, "./");
	if (str_starts_with(path, "usr/"))
		path += 4;
	base = strrchr(path, '/');
	base = base ? base + 1 : path;
	if (str_starts_with(path, "boot/vmlinuz-"))
		return write_file(a, dirfd, "vmlinuz", KERNEL_FILE_MAX);
	if (str_starts_with(path, "boot/config-"))
		return write_file(a, dirfd, "config", 4 << 20);
	if (!str_starts_with(path, "lib/modules/"))
		return 0;
	if (strstr(base, ".ko") || strcmp(base, "modules.builtin") == 0)
		return write_file(a, modules_fd, base, MODULE_BYTES_MAX);
	return 0;
}

static int unpack_data(struct archive *outer, int dirfd, int modules_fd)
{
	_cleanup_(free_archive) struct archive *a = archive_read_new();
	_cleanup_free_ struct inner *in = malloc(sizeof(*in));
	struct archive_entry *entry;
	int r;

	if (!a || !in)
		return -ENOMEM;
	in->outer = outer;
	(void)archive_read_support_filter_gzip(a);
	(void)archive_read_support_filter_xz(a);
	(void)archive_read_support_filter_zstd(a);
	(void)archive_read_support_format_tar(a);
	if (archive_read_open(a, in, NULL, read_inner, NULL) != ARCHIVE_OK)
		return -EINVAL;
	while ((r = archive_read_next_header(a, &entry)) == ARCHIVE_OK) {
		r = take_entry(a, entry, dirfd, modules_fd);
		if (r < 0 && r != -EEXIST)
			return r;
	}
	return r == ARCHIVE_EOF ? 0 : -EINVAL;
}

static int unpack(const char *deb, int dirfd, int modules_fd)
{
	_cleanup_(free_archive) struct archive *a = archive_read_new();
	struct archive_entry *entry;

	if (!a)
		return -ENOMEM;
	(void)archive_read_support_format_ar(a);
	if (archive_read_open_filename(a, deb, 65536) != ARCHIVE_OK)
		return -EINVAL;
	while (archive_read_next_header(a, &entry) == ARCHIVE_OK) {
		const char *name = archive_entry_pathname(entry);

		if (name && str_starts_with(name, "data.tar"))
			return unpack_data(a, dirfd, modules_fd);
	}
	return -EINVAL;
}

int fetch_unpack_deb(const char *deb, int dirfd, struct error *e)
{
	_cleanup_close_ int modules_fd = -1;
	int r;

	if (mkdirat(dirfd, "modules", 0755) < 0 && errno != EEXIST)
		return error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, errno,
			"cannot make a directory");
	modules_fd = openat(dirfd, "modules", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = modules_fd < 0 ? -errno : unpack(deb, dirfd, modules_fd);
	if (r == -ENOSPC)
		return error_set(e, ERROR_NO_SPACE, ENOSPC, "no space left to unpack %s", deb);
	if (r < 0)
		return error_set_errno(
			e, ERROR_BAD_IMAGE, -r, "%s is not an intact Debian package", deb);
	if (faccessat(dirfd, "vmlinuz", R_OK, 0) < 0)
		return error_set(e, ERROR_BAD_IMAGE, ENOENT,
			"%s holds no kernel (boot/vmlinuz-*): give a linux-image package", deb);
	return 0;
}
