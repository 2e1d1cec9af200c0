#include "dockerfile/mount.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

static const char *const types[] = {"bind", "cache", "tmpfs", "secret", "ssh"};

#define OF(type) (1u << MOUNT_##type)
#define ANY	 (OF(BIND) | OF(CACHE) | OF(TMPFS) | OF(SECRET) | OF(SSH))

enum value { TEXT, YES, NO, MODE, NUMBER, SHARING, IGNORED };

/* The keys, and the types that have them. */
static const struct key {
	const char *name;
	enum value value;
	size_t offset;
	unsigned of;
} keys[] = {
	{"target", TEXT, offsetof(struct mount, target), ANY},
	{"dst", TEXT, offsetof(struct mount, target), ANY},
	{"destination", TEXT, offsetof(struct mount, target), ANY},
	{"source", TEXT, offsetof(struct mount, source), OF(BIND) | OF(CACHE)},
	{"src", TEXT, offsetof(struct mount, source), OF(BIND) | OF(CACHE)},
	{"from", TEXT, offsetof(struct mount, from), OF(BIND) | OF(CACHE)},
	{"id", TEXT, offsetof(struct mount, id), OF(CACHE) | OF(SECRET) | OF(SSH)},
	{"env", TEXT, offsetof(struct mount, env), OF(SECRET)},
	{"readonly", YES, offsetof(struct mount, read_only), OF(BIND) | OF(CACHE)},
	{"ro", YES, offsetof(struct mount, read_only), OF(BIND) | OF(CACHE)},
	{"readwrite", NO, offsetof(struct mount, read_only), OF(BIND) | OF(CACHE)},
	{"rw", NO, offsetof(struct mount, read_only), OF(BIND) | OF(CACHE)},
	{"required", YES, offsetof(struct mount, required), OF(SECRET) | OF(SSH)},
	{"mode", MODE, offsetof(struct mount, mode), OF(CACHE) | OF(SECRET) | OF(SSH)},
	{"uid", NUMBER, offsetof(struct mount, uid), OF(CACHE) | OF(SECRET) | OF(SSH)},
	{"gid", NUMBER, offsetof(struct mount, gid), OF(CACHE) | OF(SECRET) | OF(SSH)},
	{"sharing", SHARING, offsetof(struct mount, sharing), OF(CACHE)},
	{"size", IGNORED, 0, OF(TMPFS)},
};

static int bad_value(const char *key, const char *value, struct error *e)
{
	return error_set(e, ERROR_USAGE, EINVAL, "--mount: %s cannot be %.100s", key, value);
}

static int set_text(char *to, const char *key, const char *value, struct error *e)
{
	if (!*value || strlen(value) >= MOUNT_TEXT_MAX)
		return bad_value(key, value, e);
	memcpy(to, value, strlen(value) + 1);
	return 0;
}

static int set_bool(bool *to, bool yes, const char *key, const char *value, struct error *e)
{
	bool is_true = !*value || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;

	if (!is_true && strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
		return bad_value(key, value, e);
	*to = is_true == yes;
	return 0;
}

static int set_number(uint32_t *to, int base, const char *key, const char *value, struct error *e)
{
	const char *digits = base == 8 ? "01234567" : "0123456789";
	size_t n = strspn(value, digits);

	if (n == 0 || value[n] || n > 9)
		return bad_value(key, value, e);
	*to = (uint32_t)strtoul(value, NULL, base);
	return base == 8 && *to > 07777 ? bad_value(key, value, e) : 0;
}

static int set_sharing(enum mount_sharing *to, const char *value, struct error *e)
{
	static const char *const names[] = {"shared", "locked", "private"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], value) == 0) {
			*to = (enum mount_sharing)i;
			return 0;
		}
	return bad_value("sharing", value, e);
}

static int set(struct mount *m, const struct key *k, const char *value, struct error *e)
{
	void *to = (char *)m + k->offset;

	switch (k->value) {
	case TEXT:
		return set_text(to, k->name, value, e);
	case YES:
	case NO:
		return set_bool(to, k->value == YES, k->name, value, e);
	case MODE:
		m->has_mode = true;
		return set_number(to, 8, k->name, value, e);
	case NUMBER:
		return set_number(to, 10, k->name, value, e);
	case SHARING:
		return set_sharing(to, value, e);
	case IGNORED:
		break;
	}
	return 0;
}

static int set_type(struct mount *m, const char *value, struct error *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (strcmp(types[i], value) == 0) {
			m->type = (enum mount_type)i;
			return 0;
		}
	}
	return error_set(e, ERROR_USAGE, EINVAL,
		"--mount: type=%.60s: must be bind, cache, tmpfs, secret or ssh", value);
}

static int set_pair(struct mount *m, const char *name, const char *value, struct error *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, name) != 0)
			continue;
		if (!(keys[i].of & 1u << m->type))
			return error_set(e, ERROR_USAGE, EINVAL, "--mount: type=%s has no %s",
				types[m->type], name);
		return set(m, &keys[i], value, e);
	}
	return error_set(e, ERROR_USAGE, EINVAL, "--mount: %.60s is not known", name);
}

/* Takes the pairs of a text: with `type` only the type, else all others. Changes the text. */
static int each_pair(char *text, bool type, struct mount *m, struct error *e)
{
	int r = 0;

	for (char *p = text, *next; p && r == 0; p = next) {
		char *value;

		next = strchr(p, ',');
		if (next)
			*next++ = '\0';
		value = strchr(p, '=');
		if (value)
			*value++ = '\0';
		if ((strcmp(p, "type") == 0) == type)
			r = type ? set_type(m, value ? value : "", e)
				 : set_pair(m, p, value ? value : "", e);
	}
	return r;
}

int mount_parse(const char *text, struct mount *ret, struct error *e)
{
	char copy[4 * MOUNT_TEXT_MAX];
	int r;

	*ret = (struct mount){.type = MOUNT_BIND};
	if (strlen(text) >= sizeof(copy))
		return error_set(
			e, ERROR_USAGE, EINVAL, "--mount: longer than %zu bytes", sizeof(copy) - 1);
	memcpy(copy, text, strlen(text) + 1);
	r = each_pair(copy, true, ret, e); /* what the keys mean depends on it */
	if (r < 0)
		return r;
	ret->read_only = ret->type == MOUNT_BIND;
	memcpy(copy, text, strlen(text) + 1);
	r = each_pair(copy, false, ret, e);
	if (r == 0 && !*ret->target && ret->type < MOUNT_SECRET)
		return error_set(e, ERROR_USAGE, EINVAL, "--mount: type=%s needs a target",
			types[ret->type]);
	return r;
}
