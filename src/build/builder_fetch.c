#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "build/builder_internal.h"
#include "oci/url.h"

static int get(struct builder *b, const char *url, int fd, char *digest, struct error *e)
{
	struct disk_budget *d = b->o->budget;
	uint64_t most = OCI_URL_FILE_MAX;
	struct stat st;
	int r = d ? disk_budget_left(d, most, &most, e) : 0;

	if (r == 0)
		r = oci_url_fetch(url, b->o->reach, fd, most, b->o->progress, digest, e);
	if (r < 0 && most < OCI_URL_FILE_MAX && e && e->code == ERROR_BAD_IMAGE)
		error_prefix(e, "the build may write %llu MiB more to the host's disk",
			(unsigned long long)(most >> 20));
	if (r == 0 && d && fstat(fd, &st) == 0)
		r = disk_budget_take(d, (uint64_t)st.st_size, e);
	return r;
}

static int fetch(struct builder *b, const char *url, struct fetched_file *to, struct error *e)
{
	_cleanup_close_ int fd = file_open_unnamed(b->w.fd, ".");
	int r = fd < 0 ? error_set_errno(e, ERROR_NO_SPACE, -fd, "cannot make a file")
		       : get(b, url, fd, to->digest, e);

	if (r < 0)
		return r;
	to->url = strdup(url);
	if (!to->url)
		return stage_no_memory(e);
	to->fd = TAKE_FD(fd);
	b->fetched_count++;
	return 0;
}

int builder_fetch(
	void *opaque, const char *url, int *ret_fd, const char **ret_digest, struct error *e)
{
	struct builder *b = opaque;
	unsigned i = 0;
	int r = 0;

	while (i < b->fetched_count && strcmp(b->fetched[i].url, url) != 0)
		i++;
	if (i == BUILDER_FETCHED_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "more than %d files are fetched",
			BUILDER_FETCHED_MAX);
	if (i == b->fetched_count)
		r = fetch(b, url, &b->fetched[i], e);
	*ret_fd = b->fetched[i].fd;
	*ret_digest = b->fetched[i].digest;
	return r;
}

void builder_fetched_done(struct builder *b)
{
	for (unsigned i = 0; i < b->fetched_count; i++) {
		free(b->fetched[i].url);
		(void)close(b->fetched[i].fd); /* read only by now */
	}
	b->fetched_count = 0;
}
