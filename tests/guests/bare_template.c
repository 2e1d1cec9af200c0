/* usage: bare-template GUEST NAME [MIB] Makes a template in $MAYFLY_HOME whose guest is the bare
 * one of the file GUEST, which speaks the agent's protocol (agent.c). It has one CPU, 128 MB and an
 * empty disk of 64 MB. With MIB its image has a delta with so much. The daemon then makes sandboxes
 * of it as of any other template, also on hosts that are too slow for a guest's kernel. So that
 * check, probe_host(), is left out. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/home.h"
#include "image/image.h"
#include "image/kernel_store.h"
#include "sandbox/prepare.h"
#include "sandbox/probe.h"
#include "vmm/disk.h"

enum { DISK_MB = 64, MEMORY_MB = 128 };

int __wrap_probe_host(struct error *e);

int __wrap_probe_host(struct error *e)
{
	return 0;
}

static int say(void *opaque, const char *stage, int percent, const char *line)
{
	(void)fprintf(stderr, "%s%s%s\n", stage, line ? ": " : "", line ? line : "");
	return 0;
}

static const struct progress progress = {say, NULL};

static int make_disk(int dirfd, struct error *e)
{
	_cleanup_close_ int fd =
		openat(dirfd, image_file_name(IMAGE_EXT4), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)DISK_MB << 20) < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make the disk");
	return 0;
}

/* The image's delta: so many MiB of ones. */
static int make_delta(int dirfd, int mib, struct error *e)
{
	int base = openat(dirfd, image_file_name(IMAGE_EXT4), O_RDONLY | O_CLOEXEC),
	    fd = openat(dirfd, "delta0", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	_cleanup_free_ uint8_t *data = malloc(1 << 20);
	struct disk *d;
	int r = data ? disk_open(base, NULL, 0, fd, (uint64_t)DISK_MB << 20, &d, e) : -ENOMEM;

	if (r < 0)
		return r;
	memset(data, 1, 1 << 20);
	for (int i = 0; i < mib && r == 0; i++)
		r = disk_write(d, (uint64_t)i << 20, data, 1 << 20);
	r = r == 0 ? disk_flush(d) : r;
	disk_close(d);
	return r < 0 ? error_set_errno(e, ERROR_NO_SPACE, -r, "cannot write the delta") : 0;
}

static int make_image(const struct home *h, const char *name, int mib, struct error *e)
{
	_cleanup_close_ int dirfd = -1;
	struct image m = {.name = strdup(name),
		.source = strdup("directory"),
		.digest =
			strdup("0000000000000000000000000000000000000000000000000000000000000000"),
		.kind = IMAGE_EXT4};
	int r = m.name && m.source && m.digest ? config_init(&m.config) : -ENOMEM;

	if (r == 0) {
		m.config.cpus = 1;
		m.config.memory_mb = MEMORY_MB;
		m.config.disk_mb = DISK_MB;
		(void)mkdirat(h->area_fd[HOME_IMAGES], name, 0700); /* may exist; openat tells */
		dirfd = openat(h->area_fd[HOME_IMAGES], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = dirfd < 0 ? error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make the image")
			      : make_disk(dirfd, e);
		m.deltas = mib > 0;
	}
	if (r == 0 && mib)
		r = make_delta(dirfd, mib, e);
	if (r == 0)
		r = image_save(dirfd, &m, e);
	image_done(&m);
	return r;
}

int main(int argc, char **argv)
{
	char path[PATH_MAX];
	struct kernel kernel = {.release = "0.0.0-bare", .vmlinux = path};
	struct home h = HOME_INIT;
	struct error e = {0};
	int r = (argc == 3 || argc == 4) && realpath(argv[1], path)
			? home_open(NULL, &h, &e)
			: error_set(
				  &e, ERROR_USAGE, EINVAL, "usage: bare-template GUEST NAME [MIB]");

	if (r == 0)
		r = make_image(&h, argv[2], argc == 4 ? atoi(argv[3]) : 0, &e);
	if (r == 0)
		r = prepare_template(
			&h, argv[2], &kernel, &(struct prepare_more){.key = NULL}, &progress, &e);
	home_close(&h);
	if (r < 0)
		(void)fprintf(stderr, "bare-template: %s\n", e.message);
	return r < 0;
}
