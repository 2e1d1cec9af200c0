#include "image/kernel_store.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "image/fetch.h"
#include "image/initramfs.h"
#include "image/modules.h"
#include "image/tree_files.h"
#include "image/unpack.h"
#include "image/workdir.h"

enum { AGENT_BYTES_MAX = 64 << 20, INITRD_BYTES_MAX = 256 << 20 };

static const char stage[] = "prepare the kernel";

/* Marks, in modules/, a kernel that was given without modules: everything is built in. */
static const char monolithic[] = "monolithic";

/* The file in modules/ that lists them in load order, so that they need not be parsed again. */
static const char order[] = "order";

static int write_error(struct error *e, int r, const char *what)
{
	return error_set_errno(
		e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r, "cannot write %s", what);
}

/* A sink for the entries that mayfly-unpack reports of a kernel. */
struct kernel_sink {
	struct tree_sink sink;
	struct tree_files files; /* its vmlinux */
	char *release;		 /* of KERNEL_RELEASE_MAX; "" until it is known */
};

static int take_release(
	const struct tree_entry *t, const struct tree_data *d, char *out, struct error *e)
{
	size_t done = 0;
	ssize_t n = 1;

	while (t->size < KERNEL_RELEASE_MAX && done < t->size &&
		(n = d->read(d->opaque, out + done, t->size - done)) > 0)
		done += (size_t)n;
	out[done] = '\0';
	return done == t->size && str_is_name(out)
		       ? 0
		       : error_set(e, ERROR_BAD_IMAGE, EINVAL, "its release is no name");
}

static int kernel_add(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	struct kernel_sink *k = (struct kernel_sink *)(void *)s; /* its first member */

	if (d && strcmp(t->path, "release") == 0)
		return take_release(t, d, k->release, e);
	if (strcmp(t->path, "vmlinux") == 0)
		return k->files.sink.ops->add(&k->files.sink, t, d, e);
	return error_set(e, ERROR_BAD_IMAGE, EINVAL, "it holds %.80s", t->path);
}

static int write_vmlinux(
	int dirfd, const char *kernel, char release[KERNEL_RELEASE_MAX], struct error *e)
{
	static const struct tree_sink_ops ops = {.add = kernel_add};
	struct kernel_sink k = {.sink = {&ops},
		.files = {.fd = dirfd,
			.durable = true,
			.files_max = 1,
			.bytes_max = KERNEL_IMAGE_MAX},
		.release = release};
	int r;

	tree_files_init(&k.files);
	release[0] = '\0';
	r = unpack_path(unpack, kernel, (struct parse_options){.job = PARSE_KERNEL}, &k.sink, e);
	if (r == 0 && (!release[0] || k.files.files == 0))
		r = error_set(e, ERROR_BAD_IMAGE, EPROTO, "%s holds no kernel", kernel);
	return r;
}

static int write_all_modules(int fd, const struct modules *m)
{
	struct buf list = BUF_INIT(MODULES_MAX * MODULE_NAME_MAX);
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->count; i++) {
		_cleanup_free_ char *name = str_printf("%s.ko", m->items[i].name);

		r = name ? file_write_atomic(fd, name, m->items[i].data, m->items[i].len, 0644)
			 : -ENOMEM;
		if (r == 0)
			r = buf_printf(&list, "%s\n", m->items[i].name);
	}
	if (r == 0)
		r = file_write_atomic(
			fd, order, m->count ? buf_head(&list) : NULL, buf_len(&list), 0644);
	buf_done(&list);
	return r;
}

static int write_modules(int dirfd, const struct modules *m, struct error *e)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (mkdirat(dirfd, "modules", 0755) < 0)
		return write_error(e, -errno, "the kernel modules");
	fd = openat(dirfd, "modules", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return write_error(e, -errno, "the kernel modules");
	r = write_all_modules(fd, m);
	return r < 0 ? write_error(e, r, "the kernel modules") : 0;
}

/* Copies a small file from the kernel's directory, if it exists. */
static int copy_small(const char *from_dir, const char *name, int to_fd, const char *to)
{
	_cleanup_free_ char *path = str_printf("%s/%s", from_dir, name), *data = NULL;
	size_t len;

	if (!path)
		return -ENOMEM;
	if (file_read(AT_FDCWD, path, 4 << 20, &data, &len) < 0)
		return 0;
	return file_write_atomic(to_fd, to, data, len, 0644);
}

struct source {
	char *kernel, *modules, *config_dir; /* owned; modules may be NULL */
};

static void source_done(struct source *s)
{
	free(s->kernel);
	free(s->modules);
	free(s->config_dir);
}

static int source_from_dir(const char *dir, struct source *s)
{
	s->kernel = str_printf("%s/vmlinuz", dir);
	s->modules = str_printf("%s/modules", dir);
	s->config_dir = strdup(dir);
	return s->kernel && s->modules && s->config_dir ? 0 : -ENOMEM;
}

static int source_from_deb(const char *deb, const struct workdir *w, const char *tmp_path,
	struct source *s, struct error *e)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (mkdirat(w->fd, "package", 0700) < 0 && errno != EEXIST)
		return write_error(e, -errno, "the kernel package");
	fd = openat(w->fd, "package", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return write_error(e, -errno, "the kernel package");
	r = fetch_unpack_deb(deb, fd, e);
	if (r < 0)
		return r;
	return source_from_dir(tmp_path, s) < 0
		       ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory")
		       : 0;
}

/* Uses a package that tools/fetch-kernel fetched earlier. */
static bool source_from_cache(struct source *s)
{
	const char *cache = getenv("MAYFLY_CACHE"), *xdg = getenv("XDG_CACHE_HOME"),
		   *home = getenv("HOME");
	_cleanup_free_ char *dir = cache && *cache ? str_printf("%s/kernels/cloud", cache)
				   : xdg && *xdg   ? str_printf("%s/mayfly/kernels/cloud", xdg)
				   : home ? str_printf("%s/.cache/mayfly/kernels/cloud", home)
					  : NULL;

	if (!dir || source_from_dir(dir, s) < 0)
		return false;
	if (access(s->kernel, R_OK) == 0)
		return true;
	source_done(s);
	*s = (struct source){0};
	return false;
}

static int find_source(const struct home *h, const struct kernel_options *o,
	const struct progress *p, const struct workdir *w, struct source *s, struct error *e)
{
	_cleanup_free_ char *tmp = home_path(h, HOME_KERNELS, w->tmp, "package");
	_cleanup_free_ char *deb = NULL;
	int r;

	if (!tmp)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (o->kernel && str_ends_with(o->kernel, ".deb"))
		return source_from_deb(o->kernel, w, tmp, s, e);
	if (o->kernel) {
		s->kernel = strdup(o->kernel);
		s->modules = o->modules ? strdup(o->modules) : NULL;
		return s->kernel && (s->modules || !o->modules)
			       ? 0
			       : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	if (!o->refresh && source_from_cache(s))
		return 0;
	if (mkdirat(w->fd, "package", 0700) < 0)
		return write_error(e, -errno, "the kernel package");
	r = fetch_kernel_package(tmp, p, &deb, e);
	return r < 0 ? r : source_from_deb(deb, w, tmp, s, e);
}

static int fill_from_source(
	int dirfd, const struct source *s, char release[KERNEL_RELEASE_MAX], struct error *e)
{
	_cleanup_free_ struct modules *m = calloc(1, sizeof(*m));
	_cleanup_close_ int modules_fd = -1;
	int r = m ? write_vmlinux(dirfd, s->kernel, release, e) : -ENOMEM;

	if (r == 0 && s->modules)
		r = modules_load(unpack, s->modules, modules_of_guest, m, e);
	if (r < 0)
		return r;
	r = write_modules(dirfd, m, e);
	modules_done(m);
	if (r < 0)
		return r;
	modules_fd = openat(dirfd, "modules", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = modules_fd < 0 ? -errno : 0;
	if (r == 0 && !s->modules)
		r = file_write_atomic(modules_fd, monolithic, "", 0, 0644);
	if (r == 0 && s->modules)
		r = copy_small(s->modules, "modules.builtin", modules_fd, "modules.builtin");
	if (r == 0 && s->config_dir)
		r = copy_small(s->config_dir, "config", dirfd, "config");
	return r < 0 ? write_error(e, r, "the kernel's files") : 0;
}

/* Works under a temporary name: the release is known only after reading the kernel. */
static int install(const struct home *h, const struct kernel_options *o, const struct progress *p,
	char release[KERNEL_RELEASE_MAX], struct error *e)
{
	_cleanup_(workdir_abort) struct workdir w = WORKDIR_INIT;
	_cleanup_(source_done) struct source s = {0};
	char *name;
	int r = workdir_begin(h->area_fd[HOME_KERNELS], "new", "kernel", &w, e);

	if (r < 0)
		return r;
	r = progress_report(p, stage, PROGRESS_NO_PERCENT, NULL);
	if (r < 0)
		return error_set_errno(e, ERROR_INTERNAL, -r, "%s", stage);
	r = find_source(h, o, p, &w, &s, e);
	if (r == 0)
		r = fill_from_source(w.fd, &s, release, e);
	if (r < 0)
		return r;
	r = file_remove_tree(w.fd, "package");
	name = strdup(release);
	if (r < 0 || !name) {
		free(name);
		return write_error(e, r < 0 ? r : -ENOMEM, "the kernel's files");
	}
	free(w.name);
	w.name = name;
	return workdir_commit(&w, e);
}

static int newest(const struct home *h, char release[KERNEL_RELEASE_MAX])
{
	char **names = NULL;
	int r = workdir_list(h->area_fd[HOME_KERNELS], &names);

	release[0] = '\0';
	for (char **p = names; r == 0 && p && *p; p++)
		if (strlen(*p) < KERNEL_RELEASE_MAX && strverscmp(*p, release) > 0)
			memcpy(release, *p, strlen(*p) + 1);
	workdir_list_free(names);
	return r < 0 ? r : release[0] ? 0 : -ENOENT;
}

static int hash_inputs(const char *agent, size_t len, const struct modules *m, char out[17])
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	unsigned char digest[EVP_MAX_MD_SIZE];
	int ok = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) && EVP_DigestUpdate(c, agent, len);

	for (size_t i = 0; ok && i < m->count; i++)
		ok = EVP_DigestUpdate(c, m->items[i].data, m->items[i].len);
	ok = ok && EVP_DigestFinal_ex(c, digest, NULL);
	EVP_MD_CTX_free(c);
	if (!ok)
		return -ENOMEM;
	str_hex(digest, 8, out);
	return 0;
}

static int write_initrd(int dirfd, const char *name, const char *agent, size_t len,
	const struct modules *m, struct error *e)
{
	struct buf out = BUF_INIT(INITRD_BYTES_MAX);
	int r = initramfs_write(agent, len, m, &out, e);

	if (r == 0) {
		r = file_write_atomic(dirfd, name, buf_head(&out), buf_len(&out), 0644);
		if (r < 0)
			r = write_error(e, r, "the initramfs");
	}
	buf_done(&out);
	return r;
}

static bool is_static_elf(const char *data, size_t len)
{
	return len > 64 && memcmp(data, "\177ELF", 4) == 0;
}

static int load_installed(const char *dir, int fd, struct modules *m, struct error *e)
{
	_cleanup_close_ int modules_fd = openat(fd, "modules", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *modules_dir = str_printf("%s/modules", dir), *list = NULL;

	if (!modules_dir)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (faccessat(modules_fd, monolithic, F_OK, 0) == 0)
		return 0;
	if (file_read(modules_fd, order, MODULES_MAX * MODULE_NAME_MAX, &list, NULL) == 0)
		return modules_load_listed(modules_fd, list, m, e);
	/* an older Mayfly has stored it */
	return modules_load(unpack, modules_dir, modules_of_guest, m, e);
}

static int prepare_initrd(const struct home *h, const char *agent_path, const char *release,
	char **ret, struct error *e)
{
	_cleanup_free_ char *agent = NULL, *dir = home_path(h, HOME_KERNELS, release, NULL);
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ struct modules *m = calloc(1, sizeof(*m));
	_cleanup_close_ int fd = -1;
	char hash[17];
	size_t len;
	int r = file_read(AT_FDCWD, agent_path, AGENT_BYTES_MAX, &agent, &len);

	if (r < 0 || !is_static_elf(agent, len))
		return error_set(e, ERROR_HOST, r < 0 ? -r : ENOEXEC,
			"the agent %s cannot be read or is no program: reinstall Mayfly",
			agent_path);
	fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd < 0 || !m)
		return error_set_errno(e, ERROR_HOST, errno, "cannot open the kernel %s", release);
	r = load_installed(dir, fd, m, e);
	if (r < 0)
		return r;
	r = hash_inputs(agent, len, m, hash);
	name = r == 0 ? str_printf("initrd-%s.cpio", hash) : NULL;
	*ret = name ? home_path(h, HOME_KERNELS, release, name) : NULL;
	if (!*ret)
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	else if (faccessat(fd, name, R_OK, 0) < 0)
		r = write_initrd(fd, name, agent, len, m, e);
	modules_done(m);
	return r;
}

int kernel_prepare(const struct home *h, const struct kernel_options *o, const struct progress *p,
	struct kernel *ret, struct error *e)
{
	struct kernel k = {0};
	int r = 0;

	if (o->kernel || o->refresh || newest(h, k.release) < 0)
		r = install(h, o, p, k.release, e);
	if (r == 0)
		r = prepare_initrd(h, o->agent, k.release, &k.initrd, e);
	if (r == 0) {
		k.vmlinux = home_path(h, HOME_KERNELS, k.release, "vmlinux");
		if (!k.vmlinux)
			r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	if (r < 0)
		kernel_done(&k);
	else
		*ret = k;
	return r;
}

void kernel_done(struct kernel *k)
{
	free(k->vmlinux);
	free(k->initrd);
	*k = (struct kernel){0};
}
