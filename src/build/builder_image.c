/* The image of the last stage. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "build/builder_internal.h"
#include "build/layers.h"
#include "build/step_key.h"
#include "image/image.h"
#include "image/template.h"
#include "image/verify.h"
#include "oci/settings.h"

enum { PASSWD_MAX = 1 << 20 };

static bool is_number(const char *s)
{
	return *s && s[strspn(s, "0123456789")] == '\0' && strlen(s) <= 9;
}

static int add_user(struct builder *b, char *passwd, size_t n, const char *id, const char *group,
	struct error *e)
{
	n += (size_t)snprintf(passwd + n, 256, "%suid%s:x:%s:%s::/:/sbin/nologin\n",
		n && passwd[n - 1] != '\n' ? "\n" : "", id, id, group);
	return machine_write(b->machine, "/etc/passwd", 0644, false, passwd, n, e);
}

/* A template's user is a name. For a number this finds the name in /etc/passwd, or makes a new
 * user. */
static int name_user(struct builder *b, struct stage_state *s, struct error *e)
{
	_cleanup_free_ char *passwd = calloc(1, PASSWD_MAX + 256);
	char *group = s->user, *id = strsep(&group, ":"), name[CONFIG_USER_MAX + 1];
	size_t n = 0;
	int r;

	if (!is_number(id))
		return 0; /* the group is left out */
	if (!passwd)
		return stage_no_memory(e);
	r = machine_read(b->machine, "/etc/passwd", 0, passwd, PASSWD_MAX, &n, e);
	if (r < 0)
		return r;
	if (!oci_settings_find_user(passwd, strtoull(id, NULL, 10), name)) {
		(void)snprintf(name, sizeof(name), "uid%s", id); /* fits */
		r = add_user(b, passwd, n, id, group && is_number(group) ? group : id, e);
	}
	if (stage_state_set(&s->user, name) < 0)
		return stage_no_memory(e);
	return r;
}

static int add_command(struct buf *line, const struct stage_state *s)
{
	int r = buf_add_str(line, s->entry);

	if (r == 0 && *s->command && !(*s->entry && s->entry_is_shell)) {
		if (*s->entry)
			r = buf_add_u8(line, ' ');
		if (r == 0)
			r = buf_add_str(line, s->command);
	}
	return r == 0 ? buf_add_u8(line, 0) : r;
}

/* What the options say about commands. */
static int set_commands(struct builder *b, struct error *e)
{
	struct image_config *c = &b->config;
	int r = b->o->start ? config_set_text(&c->start_command, b->o->start) : 0;

	if (r == 0 && b->o->ready)
		r = config_set_text(&c->ready_command, b->o->ready);
	return r < 0 ? error_set(e, ERROR_USAGE, -r,
			       "--start or --ready is too long or has control characters")
		     : 0;
}

static int fill_config(struct builder *b, const struct stage_state *s, struct error *e)
{
	struct buf line = BUF_INIT(CONFIG_TEXT_MAX);
	struct image_config *c = &b->config;
	int r = add_command(&line, s);

	if (r == 0)
		r = config_set_text(&c->start_command, (const char *)buf_head(&line));
	buf_done(&line);
	if (r < 0)
		return error_set(e, ERROR_LIMIT, -r,
			"ENTRYPOINT and CMD are too long or have control characters");
	if (set_commands(b, e) < 0)
		return -EINVAL;
	c->disk_mb = s->disk_mb;
	if (config_set_text(&c->network, b->o->network ? b->o->network : s->network) < 0)
		return error_set(
			e, ERROR_USAGE, EINVAL, "--network: the value must be one line of text");
	r = config_set_text(&c->workdir, s->workdir);
	if (r == 0)
		r = config_set_text(&c->user, s->user);
	for (size_t i = 0; i < s->env.count && r == 0; i++) {
		r = config_add_env(c, s->env.items[i]);
		if (r < 0)
			return error_set(e, ERROR_USAGE, -r,
				"ENV %.100s cannot be a template's variable", s->env.items[i]);
	}
	for (size_t i = 0; i < s->triggers.count && r == 0; i++) {
		r = config_add_trigger(c, s->triggers.items[i]);
		if (r < 0)
			return error_set(e, ERROR_USAGE, -r,
				"ONBUILD %.100s has control characters", s->triggers.items[i]);
	}
	return r < 0 ? error_set(e, ERROR_USAGE, -r,
			       "USER or WORKDIR is too long or has control characters")
		     : config_check(c, e);
}

/* Hashes the parts of a file that are no holes, with their offsets. */
static int hash_file(EVP_MD_CTX *md, int fd, uint8_t *block, size_t size)
{
	uint8_t place[8];
	ssize_t n = 1;
	off_t at = 0;
	bool good = true;

	while (good && (at = lseek(fd, at, SEEK_DATA)) >= 0) {
		at = at / (off_t)size * (off_t)size;
		put_le64(place, (uint64_t)at);
		n = pread(fd, block, size, at);
		good = n > 0 && EVP_DigestUpdate(md, place, sizeof(place)) == 1 &&
		       EVP_DigestUpdate(md, block, (size_t)n) == 1;
		at += (off_t)size;
	}
	return good && errno == ENXIO ? 0 : -EIO;
}

/* Hashes the deltas of a directory. */
static int hash_deltas(EVP_MD_CTX *md, int dirfd)
{
	static const size_t size = 1 << 16;
	_cleanup_free_ uint8_t *block = malloc(size);
	unsigned n = layers_count(dirfd);
	char name[IMAGE_DELTA_NAME_BYTES];
	int r = block ? 0 : -ENOMEM;

	for (unsigned i = 0; i < n && r == 0; i++) {
		_cleanup_close_ int fd = -1;

		image_delta_name(i, name);
		fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || EVP_DigestUpdate(md, name, sizeof(name)) != 1)
			return -EIO;
		r = hash_file(md, fd, block, size);
	}
	return r;
}

/* The image's digest: a SHA-256 over its base's key and the content of its deltas. */
static int digest(int dirfd, const char *base_key, char hex[65], struct error *e)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	uint8_t sum[32];
	int r = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
				EVP_DigestUpdate(md, base_key, strlen(base_key)) == 1
			? hash_deltas(md, dirfd)
			: -ENOMEM;

	if (r == 0 && EVP_DigestFinal_ex(md, sum, NULL) != 1)
		r = -EIO;
	EVP_MD_CTX_free(md);
	if (r < 0)
		return error_set(e, ERROR_INTERNAL, -r, "cannot read the image again");
	str_hex(sum, sizeof(sum), hex);
	return 0;
}

/* --- the end: what the last stage becomes, kept as a step --- */

static const char end_file[] = "end.json";

/* What end_file says. */
struct end {
	char *digest, *user; /* owned */
};

static void end_done(struct end *x)
{
	free(x->digest);
	free(x->user);
}

static int read_end(int fd, struct end *ret)
{
	static const char *const keys[] = {"digest", "user", NULL};
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	int r = file_read_foreign(fd, end_file, CONFIG_JSON_MAX, &text, &n);
	json_t *o = r < 0 ? NULL : config_json_parse(text, n, keys, end_file, NULL);

	r = o ? config_json_string(o, "digest", &ret->digest) : -EINVAL;
	if (r == 0)
		r = config_json_string(o, "user", &ret->user);
	json_decref(o);
	if (r < 0) {
		end_done(ret);
		*ret = (struct end){NULL, NULL};
	}
	return r;
}

static int write_end(int fd, const struct end *x, struct error *e)
{
	json_t *o = json_pack("{s:s, s:s}", "digest", x->digest, "user", x->user);
	_cleanup_free_ char *text = o ? json_dumps(o, 0) : NULL;
	int r = text ? file_write_atomic(fd, end_file, text, strlen(text), 0600) : -ENOMEM;

	json_decref(o);
	return r < 0 ? error_set_errno(e, ERROR_NO_SPACE, -r, "cannot keep the image") : 0;
}

static int end_key(const struct stage_state *s, char ret[STEP_KEY_BYTES], struct error *e)
{
	struct step_key k;

	step_key_begin(&k, "end of deltas");
	step_key_text(&k, s->key);
	step_key_text(&k, s->user);
	return step_key_end(&k, ret, e);
}

/* What the end of the guest wrote, and what merging is about to write. */
static int take_budget(struct builder *b, const struct stage_state *s, int disk, struct error *e)
{
	struct disk_budget *d = b->o->budget;
	unsigned before = layers_count(s->image_fd);
	uint64_t coming = layers_settle_bytes(disk, s->base_deltas);
	int r = d ? disk_budget_take(d, builder_wrote(disk, before) + coming, e) : 0;

	return r == 0 && d ? disk_budget_room(d, coming, e) : r;
}

/* Ends the guest; its disk becomes an image. */
static int write_image(struct builder *b, struct stage_state *s, int to_fd, struct error *e)
{
	char name[BUILDER_NAME_BYTES];
	_cleanup_close_ int disk = builder_make_disk(b, s->image_fd, name, e);
	int r = disk < 0 ? disk
			 : progress_report(
				   b->o->progress, "write the disk", PROGRESS_NO_PERCENT, NULL);

	if (r < 0)
		return disk < 0 ? r : error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended");
	r = machine_finish(b->machine, disk, e);
	machine_stop(TAKE_PTR(b->machine));
	if (r == 0)
		r = take_budget(b, s, disk, e);
	return r < 0 ? r : layers_settle(disk, s->base_deltas, to_fd, e);
}

static int make_end(struct builder *b, struct stage_state *s, const char *key, struct end *ret,
	int *ret_fd, struct error *e)
{
	char name[BUILDER_NAME_BYTES];
	struct machine *m;
	int r;

	b->stage.state.image_fd = s->image_fd; /* borrowed: for a stage without steps */
	r = builder_machine(b, &m, e);
	b->stage.state.image_fd = -1;
	if (r == 0)
		r = name_user(b, s, e);
	if (r == 0)
		r = *ret_fd = builder_make_disk(b, -1, name, e);
	if (r >= 0)
		r = write_image(b, s, *ret_fd, e);
	ret->digest = malloc(STEP_KEY_BYTES);
	ret->user = strdup(s->user);
	if (r == 0 && (!ret->digest || !ret->user))
		r = stage_no_memory(e);
	if (r == 0)
		r = digest(*ret_fd, s->base_key, ret->digest, e);
	if (r == 0)
		r = write_end(*ret_fd, ret, e);
	if (r == 0)
		step_cache_put(&b->cache, key, b->w.fd, name, *ret_fd, builder_replaces(b));
	return r;
}

/* The base's files need not be read again for their checksums. */
static void share_notes(const struct builder *b, unsigned deltas)
{
	size_t k = b->o->file->stage_count - 1;
	char name[IMAGE_DELTA_NAME_BYTES];

	for (int base; (base = dockerfile_find_stage(b->o->file, b->bases[k], k)) >= 0;)
		k = (size_t)base;
	if (b->base_fd[k] < 0)
		return;
	verify_share(b->w.fd, b->base_fd[k], image_file_name(IMAGE_EXT4));
	for (unsigned i = 0; i < deltas; i++) {
		image_delta_name(i, name);
		verify_share(b->w.fd, b->base_fd[k], name);
	}
}

/* Makes the image's file, or finds that of an earlier build. */
static int find_end(struct builder *b, struct stage_state *s, struct end *ret, struct error *e)
{
	_cleanup_close_ int fd = -1;
	char key[STEP_KEY_BYTES];
	int r = end_key(s, key, e);

	if (r == 0 && !b->machine && !builder_replaces(b))
		fd = step_cache_find(&b->cache, key);
	if (fd >= 0 && read_end(fd, ret) < 0)
		cleanup_close_p(&fd);
	if (r == 0 && fd < 0)
		r = make_end(b, s, key, ret, &fd, e);
	if (r == 0)
		r = layers_link(fd, b->w.fd, e);
	if (r == 0)
		share_notes(b, s->base_deltas);
	if (r == 0 && stage_state_set(&s->user, ret->user) < 0)
		r = stage_no_memory(e);
	return r;
}

/* --- history.json: [{"step", "bytes"}], from FROM on --- */

/* Texts of others, which need not be UTF-8. */
static json_t *text_json(const char *text)
{
	json_t *json = json_string(text);
	_cleanup_free_ char *copy = json ? NULL : strdup(text);

	for (char *p = copy; p && *p; p++)
		if (*p & 0x80)
			*p = '?';
	return json ? json : json_string(copy ? copy : "");
}

static void add_entry(json_t *list, json_t *text, uint64_t bytes)
{
	(void)json_array_append_new(
		list, json_pack("{s:o, s:I}", "step", text, "bytes", (json_int_t)bytes));
}

/* What a stage is on, and its own steps. */
static void add_stage(const struct builder *b, size_t k, json_t *list)
{
	const struct dockerfile_steps *steps = &b->steps[k];
	int base = dockerfile_find_stage(b->o->file, b->bases[k], k);

	if (base >= 0)
		add_stage(b, (size_t)base, list);
	else
		add_entry(list, json_sprintf("FROM %s", b->bases[k]), b->base_bytes[k]);
	for (size_t i = 0; i < steps->count; i++)
		if (*steps->items[i].text)
			add_entry(list, text_json(steps->items[i].text), b->wrote[k][i]);
}

static int write_history(struct builder *b, struct error *e)
{
	json_t *list = json_array();
	_cleanup_free_ char *text = NULL;
	int r;

	add_stage(b, b->o->file->stage_count - 1, list);
	text = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	r = text ? file_write_atomic(b->w.fd, TEMPLATE_HISTORY_FILE, text, strlen(text), 0600)
		 : -ENOMEM;
	return r < 0 ? error_set_errno(e, ERROR_NO_SPACE, -r, "cannot write the history") : 0;
}

/* --- all of it --- */

static int save(struct builder *b, char *digest_text, struct error *e)
{
	const struct image m = {
		.name = (char *)(uintptr_t)b->o->name, /* borrowed, as all here is */
		.source = (char *)(uintptr_t) "dockerfile",
		.digest = digest_text,
		.kind = IMAGE_EXT4,
		.deltas = layers_count(b->w.fd),
		.created_s = clock_realtime_ns() / NS_PER_S,
		.config = b->config};

	return image_save(b->w.fd, &m, e);
}

/* Removes all but the image. */
static int tidy(struct builder *b, struct error *e)
{
	char name[BUILDER_NAME_BYTES];
	int r = 0;

	for (size_t k = 0; k < b->o->file->stage_count; k++)
		stage_state_done(&b->done[k]);
	for (unsigned i = 0; i < b->dir_count && r == 0; i++) {
		(void)snprintf(name, sizeof(name), "disk-%u", i); /* fits */
		r = file_remove_tree(b->w.fd, name);
	}
	home_close(&b->work);
	b->work = (struct home)HOME_INIT;
	if (r == 0)
		r = file_remove_tree(b->w.fd, "home");
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "cannot remove what the build leaves")
		     : 0;
}

int builder_finish_image(struct builder *b, struct error *e)
{
	struct stage_state *s = &b->done[b->o->file->stage_count - 1];
	struct end end = {NULL, NULL};
	int r = find_end(b, s, &end, e);

	if (r == 0)
		r = fill_config(b, s, e);
	if (r == 0)
		r = tidy(b, e);
	if (r == 0)
		r = write_history(b, e);
	if (r == 0)
		r = save(b, end.digest, e);
	end_done(&end);
	return r < 0 ? r : workdir_commit(&b->w, e);
}
