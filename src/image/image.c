#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

enum { IMAGE_FORMAT = 1 };

static const char *const kind_names[] = {[IMAGE_EXT4] = "ext4", [IMAGE_EROFS] = "erofs"};
static const char *const file_names[] = {
	[IMAGE_EXT4] = "rootfs.ext4", [IMAGE_EROFS] = "rootfs.erofs"};

const char *image_kind_name(enum image_kind kind)
{
	return kind_names[kind];
}

const char *image_file_name(enum image_kind kind)
{
	return file_names[kind];
}

void image_delta_name(unsigned number, char out[IMAGE_DELTA_NAME_BYTES])
{
	(void)snprintf(out, IMAGE_DELTA_NAME_BYTES, "delta%u", number); /* fits */
}

uint64_t image_disk_bytes(int dirfd, enum image_kind kind, unsigned deltas)
{
	uint64_t sum = file_disk_bytes(dirfd, image_file_name(kind));
	char name[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = 0; i < deltas; i++) {
		image_delta_name(i, name);
		sum += file_disk_bytes(dirfd, name);
	}
	return sum;
}

int image_deltas_to_json(unsigned deltas, json_t *o)
{
	return deltas ? config_json_add_u64(o, "deltas", deltas) : 0;
}

int image_deltas_from_json(const json_t *o, enum image_kind kind, unsigned *ret)
{
	uint64_t n = 0;
	int r = json_object_get(o, "deltas") ? config_json_u64(o, "deltas", IMAGE_DELTAS_MAX, &n)
					     : 0;

	*ret = (unsigned)n;
	return r < 0 || (n && kind != IMAGE_EXT4) ? -EINVAL : 0;
}

void image_done(struct image *m)
{
	free(m->name);
	free(m->source);
	free(m->digest);
	config_done(&m->config);
	*m = (struct image){0};
}

static int from_json(const json_t *o, struct image *m, struct error *e)
{
	_cleanup_free_ char *kind = NULL;
	uint64_t format = 0;
	int bad = config_json_u64(o, "format", UINT32_MAX, &format) < 0 || format != IMAGE_FORMAT;

	if (bad)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL, "\"format\" is not %d", IMAGE_FORMAT);
	bad = config_json_string(o, "kind", &kind) < 0 ||
	      config_json_string(o, "source", &m->source) < 0 ||
	      config_json_string(o, "digest", &m->digest) < 0 ||
	      config_json_u64(o, "created", INT64_MAX, &m->created_s) < 0 ||
	      config_json_u64(o, "content_bytes", INT64_MAX, &m->content_bytes) < 0 ||
	      config_json_u64(o, "entries", INT64_MAX, &m->entries) < 0;
	if (!bad && strcmp(kind, "erofs") == 0)
		m->kind = IMAGE_EROFS;
	else if (!bad && strcmp(kind, "ext4") != 0)
		bad = 1;
	bad = bad || image_deltas_from_json(o, m->kind, &m->deltas) < 0;
	if (bad)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL, "a value is missing or unusable");
	return config_from_json(o, &m->config, e);
}

static int parse(const char *text, size_t len, struct image *m, struct error *e)
{
	static const char *const keys[] = {"format", "kind", "source", "digest", "created",
		"content_bytes", "entries", "deltas", "description", "cpus", "memory_mb", "disk_mb",
		"user", "workdir", "network", "env", "start_command", "ready_command",
		"warm_command", "entry_command", "onbuild", NULL};
	json_t *o = config_json_parse(text, len, keys, "image.json", e);
	int r = o ? from_json(o, m, e) : -EINVAL;

	json_decref(o);
	return r;
}

int image_load(const struct home *h, const char *name, struct image *ret, struct error *e)
{
	_cleanup_free_ char *text = NULL, *path = str_printf("%s/image.json", name);
	_cleanup_(image_done) struct image m = {0};
	size_t len;
	int r = -ENOENT;

	if (path && str_is_tagged_name(name))
		r = file_read(h->area_fd[HOME_IMAGES], path, CONFIG_JSON_MAX, &text, &len);
	if (r == -ENOENT)
		return error_set(
			e, ERROR_NOT_FOUND, ENOENT, "no image '%.80s': build it first", name);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read image '%s'", name);
	m.name = strdup(name);
	if (!m.name || config_init(&m.config) < 0)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = parse(text, len, &m, e);
	if (r < 0) {
		error_prefix(e, "image '%s' is damaged (build it again)", name);
		return r;
	}
	*ret = m;
	m = (struct image){0};
	return 0;
}

static json_t *to_json(const struct image *m)
{
	json_t *o = json_object();

	if (!o || config_json_add_u64(o, "format", IMAGE_FORMAT) < 0 ||
		config_json_add_string(o, "kind", kind_names[m->kind]) < 0 ||
		config_json_add_string(o, "source", m->source) < 0 ||
		config_json_add_string(o, "digest", m->digest) < 0 ||
		config_json_add_u64(o, "created", m->created_s) < 0 ||
		config_json_add_u64(o, "content_bytes", m->content_bytes) < 0 ||
		config_json_add_u64(o, "entries", m->entries) < 0 ||
		image_deltas_to_json(m->deltas, o) < 0 || config_to_json(&m->config, o) < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

int image_save(int dirfd, const struct image *m, struct error *e)
{
	json_t *o = to_json(m);
	_cleanup_free_ char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	int r = text ? file_write_atomic(dirfd, "image.json", text, strlen(text), 0644) : -ENOMEM;

	json_decref(o);
	if (r < 0)
		return error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			"cannot write image.json");
	return 0;
}
