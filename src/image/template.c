#include "image/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "image/verify.h"

enum { TEMPLATE_FORMAT = 1, TREE_DEPTH_MAX = 4 };

static const char json_file[] = "template.json";
static const char key_file[] = "key";
static const char scratch_file[] = "scratch.ext4";
static const char snapshots_dir[] = "snapshots";

void template_done(struct template *t)
{
	free(t->name);
	free(t->kernel_release);
	free(t->agent_version);
	free(t->image_digest);
	config_done(&t->config);
	*t = (struct template){0};
}

static int host_error(struct error *e, int r, const char *what, const char *name)
{
	return error_set_errno(
		e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r, "%s '%s'", what, name);
}

int template_begin(
	const struct home *h, const char *name, struct template_build *ret, struct error *e)
{
	struct template_build b = TEMPLATE_BUILD_INIT;
	int r = workdir_begin(h->area_fd[HOME_TEMPLATES], name, "template", &b.w, e);

	if (r < 0)
		return r;
	if (mkdirat(b.w.fd, snapshots_dir, 0700) < 0) {
		r = host_error(e, -errno, "cannot make the directory of template", name);
		template_abort(&b);
		return r;
	}
	*ret = b;
	return 0;
}

int template_build_fd(const struct template_build *b)
{
	return b->w.fd;
}

static int link_or_copy(int from_dir, const char *from, int to_dir, const char *to)
{
	_cleanup_close_ int in = -1, out = -1;
	int r;

	if (linkat(from_dir, from, to_dir, to, 0) == 0)
		return 0;
	in = openat(from_dir, from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return -errno;
	out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	r = file_copy_sparse(in, out);
	return r == 0 && fsync(out) < 0 ? -errno : r;
}

static int add_history(const struct home *h, const struct template_build *b, const struct image *m,
	struct error *e)
{
	_cleanup_free_ char *from = str_printf("%s/%s", m->name, TEMPLATE_HISTORY_FILE);
	int r = from ? link_or_copy(h->area_fd[HOME_IMAGES], from, b->w.fd, TEMPLATE_HISTORY_FILE)
		     : -ENOMEM;

	return r < 0 && r != -ENOENT ? host_error(e, r, "cannot take the files of image", m->name)
				     : 0;
}

static int add_file(const struct home *h, const struct template_build *b, const struct image *m,
	const char *name, struct error *e)
{
	_cleanup_close_ int fd = openat(
		h->area_fd[HOME_IMAGES], m->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : link_or_copy(fd, name, b->w.fd, name);

	if (r < 0)
		return host_error(e, r, "cannot take the files of image", m->name);
	verify_share(b->w.fd, fd, name);
	return 0;
}

int template_add_image(const struct home *h, const struct template_build *b, const struct image *m,
	struct error *e)
{
	int r = add_file(h, b, m, image_file_name(m->kind), e);
	char name[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = 0; i < m->deltas && r == 0; i++) {
		image_delta_name(i, name);
		r = add_file(h, b, m, name, e);
	}
	if (r == 0 && m->kind == IMAGE_EROFS)
		r = add_file(h, b, m, scratch_file, e);
	return r < 0 ? r : add_history(h, b, m, e);
}

static int record(int fd, const char *name, struct error *e)
{
	return verify_is_current(fd, name) ? 0 : verify_record(fd, name, e);
}

int template_record_image(int fd, enum image_kind kind, unsigned deltas, struct error *e)
{
	int r = record(fd, image_file_name(kind), e);
	char name[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = 0; i < deltas && r == 0; i++) {
		image_delta_name(i, name);
		r = record(fd, name, e);
	}
	return r == 0 && kind == IMAGE_EROFS ? record(fd, scratch_file, e) : r;
}

static json_t *to_json(const struct template *t)
{
	json_t *o = json_object();

	if (!o || config_json_add_u64(o, "format", TEMPLATE_FORMAT) < 0 ||
		config_json_add_string(o, "kind", image_kind_name(t->kind)) < 0 ||
		config_json_add_string(o, "kernel_release", t->kernel_release) < 0 ||
		config_json_add_string(o, "agent_version", t->agent_version) < 0 ||
		config_json_add_string(o, "image_digest", t->image_digest) < 0 ||
		config_json_add_u64(o, "created", t->created_s) < 0 ||
		image_deltas_to_json(t->deltas, o) < 0 || config_to_json(&t->config, o) < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static int save(int dirfd, const struct template *t, struct error *e)
{
	json_t *o = to_json(t);
	_cleanup_free_ char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	int r = text ? file_write_atomic(dirfd, json_file, text, strlen(text), 0644) : -ENOMEM;

	json_decref(o);
	return r < 0 ? host_error(e, r, "cannot write", json_file) : 0;
}

int template_commit(struct template_build *b, const struct template *t, struct error *e)
{
	int r = config_check(&t->config, e);

	if (r == 0)
		r = save(b->w.fd, t, e);
	if (r == 0)
		r = workdir_commit(&b->w, e);
	template_abort(b);
	return r;
}

void template_abort(struct template_build *b)
{
	workdir_abort(&b->w);
}

static int not_found(struct error *e, const char *name)
{
	return error_set(e, ERROR_NOT_FOUND, ENOENT,
		"template '%.80s' not found: `mayfly template ls` lists them, `mayfly template "
		"build %.80s` makes one",
		name, name);
}

int template_open(const struct home *h, const char *name, struct error *e)
{
	int fd;

	if (!str_is_tagged_name(name))
		return not_found(e, name);
	fd = openat(
		h->area_fd[HOME_TEMPLATES], name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return not_found(e, name);
	return fd < 0 ? host_error(e, -errno, "cannot open template", name) : fd;
}

int template_hold(const struct home *h, const char *name, struct error *e)
{
	for (;;) {
		int fd = template_open(h, name, e);
		int r = fd < 0 ? fd : workdir_hold(fd, "template", NULL);

		if (r == 0 || fd < 0)
			return fd;
		(void)close(fd); /* a directory */
		if (r != -ENOENT)
			return host_error(e, r, "cannot hold template", name);
		/* it was replaced or removed after it was opened */
	}
}

/* --- the same template again --- */

int template_note_key(const struct template_build *b, const char *key, struct error *e)
{
	int r = file_write_atomic(b->w.fd, key_file, key, strlen(key), 0644);

	return r < 0 ? host_error(e, r, "cannot write", key_file) : 0;
}

static bool has_key(const struct home *h, const char *name, const char *key)
{
	_cleanup_close_ int fd = template_open(h, name, NULL);
	_cleanup_free_ char *text = NULL;

	return fd >= 0 && file_read_foreign(fd, key_file, TEMPLATE_KEY_MAX, &text, NULL) == 0 &&
	       strcmp(text, key) == 0;
}

static int link_tree(int from_fd, int to_fd, int depth);

static int link_entry(int from_fd, const struct dirent *x, int to_fd, int depth)
{
	_cleanup_close_ int from = -1, to = -1;

	if (x->d_type != DT_DIR)
		return link_or_copy(from_fd, x->d_name, to_fd, x->d_name);
	if (depth == TREE_DEPTH_MAX)
		return -ELOOP;
	if (mkdirat(to_fd, x->d_name, 0700) < 0 && errno != EEXIST)
		return -errno;
	from = openat(from_fd, x->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	to = openat(to_fd, x->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return from < 0 || to < 0 ? -errno : link_tree(from, to, depth + 1);
}

/* Links all but what is being made. */
static int link_tree(int from_fd, int to_fd, int depth)
{
	DIR *d = file_open_dir(from_fd, ".");
	int r = d ? 0 : -errno;

	for (const struct dirent *x; r == 0 && (x = readdir(d));)
		if (*x->d_name != '.')
			r = link_entry(from_fd, x, to_fd, depth);
	if (d)
		(void)closedir(d); /* read-only */
	return r < 0 ? r : fsync(to_fd) < 0 ? -errno : 0;
}

int template_clone(const struct home *h, const char *from, const char *name, struct error *e)
{
	struct template_build b = TEMPLATE_BUILD_INIT;
	_cleanup_close_ int fd = template_hold(h, from, e);
	int r = fd < 0 ? fd : template_begin(h, name, &b, e);

	if (r < 0)
		return r;
	r = link_tree(fd, b.w.fd, 0);
	r = r < 0 ? host_error(e, r, "cannot take the files of template", from)
		  : workdir_commit(&b.w, e);
	template_abort(&b);
	return r;
}

int template_reuse(const struct home *h, const char *name, const char *key, struct error *e)
{
	const char *found = has_key(h, name, key) ? name : NULL;
	char **names = NULL;
	int r = found ? 0 : workdir_list(h->area_fd[HOME_TEMPLATES], &names);

	for (char **p = names; !found && p && *p; p++)
		found = has_key(h, *p, key) ? *p : NULL;
	if (r < 0)
		r = host_error(e, r, "cannot list", home_area_name(HOME_TEMPLATES));
	else if (found && found != name)
		r = template_clone(h, found, name, e);
	workdir_list_free(names);
	return r < 0 ? r : found != NULL;
}

static int from_json(const json_t *o, struct template *t, struct error *e)
{
	_cleanup_free_ char *kind = NULL;
	uint64_t format = 0;
	int bad;

	if (config_json_u64(o, "format", UINT32_MAX, &format) < 0 || format != TEMPLATE_FORMAT)
		return error_set(
			e, ERROR_BAD_IMAGE, EINVAL, "\"format\" is not %d", TEMPLATE_FORMAT);
	bad = config_json_string(o, "kind", &kind) < 0 ||
	      config_json_string(o, "kernel_release", &t->kernel_release) < 0 ||
	      config_json_string(o, "agent_version", &t->agent_version) < 0 ||
	      config_json_string(o, "image_digest", &t->image_digest) < 0 ||
	      config_json_u64(o, "created", INT64_MAX, &t->created_s) < 0;
	if (!bad && strcmp(kind, image_kind_name(IMAGE_EROFS)) == 0)
		t->kind = IMAGE_EROFS;
	else if (!bad && strcmp(kind, image_kind_name(IMAGE_EXT4)) != 0)
		bad = 1;
	bad = bad || image_deltas_from_json(o, t->kind, &t->deltas) < 0;
	/* It becomes part of a path. */
	if (!bad && *t->kernel_release && !str_is_name(t->kernel_release))
		bad = 1;
	if (bad)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL, "a value is missing or unusable");
	return config_from_json(o, &t->config, e);
}

static int parse(const char *text, size_t len, struct template *t, struct error *e)
{
	static const char *const keys[] = {"format", "kind", "kernel_release", "agent_version",
		"image_digest", "created", "deltas", "description", "cpus", "memory_mb", "disk_mb",
		"user", "workdir", "network", "env", "start_command", "ready_command",
		"warm_command", "entry_command", "onbuild", NULL};
	json_t *o = config_json_parse(text, len, keys, json_file, e);
	int r = o ? from_json(o, t, e) : -EINVAL;

	json_decref(o);
	return r;
}

static uint64_t disk_bytes_below(int parent_fd, const char *name, int depth)
{
	DIR *d = file_open_dir(parent_fd, name);
	struct dirent *de;
	uint64_t sum = 0;

	if (!d)
		return 0;
	while ((de = readdir(d))) {
		if (file_is_dots(de->d_name))
			continue;
		if (de->d_type == DT_DIR && depth < TREE_DEPTH_MAX)
			sum += disk_bytes_below(dirfd(d), de->d_name, depth + 1);
		else if (de->d_type == DT_REG)
			sum += file_disk_bytes(dirfd(d), de->d_name);
	}
	(void)closedir(d); /* read-only */
	return sum;
}

int template_history(const struct home *h, const char *name, char **ret, struct error *e)
{
	_cleanup_close_ int fd = template_open(h, name, e);
	int r = fd < 0 ? fd
		       : file_read_foreign(
				 fd, TEMPLATE_HISTORY_FILE, TEMPLATE_HISTORY_MAX, ret, NULL);

	if (fd < 0 || r == 0)
		return r;
	*ret = r == -ENOENT ? strdup("") : NULL;
	return *ret ? 0 : host_error(e, r == -ENOENT ? -ENOMEM : r, "the history of", name);
}

/* --- what it occupies --- */

enum { FILES_MAX = 1024 };

struct found {
	ino_t inode;
	uint64_t bytes;
	nlink_t links, seen;
};

struct survey {
	struct found *files; /* FILES_MAX of them; more do not count */
	size_t count;
};

static void see_file(struct survey *s, const struct stat *st)
{
	size_t i = 0;

	while (i < s->count && s->files[i].inode != st->st_ino)
		i++;
	if (i == FILES_MAX)
		return;
	if (i == s->count)
		s->files[s->count++] =
			(struct found){st->st_ino, (uint64_t)st->st_blocks * 512, st->st_nlink, 0};
	s->files[i].seen++;
}

static void see_below(struct survey *s, int parent_fd, const char *name, int depth)
{
	DIR *d = file_open_dir(parent_fd, name);
	struct stat st;

	for (const struct dirent *x; d && (x = readdir(d));) {
		if (file_is_dots(x->d_name) ||
			fstatat(dirfd(d), x->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < TREE_DEPTH_MAX)
			see_below(s, dirfd(d), x->d_name, depth + 1);
		else if (S_ISREG(st.st_mode))
			see_file(s, &st);
	}
	if (d)
		(void)closedir(d); /* read-only */
}

/* A file is its own if all links to it are. */
struct template_bytes template_bytes(const struct home *h, const char *name)
{
	struct survey s = {.files = calloc(FILES_MAX, sizeof(*s.files))};
	struct template_bytes sum = {0, 0};

	if (!s.files)
		return sum;
	see_below(&s, h->area_fd[HOME_TEMPLATES], name, 0);
	see_below(&s, h->area_fd[HOME_IMAGES], name, 0);
	for (size_t i = 0; i < s.count; i++)
		*(s.files[i].seen == s.files[i].links ? &sum.unique : &sum.shared) +=
			s.files[i].bytes;
	free(s.files);
	return sum;
}

int template_load_at(int dirfd, const char *name, struct template *ret, struct error *e)
{
	_cleanup_(template_done) struct template t = {0};
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	t.name = strdup(name);
	if (!t.name || config_init(&t.config) < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = file_read(dirfd, json_file, CONFIG_JSON_MAX, &text, &len);
	if (r < 0)
		r = error_set_errno(e, ERROR_BAD_IMAGE, -r, "cannot read %s", json_file);
	else
		r = parse(text, len, &t, e);
	if (r < 0) {
		error_prefix(e,
			"template '%s' is damaged (`mayfly template build %s` makes it anew)", name,
			name);
		return r;
	}
	*ret = t;
	t = (struct template){0};
	return 0;
}

int template_load(const struct home *h, const char *name, struct template *ret, struct error *e)
{
	_cleanup_close_ int fd = template_open(h, name, e);
	int r = fd < 0 ? fd : template_load_at(fd, name, ret, e);

	if (r < 0)
		return r;
	ret->rootfs_disk_bytes = image_disk_bytes(fd, ret->kind, ret->deltas);
	ret->snapshot_disk_bytes = disk_bytes_below(fd, snapshots_dir, 0);
	return 0;
}

static int call_one(const struct home *h, char *name, template_fn fn, void *opaque)
{
	struct error damage = {0};
	struct template t = {0};
	int r = template_load(h, name, &t, &damage);

	if (r < 0 && damage.code == ERROR_NOT_FOUND)
		return 0; /* removed after it was listed */
	if (r < 0)
		return fn(opaque, &(struct template){.name = name}, &damage);
	r = fn(opaque, &t, NULL);
	template_done(&t);
	return r;
}

int template_each(const struct home *h, template_fn fn, void *opaque, struct error *e)
{
	char **names = NULL;
	int r = workdir_list(h->area_fd[HOME_TEMPLATES], &names);

	if (r < 0)
		return host_error(e, r, "cannot list", home_area_name(HOME_TEMPLATES));
	for (char **p = names; r == 0 && *p; p++)
		r = call_one(h, *p, fn, opaque);
	workdir_list_free(names);
	return r;
}

int template_remove(const struct home *h, const char *name, struct error *e)
{
	int r = workdir_remove(h->area_fd[HOME_TEMPLATES], name);

	if (r == -ENOENT)
		return not_found(e, name);
	return r < 0 ? host_error(e, r, "cannot remove template", name) : 0;
}

void template_snapshot_name(uint32_t cpus, uint32_t memory_mb, char out[TEMPLATE_SNAPSHOT_NAME_MAX])
{
	(void)snprintf(out, TEMPLATE_SNAPSHOT_NAME_MAX, "%uc-%um", cpus, memory_mb);
}

int template_snapshot_dir(int template_fd, uint32_t cpus, uint32_t memory_mb, bool create)
{
	char name[TEMPLATE_SNAPSHOT_NAME_MAX];
	_cleanup_close_ int parent = -1;
	int fd;

	if (create && mkdirat(template_fd, snapshots_dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	parent =
		openat(template_fd, snapshots_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (parent < 0)
		return -errno;
	template_snapshot_name(cpus, memory_mb, name);
	if (create && mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
