/* Kernels and their modules. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "image/kernel.h"
#include "image/module_info.h"
#include "image/parse_internal.h"

static int put(
	struct tree_sink *to, const char *name, const void *data, size_t len, struct error *e)
{
	return tree_put(to, name, data, len, 0644, 0, 0, 0, e);
}

int parse_kernel(int fd, struct tree_sink *to, struct error *e)
{
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ uint8_t *image = NULL;
	char release[KERNEL_RELEASE_MAX];
	size_t len, image_len;
	int r = file_read_fd(fd, KERNEL_FILE_MAX, &file, &len);

	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read it");
	r = kernel_extract(file, len, &image, &image_len, e);
	if (r < 0)
		return r;
	if (kernel_release(file, len, release) < 0)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"it does not say which release it is: give another build of it");
	r = put(to, "release", release, strlen(release), e);
	return r == 0 ? put(to, "vmlinux", image, image_len, e) : r;
}

/* Reads all of the archive's entry. */
static int read_all(struct archive *a, uint8_t **ret, size_t *ret_len)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t len = 0, capacity = 0;
	la_ssize_t r;

	do {
		if (len == capacity) {
			uint8_t *p;

			capacity = capacity ? 2 * capacity : PARSE_PIECE;
			p = capacity > PARSE_MODULE_MAX ? NULL : realloc(data, capacity);
			if (!p)
				return -ENOMEM;
			data = p;
		}
		r = archive_read_data(a, data + len, capacity - len);
		if (r > 0)
			len += (size_t)r;
	} while (r > 0);
	if (r < 0)
		return -EINVAL;
	*ret = TAKE_PTR(data);
	*ret_len = len;
	return 0;
}

static int unpack_module(int fd, uint8_t **ret, size_t *ret_len)
{
	_cleanup_(parse_free) struct archive *a = archive_read_new();
	struct archive_entry *entry;

	if (!a)
		return -ENOMEM;
	(void)archive_read_support_filter_gzip(a); /* not "all": some filters run programs */
	(void)archive_read_support_filter_xz(a);
	(void)archive_read_support_filter_zstd(a);
	(void)archive_read_support_format_raw(a);
	if (archive_read_open_fd(a, fd, PARSE_PIECE) != ARCHIVE_OK ||
		archive_read_next_header(a, &entry) != ARCHIVE_OK)
		return -EINVAL;
	return read_all(a, ret, ret_len);
}

int parse_module(int fd, struct tree_sink *to, struct error *e)
{
	_cleanup_free_ uint8_t *elf = NULL;
	const char *depends;
	size_t len;
	int r = unpack_module(fd, &elf, &len);

	if (r < 0 || !module_info(elf, len, "vermagic"))
		return error_set(e, ERROR_BAD_IMAGE, EINVAL, "it is not an intact kernel module");
	depends = module_info(elf, len, "depends");
	depends = depends ? depends : "";
	r = put(to, "depends", depends, strlen(depends), e);
	return r == 0 ? put(to, "module", elf, len, e) : r;
}
