/* Adjusts every image: checks, the user, names and locale. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "image/rootfs_internal.h"

/* As in E2B's sandboxes. The host answers all DNS queries itself, whatever resolver they name. */
#define RESOLVER "8.8.8.8"

enum { FIRST_USER_ID = 1000, LAST_USER_ID = 59999 };

static bool exists(struct rootfs *f, const char *path, uint32_t *ret_mode)
{
	struct tree_stat st;

	if (f->sink->ops->lookup(f->sink, path, &st) < 0)
		return false;
	if (ret_mode)
		*ret_mode = st.mode;
	return true;
}

static int check_contents(struct rootfs *f, struct error *e)
{
	uint32_t mode;

	if (!exists(f, "bin/sh", &mode) || !S_ISREG(mode) || !(mode & 0111))
		return error_set(e, ERROR_BAD_IMAGE, ENOENT,
			"the image has no /bin/sh that can be executed: put a shell (dash, bash, "
			"busybox) into it");
	if (!exists(f, "etc/passwd", &mode) || !S_ISREG(mode))
		return error_set(e, ERROR_BAD_IMAGE, ENOENT,
			"the image has no /etc/passwd: put one with a line for root into it");
	return 0;
}

/* True when a line of a passwd or group file begins with "name:". */
static bool has_name(const char *file, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = file; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
		if (strncmp(p, name, n) == 0 && p[n] == ':')
			return true;
	return false;
}

/* True when the third field of a line is id. */
static bool has_id(const char *file, unsigned id)
{
	for (const char *p = file; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		const char *field = strchr(p, ':');

		field = field ? strchr(field + 1, ':') : NULL;
		if (field && isdigit((unsigned char)field[1]) && strtoul(field + 1, NULL, 10) == id)
			return true;
	}
	return false;
}

/* Keeps the file's owner and mode: shadow belongs to its own group. */
static int append_line(struct rootfs *f, const char *path, const char *line, struct error *e)
{
	struct tree_stat st;
	_cleanup_free_ char *old = NULL, *text = NULL;
	size_t len = 0;
	int r = f->sink->ops->lookup(f->sink, path, &st);

	if (r == -ENOENT)
		return 0; /* some images lack shadow or group */
	if (r == 0)
		r = f->sink->ops->read(f->sink, path, &old, &len);
	if (r < 0)
		return error_set_errno(
			e, ERROR_BAD_IMAGE, -r, "cannot read /%s of the image", path);
	text = str_printf("%s%s%s", old, len > 0 && old[len - 1] != '\n' ? "\n" : "", line);
	if (!text)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return rootfs_put(f, path, text, st, f->epoch, e);
}

static int add_account(struct rootfs *f, const char *user, unsigned id, struct error *e)
{
	const char *shell = exists(f, "bin/bash", NULL) ? "/bin/bash" : "/bin/sh";
	char line[256];
	int r;

	(void)snprintf(line, sizeof(line), "%s:x:%u:%u::/home/%s:%s\n", user, id, id, user, shell);
	r = append_line(f, "etc/passwd", line, e);
	(void)snprintf(line, sizeof(line), "%s:x:%u:\n", user, id);
	if (r == 0)
		r = append_line(f, "etc/group", line, e);
	(void)snprintf(line, sizeof(line), "%s:*:19000:0:99999:7:::\n", user);
	return r == 0 ? append_line(f, "etc/shadow", line, e) : r;
}

static int add_home(struct rootfs *f, const char *user, unsigned id, struct error *e)
{
	static const char *const skeleton[] = {".bashrc", ".profile", ".bash_logout"};
	char path[CONFIG_USER_MAX + 64], from[64];
	struct tree_entry t = {
		.path = path, .mode = S_IFDIR | 0755, .uid = id, .gid = id, .mtime = f->epoch};
	int r;

	(void)snprintf(path, sizeof(path), "home/%s", user);
	r = rootfs_add(f, &t, NULL, e);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(skeleton); i++) {
		_cleanup_free_ char *text = NULL;

		(void)snprintf(from, sizeof(from), "etc/skel/%s", skeleton[i]);
		(void)snprintf(path, sizeof(path), "home/%s/%s", user, skeleton[i]);
		if (f->sink->ops->read(f->sink, from, &text, NULL) == 0)
			r = rootfs_put(
				f, path, text, (struct tree_stat){0644, id, id}, f->epoch, e);
	}
	return r;
}

static int add_sudo(struct rootfs *f, const char *user, struct error *e)
{
	char line[128];
	uint32_t mode;

	if (!exists(f, "etc/sudoers.d", &mode) || !S_ISDIR(mode))
		return 0;
	(void)snprintf(line, sizeof(line), "%s ALL=(ALL:ALL) NOPASSWD: ALL\n", user);
	return rootfs_put(
		f, "etc/sudoers.d/mayfly", line, (struct tree_stat){0440, 0, 0}, f->epoch, e);
}

static int ensure_user(struct rootfs *f, const char *user, struct error *e)
{
	_cleanup_free_ char *passwd = NULL, *group = NULL;
	unsigned id = FIRST_USER_ID;
	int r = f->sink->ops->read(f->sink, "etc/passwd", &passwd, NULL);

	if (r < 0)
		return error_set_errno(
			e, ERROR_BAD_IMAGE, -r, "cannot read /etc/passwd of the image");
	if (has_name(passwd, user))
		return 0;
	(void)f->sink->ops->read(f->sink, "etc/group", &group, NULL); /* may be missing */
	while (id <= LAST_USER_ID && (has_id(passwd, id) || has_id(group, id)))
		id++;
	if (id > LAST_USER_ID)
		return error_set(e, ERROR_BAD_IMAGE, EUSERS, "no user id is free for %s", user);
	r = add_account(f, user, id, e);
	if (r == 0)
		r = add_home(f, user, id, e);
	return r == 0 ? add_sudo(f, user, e) : r;
}

static int add_names(struct rootfs *f, struct error *e)
{
	static const struct {
		const char *path, *text;
	} files[] = {
		{"etc/hostname", "sandbox\n"},
		{"etc/hosts",
			"127.0.0.1 localhost\n127.0.1.1 sandbox\n::1 localhost ip6-localhost\n"},
		{"etc/resolv.conf", "nameserver " RESOLVER "\n"},
		{"etc/default/locale", "LANG=C.UTF-8\n"},
		{"etc/machine-id", ""}, /* the agent writes one for each sandbox */
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = rootfs_put(f, files[i].path, files[i].text, (struct tree_stat){0644, 0, 0},
			f->epoch, e);
	return r;
}

/* Adds mount points, which the tar of an image may lack. */
static int add_mount_points(struct rootfs *f, struct error *e)
{
	static const struct {
		const char *path;
		uint32_t mode;
	} dirs[] = {{"dev", 0755}, {"proc", 0755}, {"run", 0755}, {"sys", 0755}, {"tmp", 01777}};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++) {
		struct tree_entry t = {
			.path = dirs[i].path, .mode = S_IFDIR | dirs[i].mode, .mtime = f->epoch};

		if (!exists(f, dirs[i].path, NULL))
			r = rootfs_add(f, &t, NULL, e);
	}
	return r;
}

/* Makes the files that a user needs to have a name. */
static int ensure_passwd(struct rootfs *f, struct error *e)
{
	static const struct tree_stat owner = {0644, 0, 0};
	int r = 0;

	if (!exists(f, "etc/passwd", NULL))
		r = rootfs_put(
			f, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", owner, f->epoch, e);
	if (r == 0 && !exists(f, "etc/group", NULL))
		r = rootfs_put(f, "etc/group", "root:x:0:\n", owner, f->epoch, e);
	return r;
}

int rootfs_add_login(
	struct rootfs *f, const char *name, uint32_t uid, uint32_t gid, struct error *e)
{
	char line[256];
	int r = ensure_passwd(f, e);

	(void)snprintf(line, sizeof(line), "%s:x:%u:%u::/:/bin/sh\n", name, uid, gid);
	return r < 0 ? r : append_line(f, "etc/passwd", line, e);
}

int rootfs_finalize(struct rootfs *f, const struct image_config *c, bool bare, struct error *e)
{
	int r = bare ? ensure_passwd(f, e) : check_contents(f, e);

	if (r == 0)
		r = ensure_user(f, c->user, e);
	if (r == 0)
		r = add_names(f, e);
	return r == 0 ? add_mount_points(f, e) : r;
}
