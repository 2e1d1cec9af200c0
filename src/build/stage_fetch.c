#include "build/stage_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "build/copy.h"
#include "oci/url.h"

enum { MODE = 0600 };

struct fetched {
	struct files files; /* first */
	int fd;		    /* borrowed */
};

bool stage_is_url(const char *word)
{
	return strstr(word, "://") || str_starts_with(word, "git@");
}

static int read_file(struct files *f, const char *path, uint64_t offset, void *out, size_t n,
	size_t *ret, struct error *e)
{
	const struct fetched *x = (const struct fetched *)(void *)f;
	ssize_t got = pread(x->fd, out, n, (off_t)offset);

	if (got < 0)
		return error_set_errno(e, ERROR_HOST, errno, "%.200s", path);
	*ret = (size_t)got;
	return 0;
}

static int fetch(struct stage *s, const char *url, int *ret_fd, const char **ret, struct error *e)
{
	int r = oci_url_check(url, e);

	if (r == 0 && !s->ops.fetch)
		r = error_set(e, ERROR_USAGE, ENOTSUP, "%.200s: nothing is fetched here", url);
	return r < 0 ? r : s->ops.fetch(s->ops.opaque, url, ret_fd, ret, e);
}

static int check_sum(const char *checksum, struct error *e)
{
	return !checksum || oci_digest_valid(checksum)
		       ? 0
		       : error_set(e, ERROR_USAGE, EINVAL,
				 "--checksum=%.80s: must be sha256: and 64 digits", checksum);
}

int stage_fetch_copy(struct stage *s, const struct copy *c, const char *url, const char *checksum,
	bool several, const char *destination, struct error *e)
{
	struct fetched x = {.files = {.read = read_file}, .fd = -1};
	struct files_entry f = {
		.mode = S_IFREG | MODE, .mtime_ns = (int64_t)clock_realtime_ns(), .target = ""};
	_cleanup_free_ char *name = oci_url_name(url);
	struct copy mine = *c;
	const char *digest = "";
	struct stat st;
	int r = check_sum(checksum, e);

	if (r == 0)
		r = fetch(s, url, &x.fd, &digest, e);
	if (r < 0)
		return r;
	if (checksum && strcmp(checksum, digest) != 0)
		return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"%.200s has the digest %s, not that of --checksum", url, digest);
	if (!name || !*name)
		return error_set(e, ERROR_USAGE, EINVAL,
			"%.200s: the URL names no file: end it with a name", url);
	if (fstat(x.fd, &st) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "%.200s", url);
	f.path = name;
	f.size = (uint64_t)st.st_size;
	mine.from = &x.files;
	mine.unpack = false;
	return copy_one(&mine, &f, several, destination, e);
}

int stage_fetch_key(
	struct stage *s, const char *url, const char *checksum, struct step_key *k, struct error *e)
{
	const char *digest = checksum;
	int fd, r = check_sum(checksum, e);

	if (r == 0)
		r = checksum ? oci_url_check(url, e) : fetch(s, url, &fd, &digest, e);
	if (r == 0)
		step_key_text(k, digest);
	return r;
}
