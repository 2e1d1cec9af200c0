#include "users.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "guest.h"

enum { FIELDS_MAX = 7 };

struct text {
	const char *path;
	char *data; /* NUL-terminated */
	size_t length;
	struct stat st;
	bool loaded;
};

static struct text passwd = {.path = "/etc/passwd"};
static struct text group = {.path = "/etc/group"};

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void text_clear(struct text *t)
{
	free(t->data);
	t->data = NULL;
	t->length = 0;
	t->loaded = false;
}

static void text_load(struct text *t)
{
	_cleanup_close_ int fd = open(t->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	size_t n;

	text_clear(t);
	if (fd < 0 || fstat(fd, &t->st) < 0 || !S_ISREG(t->st.st_mode))
		return;
	n = t->st.st_size > USERS_FILE_MAX ? USERS_FILE_MAX : (size_t)t->st.st_size;
	t->data = malloc(n + 1);
	if (!t->data || fd_read_full(fd, t->data, n) < 0) {
		text_clear(t);
		return;
	}
	t->data[n] = '\0';
	t->length = n;
	t->loaded = true;
}

static void text_refresh(struct text *t)
{
	struct stat st;

	if (stat(t->path, &st) < 0)
		text_clear(t);
	else if (!t->loaded || !same_file(&st, &t->st))
		text_load(t);
}

struct span {
	const char *p;
	size_t n;
};

struct line {
	struct span field[FIELDS_MAX];
	unsigned count;
};

/* Reads the next line, split at colons. A NUL ends a line early. */
static bool next_line(const struct text *t, size_t *pos, struct line *ret)
{
	const char *p, *end;

	if (!t->data || *pos >= t->length)
		return false;
	p = t->data + *pos;
	end = memchr(p, '\n', t->length - *pos);
	if (!end)
		end = t->data + t->length;
	*pos = (size_t)(end - t->data) + 1;
	ret->count = 0;
	while (ret->count < FIELDS_MAX) {
		const char *colon = memchr(p, ':', (size_t)(end - p));

		ret->field[ret->count++] = (struct span){p, (size_t)((colon ? colon : end) - p)};
		if (!colon)
			break;
		p = colon + 1;
	}
	return true;
}

static bool span_is(struct span s, const char *text)
{
	return strlen(text) == s.n && memcmp(s.p, text, s.n) == 0;
}

static bool span_number(struct span s, uint32_t *ret)
{
	uint64_t v = 0;

	if (s.n == 0 || s.n > 10)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(s.p[i] - '0');
	}
	if (v >= UINT32_MAX) /* (uid_t)-1 means "no change" to the kernel */
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool span_copy(struct span s, char *out, size_t size)
{
	if (s.n >= size || memchr(s.p, 0, s.n))
		return false;
	memcpy(out, s.p, s.n);
	out[s.n] = '\0';
	return true;
}

/* name:x:uid:gid:gecos:home:shell */
static bool parse_passwd(const struct line *l, struct user *u)
{
	return l->count == 7 && l->field[0].n && span_copy(l->field[0], u->name, sizeof(u->name)) &&
	       span_number(l->field[2], &u->uid) && span_number(l->field[3], &u->gid) &&
	       span_copy(l->field[5], u->home, sizeof(u->home)) &&
	       span_copy(l->field[6], u->shell, sizeof(u->shell));
}

static bool find_by_name(struct span name, struct user *u)
{
	struct line l;

	for (size_t pos = 0; next_line(&passwd, &pos, &l);)
		if (l.field[0].n == name.n && memcmp(l.field[0].p, name.p, name.n) == 0 &&
			parse_passwd(&l, u))
			return true;
	return false;
}

static bool find_by_uid(uint32_t uid, struct user *u)
{
	struct line l;
	uint32_t v;

	for (size_t pos = 0; next_line(&passwd, &pos, &l);)
		if (l.count == 7 && span_number(l.field[2], &v) && v == uid && parse_passwd(&l, u))
			return true;
	return false;
}

static void unlisted_user(uint32_t uid, struct user *u)
{
	*u = (struct user){.uid = uid, .gid = uid == 0 ? 0 : uid, .home = "/", .shell = "/bin/sh"};
	(void)snprintf(u->name, sizeof(u->name), uid == 0 ? "root" : "%u", uid); /* fits */
	if (uid == 0)
		strcpy(u->home, "/root");
}

static bool find_group(struct span spec, gid_t *ret)
{
	struct line l;

	for (size_t pos = 0; next_line(&group, &pos, &l);)
		if (l.count >= 3 && l.field[0].n == spec.n &&
			memcmp(l.field[0].p, spec.p, spec.n) == 0 && span_number(l.field[2], ret))
			return true;
	return span_number(spec, ret);
}

static bool list_has(struct span members, const char *name)
{
	const char *p = members.p, *end = members.p + members.n;

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const char *stop = comma ? comma : end;

		if (span_is((struct span){p, (size_t)(stop - p)}, name))
			return true;
		p = stop + 1;
	}
	return false;
}

static void find_groups(struct user *u)
{
	struct line l;
	gid_t gid;

	u->groups[0] = u->gid;
	u->group_count = 1;
	for (size_t pos = 0; next_line(&group, &pos, &l) && u->group_count < USER_GROUPS_MAX;)
		if (l.count >= 4 && span_number(l.field[2], &gid) && gid != u->gid &&
			list_has(l.field[3], u->name))
			u->groups[u->group_count++] = gid;
}

int user_find(const char *spec, struct user *u)
{
	const char *colon;
	struct span name;
	char self[16];
	uint32_t uid;

	if (!*spec)
		spec = guest.user;
	if (!*spec) {
		(void)snprintf(self, sizeof(self), "%u", (unsigned)geteuid()); /* fits */
		spec = self;
	}
	text_refresh(&passwd);
	text_refresh(&group);
	colon = strchr(spec, ':');
	name = (struct span){spec, colon ? (size_t)(colon - spec) : strlen(spec)};
	if (!find_by_name(name, u)) {
		if (!span_number(name, &uid)) {
			if (!span_is(name, "root"))
				return -ENOENT;
			uid = 0; /* root exists even without /etc/passwd */
		}
		if (!find_by_uid(uid, u))
			unlisted_user(uid, u);
	}
	if (colon && !find_group((struct span){colon + 1, strlen(colon + 1)}, &u->gid))
		return -ENOENT;
	if (!u->home[0])
		strcpy(u->home, "/");
	if (!u->shell[0])
		strcpy(u->shell, "/bin/sh");
	find_groups(u);
	return 0;
}

int user_find_ids(const char *spec, uid_t *ret_uid, gid_t *ret_gid)
{
	struct user u;
	int r;

	*ret_uid = (uid_t)-1;
	*ret_gid = (gid_t)-1;
	if (*spec == ':') {
		text_refresh(&group);
		return find_group((struct span){spec + 1, strlen(spec + 1)}, ret_gid) ? 0 : -ENOENT;
	}
	r = user_find(spec, &u);
	if (r < 0)
		return r;
	*ret_uid = u.uid;
	if (strchr(spec, ':'))
		*ret_gid = u.gid;
	return 0;
}

static void name_of(struct text *t, uint32_t id, char out[AGENT_NAME_MAX + 1])
{
	struct line l;
	uint32_t v;

	text_refresh(t);
	for (size_t pos = 0; next_line(t, &pos, &l);)
		if (l.count >= 3 && l.field[0].n && span_number(l.field[2], &v) && v == id &&
			span_copy(l.field[0], out, AGENT_NAME_MAX + 1))
			return;
	(void)snprintf(out, AGENT_NAME_MAX + 1, "%u", id); /* fits */
}

void user_name(uid_t uid, char out[AGENT_NAME_MAX + 1])
{
	name_of(&passwd, uid, out);
}

void group_name(gid_t gid, char out[AGENT_NAME_MAX + 1])
{
	name_of(&group, gid, out);
}
