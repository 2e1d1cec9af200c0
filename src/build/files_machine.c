/* A stage's file system as a source of files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "build/files.h"

static struct files_machine *of(struct files *f)
{
	return (struct files_machine *)(void *)((char *)f - offsetof(struct files_machine, files));
}

static void full_path(const char *path, char out[BUILD_PATH_MAX + 1])
{
	(void)snprintf(
		out, BUILD_PATH_MAX + 1, "/%s", path); /* the agent refuses what is too long */
}

static int machine_stat(struct files *f, const char *path, struct files_entry *ret, struct error *e)
{
	char full[BUILD_PATH_MAX + 1];
	const struct agent_stat q = {.flags = AGENT_STAT_FOLLOW, .user = "root", .path = full};
	struct agent_event ev;
	int r;

	full_path(path, full);
	r = machine_call(of(f)->machine, AGENT_STAT, &q, AGENT_ENTRY, &ev, e);
	if (r < 0)
		return r;
	*ret = (struct files_entry){.path = path,
		.mode = ev.entry.mode,
		.uid = ev.entry.uid,
		.gid = ev.entry.gid,
		.mtime_ns = ev.entry.mtime_ns,
		.size = ev.entry.size,
		.target = ""};
	return 0;
}

struct listing {
	const char *path; /* that was asked for; the guest answers with the real one */
	char real[BUILD_PATH_MAX + 1];
	size_t real_bytes;
	files_fn each;
	void *opaque;
	size_t count;
};

/* The guest says the names: none may lead to another place. */
static bool is_clean(const char *path)
{
	if (!*path)
		return false;
	for (const char *p = path; *p; p += strcspn(p, "/"), p += *p == '/') {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && *p == '.') || (n == 2 && memcmp(p, "..", 2) == 0))
			return false;
	}
	return path[strlen(path) - 1] != '/';
}

/* The first node lies directly in the directory. */
static void note_real(struct listing *l, const char *path)
{
	const char *slash = strrchr(path, '/');

	l->real_bytes = slash ? (size_t)(slash - path) + 1 : 0;
	if (l->real_bytes > BUILD_PATH_MAX)
		l->real_bytes = 0;
	memcpy(l->real, path, l->real_bytes);
}

static int take_node(void *opaque, const struct agent_node *n, struct error *e)
{
	struct listing *l = opaque;
	char path[BUILD_PATH_MAX];
	struct files_entry entry = {.path = path,
		.mode = n->mode,
		.uid = n->uid,
		.gid = n->gid,
		.mtime_ns = n->mtime_ns,
		.size = n->size,
		.target = n->target,
		.inode = n->inode,
		.ctime_ns = n->ctime_ns};

	if (l->count == 0)
		note_real(l, n->path);
	if (l->real_bytes == 0 || strncmp(n->path, l->real, l->real_bytes) != 0 ||
		!is_clean(n->path + l->real_bytes))
		return error_set(e, ERROR_SANDBOX, EBADMSG, "the guest sent a malformed file name");
	if (snprintf(path, sizeof(path), "%s%s%s", l->path, *l->path ? "/" : "",
		    n->path + l->real_bytes) >= (int)sizeof(path))
		return error_set(e, ERROR_LIMIT, ENAMETOOLONG, "%.200s...: too long a path", path);
	if (++l->count > FILES_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "more than %d files to copy", FILES_MAX);
	return l->each(l->opaque, &entry, e);
}

static int machine_list(
	struct files *f, const char *path, files_fn each, void *opaque, struct error *e)
{
	struct listing l = {.path = path, .each = each, .opaque = opaque};
	char full[BUILD_PATH_MAX + 1];

	full_path(path, full);
	return machine_tree(of(f)->machine, full, take_node, &l, e);
}

static int machine_read_file(struct files *f, const char *path, uint64_t offset, void *out,
	size_t n, size_t *ret, struct error *e)
{
	char full[BUILD_PATH_MAX + 1];

	full_path(path, full);
	return machine_read(of(f)->machine, full, offset, out, n, ret, e);
}

static int machine_xattrs(
	struct files *f, const char *path, struct files_xattrs *ret, struct error *e)
{
	char full[BUILD_PATH_MAX + 1];
	const struct agent_stat q = {
		.flags = AGENT_STAT_FOLLOW | AGENT_STAT_XATTRS | AGENT_STAT_CAPABILITY,
		.user = "root",
		.path = full};
	struct agent_event ev;
	const char *name, *value;
	size_t pos = 0;
	int r;

	ret->count = 0;
	ret->bytes = 0;
	full_path(path, full);
	r = machine_call(of(f)->machine, AGENT_STAT, &q, AGENT_ENTRY, &ev, e);
	while (r == 0 && agent_strings_next(&ev.entry.xattrs, &pos, &name) &&
		agent_strings_next(&ev.entry.xattrs, &pos, &value))
		files_xattrs_add(ret, name, value);
	return r;
}

void files_machine_init(struct files_machine *x, struct machine *machine)
{
	*x = (struct files_machine){
		.files = {machine_stat, machine_list, machine_read_file, machine_xattrs},
		.machine = machine};
}
