#include "api/template/build_spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/address.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/find.h"
#include "catalog/uploads.h"
#include "fleet/fleet_of.h"
#include "image/config.h"
#include "image/template.h"
#include "proto/image_name.h"
#include "proto/json_tree.h"
#include "store/keys.h"

static int invalid(struct error *e, const char *text)
{
	return error_set(e, ERROR_USAGE, EINVAL, "%s", text);
}

/* Whether a member is a string, or there is none. */
static bool is_text(const json_t *body, const char *key)
{
	const json_t *v = json_object_get(body, key);

	return !v || json_is_null(v) || json_is_string(v);
}

/* --- images --- */

/* Images of clients must not come from loopback addresses, except the operator's registry. Names
 * that resolve to such an address are refused later (oci/destination.h). */
static int check_host(const char *image, const char *operators, struct error *e)
{
	/* no address in brackets, which may stand for another one */
	if ((*image != '[' && !address_host_is_loopback(image)) ||
		image_name_is_of(image, operators))
		return 0;
	return error_set(e, ERROR_USAGE, EACCES,
		"fromImage %.100s: images cannot come from this host's own registries", image);
}

static int take_image(struct request *r, const char *image, char **ret, struct error *e)
{
	const char *registry = fleet_of(r)->options.build_registry;

	if (!image_name_is_plain(image))
		return error_set(e, ERROR_USAGE, EINVAL,
			"fromImage %.100s: must be REGISTRY/NAME:TAG or NAME:TAG", image);
	if (!image_name_has_registry(image) && !registry)
		return error_set(e, ERROR_USAGE, EINVAL,
			"fromImage %.100s: this host has no default registry: name one, as in "
			"registry.example/%.100s, or let the operator set --build-registry",
			image, image);
	*ret = image_name_whole(image, registry);
	return *ret ? check_host(*ret, registry, e)
		    : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

static bool is_login(const char *user, const char *password)
{
	/* '@' would name a file of this host */
	return user && password && *user != '@' && !strchr(user, ':') && !strpbrk(password, "\r\n");
}

/* An access key of AWS, as --registry-auth has it. */
static int take_aws_login(const json_t *given, char **ret, struct error *e)
{
	const char *id = json_tree_word(given, "awsAccessKeyId"),
		   *secret = json_tree_word(given, "awsSecretAccessKey"),
		   *region = json_tree_word(given, "awsRegion");

	if (!is_login(id, secret) || !region || strchr(region, '/'))
		return invalid(e,
			"fromImageRegistry: awsAccessKeyId, awsSecretAccessKey or awsRegion is "
			"missing or malformed");
	*ret = str_printf("aws://%s/%s:%s", region, id, secret);
	return *ret ? 0 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

/* As --registry-auth has it, malloc'ed, or NULL. */
static int take_login(const json_t *body, char **ret, struct error *e)
{
	const json_t *given = json_object_get(body, "fromImageRegistry");
	const char *type = json_tree_word(given, "type"), *user = json_tree_word(given, "username"),
		   *password = json_tree_word(given, "password");

	if (!given || json_is_null(given))
		return 0;
	if (type && strcmp(type, "gcp") == 0) {
		user = "_json_key";
		password = json_tree_word(given, "serviceAccountJson");
	} else if (type && strcmp(type, "aws") == 0) {
		return take_aws_login(given, ret, e);
	} else if (!type || strcmp(type, "registry") != 0) {
		return invalid(e, "fromImageRegistry: type must be registry, gcp or aws");
	}
	if (!is_login(user, password))
		return invalid(e, "fromImageRegistry: user and password are missing or malformed");
	*ret = str_printf("%s:%s", user, password);
	return *ret ? 0 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

/* --- the base --- */

/* Names of E2B's own images stand for our templates of that kind, if this host has them. */
static const char *own_template_of(const char *image)
{
	static const char *const own[][2] = {
		{"e2bdev/base", "base"}, {"e2bdev/code-interpreter", "code-interpreter-v1"}};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (strcspn(image, ":") == strlen(own[i][0]) && str_starts_with(image, own[i][0]))
			return own[i][1];
	return NULL;
}

static json_t *snapshot_base(const struct store_snapshot *sn, const char *name)
{
	return json_pack("{s:s, s:s, s:b, s:I, s:I, s:I}", "snapshot", sn->id, "name", name,
		"memory", sn->memory, "cpus", (json_int_t)sn->cpus, "memoryMB",
		(json_int_t)(sn->memory_bytes >> 20), "diskMB", (json_int_t)(sn->disk_bytes >> 20));
}

/* One of the key's snapshots, or else a template, as for a creation. */
static json_t *template_base(struct request *r, const char *name, struct error *e)
{
	char dir[STORE_NAME_MAX + 1];
	struct found_template t;
	struct template_ref ref;
	struct store_snapshot sn;
	const char *reason;
	_cleanup_close_ int fd = -1;

	if (template_ref_parse(name, &ref, &reason) < 0) {
		(void)error_set(e, ERROR_USAGE, EINVAL, "fromTemplate: %s", reason);
		return NULL;
	}
	if (api_find_snapshot(r, &ref, &sn, e) == 0)
		return snapshot_base(&sn, name);
	if (e->code != ERROR_NOT_FOUND)
		return NULL;
	error_clear(e);
	if (find_template(fleet_of(r), r->key->id, r->admin, &ref, &t, e) < 0 ||
		find_directory(fleet_of(r), &t, &ref, dir, e) < 0 ||
		(fd = template_open(&fleet_of(r)->home, dir, e)) < 0) {
		if (e->code == ERROR_NOT_FOUND) {
			error_clear(e);
			(void)error_set(e, ERROR_NOT_FOUND, ENOENT,
				"base template '%.100s' not found", name);
		}
		error_prefix(e, "fromTemplate");
		return NULL;
	}
	return json_pack("{s:s, s:s}", "template", dir, "name", name);
}

static json_t *image_base(struct request *r, const json_t *body, const char *image, struct error *e)
{
	_cleanup_free_ char *name = NULL, *login = NULL;
	json_t *base = NULL;

	if (take_image(r, image, &name, e) == 0 && take_login(body, &login, e) == 0)
		base = json_pack("{s:s, s:s*, s:b}", "image", name, "auth", login, "own",
			image_name_is_of(name, fleet_of(r)->options.build_registry));
	if (login)
		explicit_bzero(login, strlen(login));
	return base;
}

static json_t *make_base(struct request *r, const json_t *body, bool *ret_unusable, struct error *e)
{
	const char *image = json_tree_word(body, "fromImage"),
		   *name = json_tree_word(body, "fromTemplate"),
		   *own = image ? own_template_of(image) : NULL;
	json_t *base;

	if (!is_text(body, "fromImage") || !is_text(body, "fromTemplate") || !image == !name) {
		(void)invalid(e, "give either fromImage or fromTemplate"); /* NULL counts */
		return NULL;
	}
	if (name || own)
		base = template_base(r, name ? name : own, e);
	else
		base = image_base(r, body, image, e);
	*ret_unusable = !base && (e->code == ERROR_USAGE || e->code == ERROR_NOT_FOUND);
	return base;
}

/* --- steps --- */

struct kind {
	const char *type, *as; /* what it is for us */
	size_t least, most;
	bool files;
};

static const struct kind *kind_of(const char *type)
{
	static const struct kind kinds[] = {
		{"RUN", "RUN", 1, 2, false},
		{"COPY", "COPY", 2, 4, true},
		{"ADD", "COPY", 2, 4, true},
		{"ENV", "ENV", 2, BUILD_ARGS_MAX, false},
		{"ARG", "ENV", 1, BUILD_ARGS_MAX, false},
		{"WORKDIR", "WORKDIR", 1, 1, false},
		{"USER", "USER", 1, 2, false},
	};

	for (size_t i = 0; type && i < ARRAY_SIZE(kinds); i++)
		if (strcmp(type, kinds[i].type) == 0)
			return &kinds[i];
	return NULL;
}

static int check_args(const struct kind *k, const json_t *args, size_t number, struct error *e)
{
	size_t n = json_array_size(args), i;
	const json_t *arg;

	if (!json_is_array(args) || n < k->least || n > k->most)
		return error_set(e, ERROR_USAGE, EINVAL, "step %zu: %s takes %zu to %zu arguments",
			number, k->type, k->least, k->most);
	json_array_foreach(args, i, arg)
	{
		if (!json_is_string(arg) || json_string_length(arg) > BUILD_ARG_BYTES_MAX)
			return error_set(e, ERROR_USAGE, EINVAL,
				"step %zu: argument %zu of %s must be a string of at most %d bytes",
				number, i + 1, k->type, BUILD_ARG_BYTES_MAX);
	}
	return 0;
}

/* Checks what the template's configuration accepts. Otherwise the build would fail only after all
 * its steps. */
static int check_variable(struct image_config *c, const char *name, const char *value)
{
	_cleanup_free_ char *entry = strchr(name, '=') ? NULL : str_printf("%s=%s", name, value);

	return entry ? config_add_env(c, entry) : -EINVAL;
}

/* Pairs, of which the last one may lack its value. */
static int check_env(const struct kind *k, const json_t *args, size_t number, struct error *e)
{
	struct image_config c = {.env_count = 0};
	bool env = strcmp(k->as, "ENV") == 0;
	int r = env ? config_init(&c) : 0;

	for (size_t i = 0; env && i < json_array_size(args) && r == 0; i += 2) {
		const char *name = json_string_value(json_array_get(args, i)),
			   *value = json_string_value(json_array_get(args, i + 1));

		r = check_variable(&c, name, value ? value : "");
		if (r < 0)
			(void)error_set(e, ERROR_USAGE, -r,
				"step %zu: %s %.100s: a name is letters, digits and _; with its "
				"value it has at most %d bytes, no control characters",
				number, k->type, name, CONFIG_TEXT_MAX);
	}
	config_done(&c);
	return r;
}

/* The path of the file that was uploaded for a step. */
static json_t *files_of(struct request *r, const json_t *step, const struct store_build *b,
	size_t number, struct error *e)
{
	struct fleet *f = fleet_of(r);
	const char *hash = json_tree_word(step, "filesHash");
	char name[UPLOAD_NAME_BYTES];

	if (!hash || !upload_is_hash(hash)) {
		(void)error_set(e, ERROR_USAGE, EINVAL,
			"step %zu: filesHash must be 64 digits of 0-9 a-f", number);
		return NULL;
	}
	if (!uploads_have(catalog_uploads(f), b->key_id, hash)) {
		(void)error_set(e, ERROR_USAGE, ENOENT,
			"step %zu: its files were not uploaded: PUT them to the url of GET "
			"/templates/%s/files/%s",
			number, b->template_id, hash);
		return NULL;
	}
	upload_name(b->key_id, hash, name);
	return json_sprintf("%s/uploads/%s", f->home.path, name);
}

static json_t *make_step(struct request *r, const json_t *step, const struct store_build *b,
	size_t number, struct error *e)
{
	const struct kind *k = kind_of(json_tree_word(step, "type"));
	json_t *args = json_object_get(step, "args"), *files = NULL;

	if (!k) {
		(void)error_set(e, ERROR_USAGE, EINVAL,
			"step %zu: type must be RUN, COPY, ENV, WORKDIR or USER", number);
		return NULL;
	}
	if (check_args(k, args, number, e) < 0 || check_env(k, args, number, e) < 0)
		return NULL;
	if (k->files) {
		files = files_of(r, step, b, number, e);
		if (!files)
			return NULL;
	}
	return json_pack("{s:s, s:O, s:b, s:o*}", "type", k->as, "args", args, "force",
		json_is_true(json_object_get(step, "force")), "files", files);
}

static json_t *make_steps(
	struct request *r, const json_t *body, const struct store_build *b, struct error *e)
{
	const json_t *given = json_object_get(body, "steps"), *step;
	json_t *steps = json_array();
	size_t i;

	if ((given && !json_is_null(given) && !json_is_array(given)) ||
		json_array_size(given) > BUILD_STEPS_MAX)
		(void)error_set(e, ERROR_USAGE, EINVAL, "steps must be at most %d objects",
			BUILD_STEPS_MAX);
	json_array_foreach(given, i, step)
	{
		if (e->code != ERROR_NONE)
			break;
		if (json_array_append_new(steps, make_step(r, step, b, i + 1, e)) < 0)
			(void)error_set(e, ERROR_NO_SPACE, ENOMEM,
				"out of memory"); /* unless already set */
	}
	if (e->code == ERROR_NONE)
		return steps;
	json_decref(steps);
	return NULL;
}

/* --- all of it --- */

static int check_commands(const json_t *body, struct error *e)
{
	static const char *const names[] = {"startCmd", "readyCmd"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const json_t *v = json_object_get(body, names[i]);

		if (!is_text(body, names[i]) || json_string_length(v) > BUILD_COMMAND_BYTES_MAX)
			return error_set(e, ERROR_USAGE, EINVAL,
				"%s must be a string of at most %d bytes", names[i],
				BUILD_COMMAND_BYTES_MAX);
	}
	return 0;
}

json_t *build_spec_make(struct request *r, const json_t *body, const struct store_build *b,
	bool *ret_unusable, struct error *e)
{
	json_t *base = NULL, *steps = NULL, *spec;

	*ret_unusable = false;
	if (check_commands(body, e) == 0)
		base = make_base(r, body, ret_unusable, e);
	if (base)
		steps = make_steps(r, body, b, e);
	if (!steps) {
		json_decref(base);
		return NULL;
	}
	spec = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:s*, s:s*}", "build",
		b->id, "template", b->template_id, "cpus", (json_int_t)b->cpus, "memoryMB",
		(json_int_t)b->memory_mb, "freeMB", (json_int_t)b->free_mb, "reserveBytes",
		(json_int_t)fleet_of(r)->options.kept.reserve_bytes, "force",
		json_is_true(json_object_get(body, "force")), "base", base, "steps", steps, "start",
		json_tree_word(body, "startCmd"), "ready", json_tree_word(body, "readyCmd"));
	if (!spec)
		(void)error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	return spec;
}
