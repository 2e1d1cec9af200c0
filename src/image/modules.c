#include "image/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

enum { DEPENDS_MAX = 4096 };

/* '?': a kernel without this module still runs sandboxes. */
const char *const modules_of_guest[] = {"virtio_mmio", "virtio_blk", "ext4", "overlay", "erofs?",
	"vsock", "vmw_vsock_virtio_transport", "virtio_rng?", "virtio_balloon?", "fuse?",
	"ptp_kvm?", "dummy?", "nft_queue?", "nfnetlink_queue?", "nft_reject_ipv4?", NULL};

struct index_entry {
	char name[MODULE_NAME_MAX];
	char *path; /* owned */
};

struct index {
	struct index_entry *items;
	size_t count, capacity;
	char *builtin; /* text of modules.builtin, or NULL */
	unpack_fn fn;
};

static void index_done(struct index *x)
{
	for (size_t i = 0; i < x->count; i++)
		free(x->items[i].path);
	free(x->items);
	free(x->builtin);
}

/* "virtio-rng.ko.xz" -> "virtio_rng"; false when it is not a module file. */
static bool module_name(const char *file, char out[MODULE_NAME_MAX])
{
	const char *end = strstr(file, ".ko");
	size_t n = end ? (size_t)(end - file) : 0;

	if (n == 0 || n >= MODULE_NAME_MAX || (end[3] != '\0' && end[3] != '.'))
		return false;
	for (size_t i = 0; i < n; i++)
		out[i] = file[i] == '-' ? '_' : file[i];
	out[n] = '\0';
	return true;
}

static int index_add(struct index *x, const char *file, const char *path)
{
	char name[MODULE_NAME_MAX];
	struct index_entry *p;

	if (!module_name(file, name))
		return 0;
	if (x->count == MODULES_FILES_MAX)
		return -E2BIG;
	if (x->count == x->capacity) {
		size_t capacity = x->capacity ? 2 * x->capacity : 256;

		p = reallocarray(x->items, capacity, sizeof(*p));
		if (!p)
			return -ENOMEM;
		x->items = p;
		x->capacity = capacity;
	}
	p = &x->items[x->count];
	memcpy(p->name, name, sizeof(name));
	p->path = strdup(path);
	if (!p->path)
		return -ENOMEM;
	x->count++;
	return 0;
}

static int index_tree(struct index *x, const char *path)
{
	_cleanup_free_ char *root = strdup(path), *builtin = str_printf("%s/modules.builtin", path);
	char *const roots[] = {root, NULL};
	FTS *fts = root ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL) : NULL;
	FTSENT *f;
	int r = 0;

	if (!fts || !builtin)
		return -ENOMEM;
	while (r == 0 && (f = fts_read(fts)))
		if (f->fts_info == FTS_F || f->fts_info == FTS_NSOK)
			r = index_add(x, f->fts_name, f->fts_path);
	(void)fts_close(fts);						/* read-only */
	(void)file_read(AT_FDCWD, builtin, 1 << 20, &x->builtin, NULL); /* may be missing */
	return r;
}

static const struct index_entry *index_find(const struct index *x, const char *name)
{
	for (size_t i = 0; i < x->count; i++)
		if (strcmp(x->items[i].name, name) == 0)
			return &x->items[i];
	return NULL;
}

static bool is_builtin(const struct index *x, const char *name)
{
	for (const char *p = x->builtin; p && *p;) {
		const char *end = strchrnul(p, '\n');
		const char *slash = memrchr(p, '/', (size_t)(end - p));
		char file[MODULE_NAME_MAX + 8], found[MODULE_NAME_MAX];
		size_t n;

		p = slash ? slash + 1 : p;
		n = (size_t)(end - p);
		if (n < sizeof(file)) {
			memcpy(file, p, n);
			file[n] = '\0';
			if (module_name(file, found) && strcmp(found, name) == 0)
				return true;
		}
		p = *end ? end + 1 : end;
	}
	return false;
}

/* A sink for the entries that mayfly-unpack reports of one file. */
struct module_sink {
	struct tree_sink sink;
	char *depends;
	uint8_t *data;
	size_t len;
};

static int take(const struct tree_entry *t, const struct tree_data *d, size_t max, uint8_t **ret)
{
	_cleanup_free_ uint8_t *p = t->size <= max && !*ret ? malloc(t->size + 1) : NULL;
	size_t done = 0;
	ssize_t n = 1;

	while (p && done < t->size && (n = d->read(d->opaque, p + done, t->size - done)) > 0)
		done += (size_t)n;
	if (!p || done != t->size)
		return -EBADMSG;
	p[done] = '\0';
	*ret = TAKE_PTR(p);
	return 0;
}

static int module_add(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	struct module_sink *m = (struct module_sink *)(void *)s; /* its first member */
	int r = -EBADMSG;

	if (d && strcmp(t->path, "depends") == 0) {
		r = take(t, d, DEPENDS_MAX, (uint8_t **)&m->depends);
	} else if (d && strcmp(t->path, "module") == 0) {
		r = take(t, d, PARSE_MODULE_MAX, &m->data);
		m->len = t->size;
	}
	return r < 0 ? error_set(e, ERROR_BAD_IMAGE, EBADMSG, "it is not an intact kernel module")
		     : 0;
}

static const struct tree_sink_ops module_ops = {.add = module_add};

static bool is_loaded(const struct modules *m, const char *name)
{
	for (size_t i = 0; i < m->count; i++)
		if (strcmp(m->items[i].name, name) == 0)
			return true;
	return false;
}

static int load(
	const struct index *x, const char *name, int depth, struct modules *m, struct error *e);

static int load_dependencies(
	const struct index *x, char *list, int depth, struct modules *m, struct error *e)
{
	char *save = NULL;

	for (char *p = strtok_r(list, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		int r = load(x, p, depth + 1, m, e);

		if (r < 0)
			return r;
	}
	return 0;
}

static void module_sink_done(struct module_sink *m)
{
	free(m->depends);
	free(m->data);
}

/* Loads dependencies first, so that the list is in load order. */
static int load_file(const struct index *x, const struct index_entry *f, int depth,
	struct modules *m, struct error *e)
{
	_cleanup_(module_sink_done) struct module_sink file = {.sink = {&module_ops}};
	struct module *mod;
	int r = unpack_path(
		x->fn, f->path, (struct parse_options){.job = PARSE_MODULE}, &file.sink, e);

	if (r == 0 && (!file.depends || !file.data))
		r = error_set(
			e, ERROR_BAD_IMAGE, EINVAL, "%s is not an intact kernel module", f->path);
	if (r == 0 && depth > 16)
		r = error_set(
			e, ERROR_BAD_IMAGE, ELOOP, "kernel module %s depends on itself", f->name);
	if (r == 0)
		r = load_dependencies(x, file.depends, depth, m, e);
	if (r < 0)
		return r;
	if (m->count == MODULES_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "more than %d kernel modules", MODULES_MAX);
	mod = &m->items[m->count++];
	memcpy(mod->name, f->name, sizeof(mod->name));
	mod->len = file.len;
	mod->data = TAKE_PTR(file.data);
	return 0;
}

static int load(
	const struct index *x, const char *want, int depth, struct modules *m, struct error *e)
{
	char name[MODULE_NAME_MAX];
	size_t n = strlen(want);
	bool optional = n > 0 && want[n - 1] == '?';
	const struct index_entry *f;

	n -= optional;
	if (n == 0 || n >= sizeof(name))
		return error_set(e, ERROR_BAD_IMAGE, EINVAL, "'%.80s' is no module name", want);
	for (size_t i = 0; i < n; i++)
		name[i] = want[i] == '-' ? '_' : want[i];
	name[n] = '\0';
	if (is_loaded(m, name))
		return 0;
	f = index_find(x, name);
	if (f)
		return load_file(x, f, depth, m, e);
	if (optional || is_builtin(x, name))
		return 0;
	return error_set(e, ERROR_NOT_FOUND, ENOENT,
		"the kernel has no module %s, and modules.builtin does not list it: give the "
		"directory "
		"/lib/modules/RELEASE of that kernel with --modules",
		name);
}

int modules_load(unpack_fn fn, const char *path, const char *const *names, struct modules *ret,
	struct error *e)
{
	_cleanup_(index_done) struct index x = {.fn = fn};
	int r = index_tree(&x, path);

	*ret = (struct modules){0};
	if (r < 0)
		return error_set_errno(
			e, ERROR_HOST, -r, "cannot read the kernel modules in %s", path);
	for (; *names && r == 0; names++)
		r = load(&x, *names, 0, ret, e);
	if (r < 0)
		modules_done(ret);
	return r;
}

static int load_listed(int dirfd, const char *name, size_t n, struct modules *m)
{
	struct module *mod = &m->items[m->count];
	char file[MODULE_NAME_MAX + 4];
	int r;

	if (m->count == MODULES_MAX || n == 0 || n >= MODULE_NAME_MAX || memchr(name, '/', n))
		return -EINVAL;
	memcpy(mod->name, name, n);
	mod->name[n] = '\0';
	(void)snprintf(file, sizeof(file), "%s.ko", mod->name); /* fits */
	r = file_read(dirfd, file, PARSE_MODULE_MAX, (char **)&mod->data, &mod->len);
	if (r == 0)
		m->count++;
	return r;
}

int modules_load_listed(int dirfd, const char *list, struct modules *ret, struct error *e)
{
	int r = 0;

	*ret = (struct modules){0};
	while (*list && r == 0) {
		size_t n = strcspn(list, "\n");

		r = load_listed(dirfd, list, n, ret);
		list += n + (list[n] == '\n');
	}
	if (r == 0)
		return 0;
	modules_done(ret);
	return error_set_errno(e, ERROR_BAD_IMAGE, -r, "the stored kernel's modules are damaged");
}

void modules_done(struct modules *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->items[i].data);
	m->count = 0;
}
