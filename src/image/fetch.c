#include "image/fetch.h"

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
#include "base/str.h"
#include "image/tree_files.h"
#include "image/unpack.h"
#include "io/child.h"

#define PACKAGE "linux-image-cloud-amd64"
#define STAGE	"download the kernel"
#define INSTEAD                                                                                    \
	"give a kernel with --kernel FILE --modules DIR, or a package with --kernel FILE.deb"

enum { DOWNLOAD_TIMEOUT_S = 900 };

/* The host's settings that apt needs. They may hold passwords, so only root can read some of
 * them. */
static const char *const apt_settings[] = {"/etc/apt", NULL};
static const char *const apt_state[] = {
	"/var/lib/apt", "/var/lib/dpkg", "/var/cache/apt", "/etc/dpkg", NULL};
static const char *const apt_variables[] = {"APT_CONFIG", NULL};

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
	static const struct io_workshop workshop = {.user = "nobody",
		.read = apt_state,
		.copy = apt_settings,
		.variables = apt_variables};
	struct child_options o = {.argv = argv,
		.env = env,
		.workshop = &workshop,
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

static bool is_regular(DIR *d, const char *name)
{
	struct stat st;

	return fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

static int find_deb(const char *path, char **ret)
{
	DIR *d = opendir(path);
	struct dirent *de;

	if (!d)
		return -errno;
	while (!*ret && (de = readdir(d)))
		if (str_ends_with(de->d_name, ".deb") && is_regular(d, de->d_name))
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
	const char *const write[] = {path, NULL};
	const struct io_workshop workshop = {.user = "nobody",
		.network = true,
		.read = apt_state,
		.copy = apt_settings,
		.write = write,
		.variables = apt_variables};
	struct child_options o = {.argv = argv,
		.env = env,
		.cwd = path,
		.timeout_ns = DOWNLOAD_TIMEOUT_S * NS_PER_S,
		.workshop = &workshop};
	int r = package_name(package, sizeof(package), e);

	if (r < 0)
		return r;
	r = progress_report(p, STAGE, PROGRESS_NO_PERCENT, package);
	if (r < 0)
		return error_set_errno(e, ERROR_INTERNAL, -r, STAGE);
	if (geteuid() == 0 &&
		!workshop_is_used()) { /* apt's own user cannot write to our directory */
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

int fetch_unpack_deb(const char *deb, int dirfd, struct error *e)
{
	struct tree_files to = {.fd = dirfd,
		.keep_first = true,
		.files_max = PARSE_FILES_MAX,
		.bytes_max = PARSE_BYTES_MAX};

	tree_files_init(&to);
	if (mkdirat(dirfd, "modules", 0755) < 0 && errno != EEXIST)
		return error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, errno,
			"cannot make a directory");
	return unpack_path(unpack, deb, (struct parse_options){.job = PARSE_DEB}, &to.sink, e);
}
