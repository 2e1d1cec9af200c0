#include "oci/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "oci/blobs.h"
#include "oci/document_tree.h"

struct layout {
	struct oci_supply supply; /* first member */
	int fd;
};

static int check(int fd, const struct oci_descriptor *d, struct error *e)
{
	char found[OCI_DIGEST_MAX];
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : 0;

	if (r == 0 && (uint64_t)st.st_size != d->size)
		return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"the blob %s has %lld bytes instead of %llu: copy the image again",
			d->digest, (long long)st.st_size, (unsigned long long)d->size);
	if (r == 0)
		r = oci_digest_of_file(fd, found);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read the blob %s", d->digest);
	if (strcmp(found, d->digest) != 0)
		return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"the blob %s is damaged: its digest is %s", d->digest, found);
	return 0;
}

static int open_blob(
	struct oci_supply *s, const struct oci_descriptor *d, int *ret_fd, struct error *e)
{
	struct layout *l = (struct layout *)(void *)s;
	char path[OCI_HEX_MAX + 16];
	_cleanup_close_ int fd = -1;
	int r;

	(void)snprintf(path, sizeof(path), "blobs/sha256/%s", oci_digest_hex(d->digest)); /* fits */
	fd = file_open_foreign(l->fd, path, O_RDONLY, INT64_MAX);
	if (fd < 0)
		return error_set_errno(
			e, ERROR_BAD_IMAGE, -fd, "the layout lacks the blob %s", d->digest);
	r = check(fd, d, e);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int oci_layout_load(const char *directory, const char *name, unpack_fn fn, bool digest_only,
	struct oci_image *ret, struct error *e)
{
	_cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int index =
		fd < 0 ? -errno : file_open_foreign(fd, "index.json", O_RDONLY, INT64_MAX);
	_cleanup_(oci_index_done) struct oci_index x = {0};
	_cleanup_(oci_document_done) json_t *o = NULL;
	struct layout l = {{open_blob, fn, digest_only}, fd};
	struct oci_descriptor root;
	int r;

	if (index < 0)
		return error_set_errno(e, ERROR_NOT_FOUND, -index,
			"it is no OCI layout: index.json cannot be read");
	r = oci_document_read(fn, index, "index", &o, e);
	if (r == 0)
		r = oci_index_take(o, &x, e);
	if (r == 0)
		r = oci_index_choose(&x, name, &root, e);
	return r < 0 ? r : oci_image_load(&l.supply, &root, ret, e);
}
