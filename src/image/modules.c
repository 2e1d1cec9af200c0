#include "image/modules.h"

#include <archive.h>
#include <archive_entry.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

/* '?': a kernel without it still runs sandboxes. */
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

/* Finds the section's bytes; false when the file is not ELF or lacks the section. */
static bool find_section(
	const uint8_t *elf, size_t len, const char *want, const char **ret, size_t *ret_len)
{
	Elf64_Ehdr h;
	Elf64_Shdr s, names;

	if (len < sizeof(h))
		return false;
	memcpy(&h, elf, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
		h.e_shentsize != sizeof(s) || h.e_shstrndx >= h.e_shnum || h.e_shoff > len ||
		(uint64_t)h.e_shnum * sizeof(s) > len - h.e_shoff)
		return false;
	memcpy(&names, elf + h.e_shoff + h.e_shstrndx * sizeof(s), sizeof(s));
	if (names.sh_offset > len || names.sh_size > len - names.sh_offset)
		return false;
	for (size_t i = 0; i < h.e_shnum; i++) {
		size_t n = strlen(want) + 1;

		memcpy(&s, elf + h.e_shoff + i * sizeof(s), sizeof(s));
		if (s.sh_name > names.sh_size || n > names.sh_size - s.sh_name ||
			memcmp(elf + names.sh_offset + s.sh_name, want, n) != 0)
			continue;
		if (s.sh_type == SHT_NOBITS || s.sh_offset > len || s.sh_size > len - s.sh_offset)
			return false;
		*ret = (const char *)elf + s.sh_offset;
		*ret_len = s.sh_size;
		return true;
	}
	return false;
}

const char *module_info(const void *elf, size_t len, const char *key)
{
	size_t left, k = strlen(key);
	const char *p;

	if (!find_section(elf, len, ".modinfo", &p, &left))
		return NULL;
	while (left > 0) {
		const char *end = memchr(p, '\0', left);

		if (!end)
			return NULL;
		if ((size_t)(end - p) > k && strncmp(p, key, k) == 0 && p[k] == '=')
			return p + k + 1;
		left -= (size_t)(end - p) + 1;
		p = end + 1;
	}
	return NULL;
}

static void free_archive(struct archive **a)
{
	(void)archive_read_free(*a); /* read-only */
}

static int read_module(const char *path, struct module *m)
{
	_cleanup_(free_archive) struct archive *a = archive_read_new();
	_cleanup_free_ uint8_t *data = NULL;
	struct archive_entry *entry;
	size_t len = 0, capacity = 0;
	la_ssize_t r;

	if (!a)
		return -ENOMEM;
	(void)archive_read_support_filter_gzip(a); /* not "all": some filters run programs */
	(void)archive_read_support_filter_xz(a);
	(void)archive_read_support_filter_zstd(a);
	(void)archive_read_support_format_raw(a);
	if (archive_read_open_filename(a, path, 65536) != ARCHIVE_OK ||
		archive_read_next_header(a, &entry) != ARCHIVE_OK)
		return -EINVAL;
	do {
		if (len == capacity) {
			uint8_t *p;

			capacity = capacity ? 2 * capacity : 65536;
			p = capacity > MODULE_BYTES_MAX ? NULL : realloc(data, capacity);
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
	m->data = TAKE_PTR(data);
	m->len = len;
	return 0;
}

static bool is_loaded(const struct modules *m, const char *name)
{
	for (size_t i = 0; i < m->count; i++)
		if (strcmp(m->items[i].name, name) == 0)
			return true;
	return false;
}

static int load(
	const struct index *x, const char *name, int depth, struct modules *m, struct error *e);

static int load_dependencies(const struct index *x, const struct module *mod, int depth,
	struct modules *m, struct error *e)
{
	const char *depends = module_info(mod->data, mod->len, "depends");
	_cleanup_free_ char *list = strdup(depends ? depends : "");
	char *save = NULL;

	if (!list)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	for (char *p = strtok_r(list, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		int r = load(x, p, depth + 1, m, e);

		if (r < 0)
			return r;
	}
	return 0;
}

static void free_module_data(struct module *mod)
{
	free(mod->data);
}

/* Loads dependencies first, so that the list is in load order. */
static int load_file(const struct index *x, const struct index_entry *f, int depth,
	struct modules *m, struct error *e)
{
	_cleanup_(free_module_data) struct module mod = {0};
	int r = read_module(f->path, &mod);

	if (r < 0 || !module_info(mod.data, mod.len, "vermagic"))
		return error_set(
			e, ERROR_BAD_IMAGE, EINVAL, "%s is not an intact kernel module", f->path);
	memcpy(mod.name, f->name, sizeof(mod.name));
	if (depth > 16)
		return error_set(
			e, ERROR_BAD_IMAGE, ELOOP, "kernel module %s depends on itself", f->name);
	r = load_dependencies(x, &mod, depth, m, e);
	if (r < 0)
		return r;
	if (m->count == MODULES_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "more than %d kernel modules", MODULES_MAX);
	m->items[m->count++] = mod;
	mod.data = NULL;
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

int modules_load(const char *path, const char *const *names, struct modules *ret, struct error *e)
{
	_cleanup_(index_done) struct index x = {0};
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

void modules_done(struct modules *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->items[i].data);
	m->count = 0;
}
