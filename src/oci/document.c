#include "oci/document.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

static const struct {
	const char *type;
	enum oci_media media;
} media[] = {
	{"application/vnd.oci.image.index.v1+json", OCI_MEDIA_INDEX},
	{"application/vnd.docker.distribution.manifest.list.v2+json", OCI_MEDIA_INDEX},
	{"application/vnd.oci.image.manifest.v1+json", OCI_MEDIA_MANIFEST},
	{"application/vnd.docker.distribution.manifest.v2+json", OCI_MEDIA_MANIFEST},
	{"application/vnd.oci.image.layer.v1.tar", OCI_MEDIA_LAYER},
	{"application/vnd.oci.image.layer.v1.tar+gzip", OCI_MEDIA_LAYER},
	{"application/vnd.oci.image.layer.v1.tar+zstd", OCI_MEDIA_LAYER},
	{"application/vnd.docker.image.rootfs.diff.tar", OCI_MEDIA_LAYER},
	{"application/vnd.docker.image.rootfs.diff.tar.gzip", OCI_MEDIA_LAYER},
	{"application/vnd.docker.image.rootfs.diff.tar.zstd", OCI_MEDIA_LAYER},
	{"application/vnd.oci.image.layer.nondistributable.v1.tar", OCI_MEDIA_FOREIGN},
	{"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", OCI_MEDIA_FOREIGN},
	{"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", OCI_MEDIA_FOREIGN},
	{"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", OCI_MEDIA_FOREIGN},
	{"application/vnd.docker.distribution.manifest.v1+json", OCI_MEDIA_OLD},
	{"application/vnd.docker.distribution.manifest.v1+prettyjws", OCI_MEDIA_OLD},
};

static enum oci_media media_of(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(media); i++)
		if (strcmp(media[i].type, type) == 0)
			return media[i].media;
	return OCI_MEDIA_OTHER;
}

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

static int bad(struct error *e, const char *what, const char *field)
{
	return error_set(
		e, ERROR_BAD_IMAGE, EINVAL, "the image's %s has an unusable \"%s\"", what, field);
}

/* --- fields --- */

/* Copies a printable string into a field of `size` bytes. Missing and null are "". */
static bool take_text(const json_t *o, const char *key, char *out, size_t size)
{
	const json_t *v = json_object_get(o, key);
	const char *s = json_string_value(v);

	out[0] = '\0';
	if (!v || json_is_null(v))
		return true;
	if (!s || strlen(s) >= size)
		return false;
	for (const char *p = s; *p; p++)
		if (*p < ' ' || *p > '~')
			return false;
	(void)snprintf(out, size, "%s", s); /* fits */
	return true;
}

/* The same for text of any characters, which the caller owns. */
static int copy_text(const json_t *v, char **ret)
{
	const char *s = v && !json_is_null(v) ? json_string_value(v) : "";

	if (!s || strlen(s) > OCI_TEXT_MAX)
		return -EINVAL;
	*ret = strdup(s);
	return *ret ? 0 : -ENOMEM;
}

/* A list of strings; missing and null are empty. */
static int take_strings(const json_t *v, struct oci_strings *ret)
{
	size_t n = json_array_size(v);
	int r = 0;

	if (!v || json_is_null(v))
		return 0;
	if (!json_is_array(v) || n > OCI_STRINGS_MAX)
		return -EINVAL;
	ret->items = calloc(n + 1, sizeof(*ret->items));
	if (!ret->items)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++) {
		const json_t *item = json_array_get(v, i);

		r = json_is_string(item) ? copy_text(item, &ret->items[i]) : -EINVAL;
		ret->count += r == 0;
	}
	return r;
}

static bool take_size(const json_t *o, uint64_t *ret)
{
	const json_t *v = json_object_get(o, "size");

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return false;
	*ret = (uint64_t)json_integer_value(v);
	return true;
}

static int take_descriptor(
	const json_t *o, const char *what, struct oci_descriptor *d, struct error *e)
{
	static const char name[] = "org.opencontainers.image.ref.name";
	const json_t *platform = json_object_get(o, "platform");
	const json_t *notes = json_object_get(o, "annotations");

	if (!json_is_object(o))
		return bad(e, what, "descriptor");
	if (!take_text(o, "mediaType", d->media_type, sizeof(d->media_type)))
		return bad(e, what, "mediaType");
	if (!take_text(o, "digest", d->digest, sizeof(d->digest)) || !oci_digest_valid(d->digest))
		return bad(e, what, "digest");
	if (!take_size(o, &d->size))
		return bad(e, what, "size");
	if (!take_text(platform, "os", d->os, sizeof(d->os)) ||
		!take_text(platform, "architecture", d->architecture, sizeof(d->architecture)))
		return bad(e, what, "platform");
	if (!take_text(notes, name, d->name, sizeof(d->name)))
		return bad(e, what, name);
	d->media = media_of(d->media_type);
	return 0;
}

/* A list of descriptors, at least `min` of them. */
static int take_descriptors(const json_t *list, const char *what, size_t max,
	struct oci_descriptor **ret, size_t *ret_count, struct error *e)
{
	size_t n = json_array_size(list);
	int r = 0;

	if (!json_is_array(list))
		return bad(e, what, "list");
	if (n > max)
		return error_set(e, ERROR_LIMIT, E2BIG,
			"the image's %s has %zu entries: at most %zu are possible", what, n, max);
	*ret = calloc(n + 1, sizeof(**ret));
	if (!*ret)
		return no_memory(e);
	*ret_count = n;
	for (size_t i = 0; i < n && r == 0; i++)
		r = take_descriptor(json_array_get(list, i), what, &(*ret)[i], e);
	return r;
}

/* --- documents --- */

enum oci_media oci_document_kind(const json_t *o)
{
	char type[OCI_MEDIA_TYPE_MAX];

	if (!take_text(o, "mediaType", type, sizeof(type)))
		return OCI_MEDIA_OTHER;
	if (*type)
		return media_of(type);
	if (json_object_get(o, "fsLayers"))
		return OCI_MEDIA_OLD;
	if (json_object_get(o, "manifests"))
		return OCI_MEDIA_INDEX;
	return json_object_get(o, "layers") ? OCI_MEDIA_MANIFEST : OCI_MEDIA_OTHER;
}

int oci_index_take(const json_t *o, struct oci_index *ret, struct error *e)
{
	_cleanup_(oci_index_done) struct oci_index x = {0};
	int r = take_descriptors(
		json_object_get(o, "manifests"), "index", OCI_MANIFESTS_MAX, &x.items, &x.count, e);

	if (r < 0)
		return r;
	*ret = x;
	x = (struct oci_index){0};
	return 0;
}

static int check_layers(const struct oci_manifest *m, struct error *e)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->layer_count; i++) {
		const struct oci_descriptor *d = &m->layers[i];

		if (d->media == OCI_MEDIA_FOREIGN)
			return error_set(e, ERROR_BAD_IMAGE, ENOTSUP,
				"layer %zu of the image is not distributed with it (%s): build an "
				"image that has all of its layers",
				i + 1, d->media_type);
		if (d->media != OCI_MEDIA_LAYER)
			return error_set(e, ERROR_BAD_IMAGE, ENOTSUP,
				"layer %zu is no part of a file system (%s): this is something "
				"else than the image of a container",
				i + 1, *d->media_type ? d->media_type : "no type");
		if (d->size > OCI_LAYER_BYTES_MAX || (sum += d->size) > 2 * OCI_LAYER_BYTES_MAX)
			return error_set(e, ERROR_LIMIT, EFBIG,
				"layer %zu is too large: at most %llu GiB each and twice that in "
				"all",
				i + 1, (unsigned long long)OCI_LAYER_BYTES_MAX >> 30);
	}
	return 0;
}

int oci_manifest_take(const json_t *o, struct oci_manifest *ret, struct error *e)
{
	static const char what[] = "manifest";
	_cleanup_(oci_manifest_done) struct oci_manifest m = {.layers = NULL};
	int r = take_descriptor(json_object_get(o, "config"), what, &m.config, e);
	if (r == 0 && m.config.size > OCI_DOCUMENT_MAX)
		r = bad(e, what, "config");
	if (r == 0)
		r = take_descriptors(json_object_get(o, "layers"), "list of layers", OCI_LAYERS_MAX,
			&m.layers, &m.layer_count, e);
	if (r == 0)
		r = check_layers(&m, e);
	if (r < 0)
		return r;
	*ret = m;
	m = (struct oci_manifest){.layers = NULL};
	return 0;
}

static int check_platform(const json_t *o, struct error *e)
{
	char os[OCI_PLATFORM_MAX], architecture[OCI_PLATFORM_MAX];

	if (!take_text(o, "os", os, sizeof(os)) ||
		!take_text(o, "architecture", architecture, sizeof(architecture)))
		return bad(e, "configuration", "os");
	if (strcmp(os, "linux") == 0 && strcmp(architecture, "amd64") == 0)
		return 0;
	return error_set(e, ERROR_BAD_IMAGE, ENOTSUP,
		"the image is for %s/%s, guests are linux/amd64: take the image of that platform",
		*os ? os : "?", *architecture ? architecture : "?");
}

/* Lines of text, as the settings of a template take them. */
static bool are_triggers(const struct oci_strings *s)
{
	for (size_t i = 0; i < s->count; i++)
		for (const char *p = s->items[i]; *p; p++)
			if (iscntrl((unsigned char)*p) && *p != '\n' && *p != '\t')
				return false;
	return s->count <= OCI_TRIGGERS_MAX;
}

static int take_config(const json_t *o, struct oci_config *c, const char **ret_field)
{
	const json_t *run = json_object_get(o, "config");
	const struct {
		const char *key;
		struct oci_strings *to;
	} lists[] = {{"Env", &c->env}, {"Entrypoint", &c->entrypoint}, {"Cmd", &c->command},
		{"OnBuild", &c->triggers}};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lists) && r == 0; i++) {
		*ret_field = lists[i].key;
		r = take_strings(json_object_get(run, lists[i].key), lists[i].to);
	}
	if (r == 0 && !are_triggers(&c->triggers))
		r = -EINVAL;
	if (r < 0)
		return r;
	*ret_field = "User";
	r = copy_text(json_object_get(run, "User"), &c->user);
	if (r < 0)
		return r;
	*ret_field = "WorkingDir";
	r = copy_text(json_object_get(run, "WorkingDir"), &c->workdir);
	if (r < 0)
		return r;
	*ret_field = "rootfs.diff_ids";
	return take_strings(
		json_object_get(json_object_get(o, "rootfs"), "diff_ids"), &c->diff_ids);
}

static int check_diff_ids(const struct oci_config *c, size_t layers, struct error *e)
{
	if (c->diff_ids.count != layers)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"the image has %zu layers, but its configuration speaks of %zu", layers,
			c->diff_ids.count);
	for (size_t i = 0; i < layers; i++)
		if (!oci_digest_valid(c->diff_ids.items[i]))
			return bad(e, "configuration", "rootfs.diff_ids");
	return 0;
}

int oci_config_take(const json_t *o, size_t layers, struct oci_config *ret, struct error *e)
{
	_cleanup_(oci_config_done) struct oci_config c = {.user = NULL};
	const char *field = "";
	int r = check_platform(o, e);

	if (r < 0)
		return r;
	r = take_config(o, &c, &field);
	if (r < 0)
		return r == -ENOMEM ? no_memory(e) : bad(e, "configuration", field);
	r = check_diff_ids(&c, layers, e);
	if (r < 0)
		return r;
	*ret = c;
	c = (struct oci_config){.user = NULL};
	return 0;
}

/* --- docker-archive --- */

static int take_saved(const json_t *o, struct oci_saved *s)
{
	int r = json_is_object(o) ? copy_text(json_object_get(o, "Config"), &s->config) : -EINVAL;

	if (r == 0 && !*s->config)
		r = -EINVAL;
	if (r == 0)
		r = take_strings(json_object_get(o, "Layers"), &s->layers);
	if (r == 0)
		r = take_strings(json_object_get(o, "RepoTags"), &s->tags);
	return r;
}

static int take_saved_list(const json_t *list, struct oci_saved_list *l, struct error *e)
{
	size_t n = json_array_size(list);
	int r = n > 0 && n <= OCI_MANIFESTS_MAX ? 0 : -EINVAL;

	if (r == 0)
		l->items = calloc(n, sizeof(*l->items));
	if (r == 0 && !l->items)
		return no_memory(e);
	for (size_t i = 0; i < n && r == 0; i++) {
		l->count++;
		r = take_saved(json_array_get(list, i), &l->items[i]);
		if (r == 0 && l->items[i].layers.count > OCI_LAYERS_MAX)
			return error_set(e, ERROR_LIMIT, E2BIG,
				"the image has %zu layers: at most %d are possible",
				l->items[i].layers.count, OCI_LAYERS_MAX);
	}
	if (r < 0)
		return r == -ENOMEM ? no_memory(e)
				    : error_set(e, ERROR_BAD_IMAGE, EINVAL,
					      "manifest.json is unusable: it is not one of `docker "
					      "save`");
	return 0;
}

int oci_saved_take(const json_t *list, struct oci_saved_list *ret, struct error *e)
{
	_cleanup_(oci_saved_list_done) struct oci_saved_list l = {0};
	int r = take_saved_list(list, &l, e);

	if (r < 0)
		return r;
	*ret = l;
	l = (struct oci_saved_list){0};
	return 0;
}

/* --- the ends --- */

static void strings_done(struct oci_strings *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->items[i]);
	free(s->items);
	*s = (struct oci_strings){0};
}

void oci_index_done(struct oci_index *x)
{
	free(x->items);
	*x = (struct oci_index){0};
}

void oci_manifest_done(struct oci_manifest *m)
{
	free(m->layers);
	m->layers = NULL;
	m->layer_count = 0;
}

void oci_config_done(struct oci_config *c)
{
	strings_done(&c->env);
	strings_done(&c->entrypoint);
	strings_done(&c->command);
	strings_done(&c->diff_ids);
	strings_done(&c->triggers);
	free(c->user);
	free(c->workdir);
	c->user = c->workdir = NULL;
}

void oci_saved_list_done(struct oci_saved_list *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->items[i].config);
		strings_done(&l->items[i].layers);
		strings_done(&l->items[i].tags);
	}
	free(l->items);
	*l = (struct oci_saved_list){0};
}
