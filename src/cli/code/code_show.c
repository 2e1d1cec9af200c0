#include "cli/code/code_show.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "proto/base64.h"

enum { FILES_MAX = 100000, PATH_BYTES = 4096 };

static int out_of_memory(struct error *e)
{
	return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

/* --- opening --- */

int code_show_open(const struct code_show_options *o, struct code_show *ret, struct error *e)
{
	size_t max = o->json ? CODE_JSON_MAX : CODE_LINE_MAX;

	*ret = (struct code_show){.o = *o, .colours = isatty(STDERR_FILENO)};
	sink_open(&ret->out, STDOUT_FILENO);
	sink_open(&ret->err, STDERR_FILENO);
	buf_init(&ret->to_out, max);
	buf_init(&ret->to_err, max);
	if (o->directory && access(o->directory, W_OK | X_OK) < 0)
		return error_set_errno(e, ERROR_USAGE, errno, "--output %s", o->directory);
	return 0;
}

void code_show_close(struct code_show *s)
{
	sink_close(&s->out);
	sink_close(&s->err);
	buf_done(&s->to_out);
	buf_done(&s->to_err);
	json_decref(s->document);
	s->document = NULL;
}

void code_show_begin(struct code_show *s, const char *sandbox_id)
{
	s->bytes = 0;
	s->failed = false;
	json_decref(s->document);
	s->document = s->o.json ? json_pack("{s:s, s:[], s:n}", "sandboxID", sandbox_id, "results",
					  "error")
				: NULL;
}

/* --- writing --- */

bool code_show_is_pending(const struct code_show *s)
{
	return !s->document && (buf_len(&s->to_out) || buf_len(&s->to_err) ||
				       sink_is_pending(&s->out) || sink_is_pending(&s->err));
}

static void pour(struct sink *sink, struct buf *from)
{
	if (sink_is_pending(sink))
		sink_flush(sink);
	while (buf_len(from) && !sink_is_pending(sink)) {
		size_t n = buf_len(from) < SINK_MAX ? buf_len(from) : SINK_MAX;

		sink_write(sink, buf_head(from), n);
		buf_consume(from, n);
	}
}

int code_show_flush(struct code_show *s, struct error *e)
{
	int err;

	if (s->document)
		return 0;
	pour(&s->out, &s->to_out);
	pour(&s->err, &s->to_err);
	err = s->out.err ? s->out.err : s->err.err;
	if (err)
		return error_set_errno(e, err == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -err,
			"cannot write the output");
	return s->out.closed || s->err.closed;
}

struct pollfd code_show_poll(const struct code_show *s)
{
	const struct sink *sink = sink_is_pending(&s->out)   ? &s->out
				  : sink_is_pending(&s->err) ? &s->err
							     : NULL;

	return (struct pollfd){.fd = sink ? sink_fd(sink) : -1, .events = POLLOUT};
}

static int add(struct buf *to, const void *data, size_t n, struct error *e)
{
	int r = buf_add(to, data, n);

	if (r == -EMSGSIZE)
		return error_set(
			e, ERROR_LIMIT, -r, "the output is too large for memory: leave --json out");
	return r < 0 ? out_of_memory(e) : 0;
}

static int add_out(struct code_show *s, const char *text, size_t n, struct error *e)
{
	if (n)
		s->open_line = text[n - 1] != '\n';
	return add(&s->to_out, text, n, e);
}

/* A result or message stands on lines of its own. */
static int end_line(struct code_show *s, struct error *e)
{
	return s->open_line ? add_out(s, "\n", 1, e) : 0;
}

/* Without the terminal's colours (ECMA-48 control sequences) where there is no terminal. */
static int add_traceback(struct code_show *s, const char *text, struct error *e)
{
	int r = 0;

	while (*text && r == 0) {
		size_t n = s->colours ? strlen(text) : strcspn(text, "\033");

		r = add(&s->to_err, text, n, e);
		text += n;
		if (*text != '\033')
			continue;
		text++;
		if (*text == '[')
			text += 1 + strcspn(text + 1, "@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
						      "abcdefghijklmnopqrstuvwxyz{|}~");
		text += *text != '\0';
	}
	return r;
}

/* --- images --- */

struct image_kind {
	const char *key, *suffix;
	bool base64;
};

static const struct image_kind kinds[] = {
	{"png", "png", true}, {"jpeg", "jpg", true}, {"pdf", "pdf", true}, {"svg", "svg", false}};

/* A new file of the first free number; existing ones stay. */
static int create_file(
	const struct code_show *s, const char *suffix, char path[PATH_BYTES], struct error *e)
{
	const char *directory = s->o.directory ? s->o.directory : ".";
	int fd = -1;

	for (unsigned i = 1; i <= FILES_MAX; i++) {
		int n = snprintf(path, PATH_BYTES, "%s%s%s-%u.%s", s->o.directory ? directory : "",
			s->o.directory ? "/" : "", s->o.stem, i, suffix);

		if (n >= PATH_BYTES)
			return error_set(e, ERROR_USAGE, ENAMETOOLONG, "--output: too long");
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	return fd < 0 ? error_set_errno(e, ERROR_USAGE, errno, "cannot write %s", path) : fd;
}

static int save_bytes(struct code_show *s, const char *suffix, const void *data, size_t n,
	char path[PATH_BYTES], struct error *e)
{
	int fd = create_file(s, suffix, path, e), r;

	if (fd < 0)
		return fd;
	r = fd_write_full(fd, data, n);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r < 0)
		(void)unlink(path); /* half a file is none */
	return r < 0 ? error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -r,
			       "cannot write %s", path)
		     : 0;
}

static int save_image(
	struct code_show *s, const struct image_kind *kind, const json_t *value, struct error *e)
{
	const char *text = json_string_value(value);
	size_t n = json_string_length(value);
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(base64_decoded_max(n));
	char path[PATH_BYTES], note[PATH_BYTES + 32];
	int r;

	if (kind->base64 && base64_decode_to(&bytes, text, n) < 0)
		return error_set(e, ERROR_SANDBOX, EBADMSG, "an image (%s) is broken", kind->key);
	r = kind->base64 ? save_bytes(s, kind->suffix, buf_head(&bytes), buf_len(&bytes), path, e)
			 : save_bytes(s, kind->suffix, text, n, path, e);
	if (r == 0)
		r = end_line(s, e);
	(void)snprintf(note, sizeof(note), "saved %s\n", path); /* fits */
	return r == 0 ? add(&s->to_err, note, strlen(note), e) : r;
}

/* How many were saved. */
static int save_images(struct code_show *s, const json_t *result, struct error *e)
{
	int saved = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const json_t *value = json_object_get(result, kinds[i].key);
		int r = json_is_string(value) ? save_image(s, &kinds[i], value, e) : 0;

		if (r < 0)
			return r;
		saved += json_is_string(value);
	}
	return saved;
}

/* --- lines --- */

static int show_value(struct code_show *s, const json_t *value, struct error *e)
{
	_cleanup_free_ char *dumped =
		json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
	const char *text = dumped ? dumped : json_string_value(value);
	size_t n = dumped ? strlen(dumped) : json_string_length(value);
	int r = text ? end_line(s, e) : out_of_memory(e);

	if (r == 0)
		r = add_out(s, text, n, e);
	return r == 0 ? end_line(s, e) : r;
}

static int show_result(struct code_show *s, json_t *result, struct error *e)
{
	static const char *const keys[] = {
		"text", "markdown", "latex", "json", "html", "javascript"};
	int r = 0;

	if (!s->document || s->o.directory)
		r = save_images(s, result, e);
	if (r < 0)
		return r;
	if (s->document) {
		(void)json_object_del(result, "type"); /* is there */
		return json_array_append(json_object_get(s->document, "results"), result) < 0
			       ? out_of_memory(e)
			       : 0;
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(keys); i++) {
		const json_t *value = json_object_get(result, keys[i]);

		if (value)
			return show_value(s, value, e);
	}
	return 0;
}

static int show_error(struct code_show *s, json_t *error, struct error *e)
{
	const char *name = json_string_value(json_object_get(error, "name"));
	const char *value = json_string_value(json_object_get(error, "value"));
	const char *traceback = json_string_value(json_object_get(error, "traceback"));
	_cleanup_(buf_done) struct buf text = BUF_INIT(CODE_LINE_MAX);
	int r;

	s->failed = true;
	if (s->document) {
		(void)json_object_del(error, "type"); /* is there */
		return json_object_set(s->document, "error", error) < 0 ? out_of_memory(e) : 0;
	}
	r = end_line(s, e);
	if (r == 0 && traceback && *traceback)
		r = buf_add_str(&text, traceback);
	else if (r == 0)
		r = buf_printf(&text, "%s: %s", name ? name : "error", value ? value : "");
	if (r == 0)
		r = buf_add(&text, "\n", 2); /* with the NUL */
	if (r < 0)
		return e->code == ERROR_NONE ? out_of_memory(e) : r;
	return add_traceback(s, (const char *)buf_head(&text), e);
}

static int show_output(struct code_show *s, const char *type, const json_t *text, struct error *e)
{
	const char *data = json_string_value(text);
	size_t n = json_string_length(text);

	if (!data)
		return 0;
	return strcmp(type, "stdout") == 0 ? add_out(s, data, n, e) : add(&s->to_err, data, n, e);
}

/* Lines of a kind that we do not know say nothing to us. */
static int show(struct code_show *s, const char *type, json_t *o, struct error *e)
{
	if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0)
		return show_output(s, type, json_object_get(o, "text"), e);
	if (strcmp(type, "result") == 0)
		return show_result(s, o, e);
	if (strcmp(type, "error") == 0)
		return show_error(s, o, e);
	if (strcmp(type, "number_of_executions") == 0 && s->document)
		(void)json_object_set(s->document, "executionCount",
			json_object_get(o, "execution_count")); /* optional */
	return strcmp(type, "end_of_execution") == 0;
}

static int check_amount(struct code_show *s, const char *type, size_t n, struct error *e)
{
	if (strcmp(type, "keepalive") != 0)
		s->bytes += n;
	if (!s->o.output_max || s->bytes <= s->o.output_max)
		return 0;
	return error_set(
		e, ERROR_LIMIT, EFBIG, "the cell was ended: its output is more than --max-output");
}

int code_show_take(struct code_show *s, const char *line, size_t n, struct error *e)
{
	json_t *o = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
	const char *type = json_string_value(json_object_get(o, "type"));
	int r = type ? check_amount(s, type, n, e)
		     : error_set(e, ERROR_SANDBOX, EBADMSG, "the interpreter's answer is broken");

	if (r == 0)
		r = show(s, type, o, e);
	json_decref(o);
	return r;
}

/* --- the end --- */

static int put_text(json_t *document, const char *key, struct buf *from)
{
	const char *data = buf_len(from) ? (const char *)buf_head(from) : "";
	int r = json_object_set_new(document, key, json_stringn(data, buf_len(from)));

	buf_clear(from);
	return r;
}

int code_show_end(struct code_show *s, struct error *e)
{
	json_t *document = TAKE_PTR(s->document);
	_cleanup_free_ char *text = NULL;
	int r;

	if (!document)
		return end_line(s, e);
	r = put_text(document, "stdout", &s->to_out) | put_text(document, "stderr", &s->to_err);
	text = r == 0 ? json_dumps(document, JSON_INDENT(2)) : NULL;
	json_decref(document);
	if (!text)
		return out_of_memory(e);
	s->to_out.max = CODE_LINE_MAX; /* escapes make it longer */
	s->open_line = false;
	r = add(&s->to_out, text, strlen(text), e);
	return r == 0 ? add(&s->to_out, "\n", 1, e) : r;
}
