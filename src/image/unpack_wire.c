#include "image/unpack_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { ENTRY = 1, END, FAILURE };

/* Stands in place of a piece's length when the rest of the content cannot be read. */
static const uint32_t broken = UINT32_MAX;

struct head {
	uint32_t kind, mode, uid, gid; /* FAILURE: mode is the error's code, uid its errno */
	int64_t mtime;
	uint64_t rdev, size;
	uint32_t path, symlink, hardlink, xattrs; /* bytes of the texts, number of the last */
};

struct xattr_head {
	uint32_t name, value; /* bytes */
};

/* --- writing --- */

static int flush(struct wire_writer *w)
{
	int r = fd_write_full(w->fd, w->data, w->used);

	w->used = 0;
	return r;
}

static int put(struct wire_writer *w, const void *data, size_t n)
{
	const uint8_t *p = data;

	while (n > 0) {
		size_t k = sizeof(w->data) - w->used;
		int r = 0;

		k = k < n ? k : n;
		memcpy(w->data + w->used, p, k);
		w->used += k;
		p += k;
		n -= k;
		if (w->used == sizeof(w->data))
			r = flush(w);
		if (r < 0)
			return r;
	}
	return 0;
}

static int put_xattr(struct wire_writer *w, const struct tree_xattr *x)
{
	struct xattr_head h = {(uint32_t)strlen(x->name), (uint32_t)x->size};
	int r = put(w, &h, sizeof(h));

	if (r == 0)
		r = put(w, x->name, h.name);
	return r == 0 ? put(w, x->value, h.value) : r;
}

static int put_content(struct wire_writer *w, const struct tree_data *d)
{
	uint8_t piece[WIRE_PIECE_MAX / 4];
	uint32_t n;
	ssize_t k;
	int r;

	do {
		k = d->read(d->opaque, piece, sizeof(piece));
		n = k < 0 ? broken : (uint32_t)k;
		r = put(w, &n, sizeof(n));
		if (r == 0 && k > 0)
			r = put(w, piece, (size_t)k);
	} while (r == 0 && k > 0);
	return r;
}

static bool has_content(uint32_t mode, bool linked)
{
	return S_ISREG(mode) && !linked;
}

static int put_entry(
	struct wire_writer *w, const struct tree_entry *t, const struct tree_data *data)
{
	struct head h = {.kind = ENTRY,
		.mode = t->mode,
		.uid = t->uid,
		.gid = t->gid,
		.mtime = t->mtime,
		.rdev = t->rdev,
		.size = t->size,
		.path = (uint32_t)strlen(t->path),
		.symlink = t->symlink ? (uint32_t)strlen(t->symlink) : 0,
		.hardlink = t->hardlink ? (uint32_t)strlen(t->hardlink) : 0,
		.xattrs = (uint32_t)t->xattr_count};
	int r = put(w, &h, sizeof(h));

	if (r == 0)
		r = put(w, t->path, h.path);
	if (r == 0)
		r = put(w, t->symlink, h.symlink);
	if (r == 0)
		r = put(w, t->hardlink, h.hardlink);
	for (size_t i = 0; r == 0 && i < t->xattr_count; i++)
		r = put_xattr(w, &t->xattrs[i]);
	return r == 0 && has_content(t->mode, t->hardlink) ? put_content(w, data) : r;
}

static int writer_add(struct tree_sink *s, const struct tree_entry *t, const struct tree_data *data,
	struct error *e)
{
	struct wire_writer *w = (struct wire_writer *)(void *)s; /* its first member */
	int r = put_entry(w, t, data);

	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "cannot pass on what was read") : 0;
}

void wire_writer_init(struct wire_writer *w, int fd)
{
	static const struct tree_sink_ops ops = {.add = writer_add};

	w->sink.ops = &ops;
	w->fd = fd;
	w->used = 0;
}

int wire_finish(struct wire_writer *w, int r, const struct error *why)
{
	struct head h = {.kind = r < 0 ? FAILURE : END};

	if (r < 0) {
		h.mode = (uint32_t)why->code;
		h.uid = (uint32_t)-r;
		h.path = (uint32_t)strnlen(why->message, WIRE_TEXT_MAX - 1);
	}
	r = put(w, &h, sizeof(h));
	if (r == 0)
		r = put(w, why->message, h.path);
	return r == 0 ? flush(w) : r;
}

/* --- reading --- */

static int bad(struct error *e, const char *what)
{
	return error_set(e, ERROR_BAD_IMAGE, EPROTO,
		"what unpacks the file in its jail was taken over or is damaged: it sent %s", what);
}

static int get(struct wire_reader *r, void *data, size_t n)
{
	uint8_t *p = data;

	while (n > 0) {
		size_t k = r->end - r->at;
		ssize_t got;

		if (k == 0) {
			got = r->read(r->opaque, r->data, sizeof(r->data), r->e);
			if (got <= 0)
				return got < 0 ? (int)got : bad(r->e, "no end");
			r->at = 0;
			r->end = (size_t)got;
			continue;
		}
		k = k < n ? k : n;
		memcpy(p, r->data + r->at, k);
		r->at += k;
		p += k;
		n -= k;
	}
	return 0;
}

/* Takes a text of n bytes into out, which has room for `size`. */
static int get_text(struct wire_reader *r, char *out, size_t n, size_t size)
{
	int v = n < size ? get(r, out, n) : bad(r->e, "a text that is too long");

	if (v < 0)
		return v;
	out[n] = '\0';
	return strlen(out) == n ? 0 : bad(r->e, "a text with a zero");
}

static int get_path(struct wire_reader *r, char out[TREE_PATH_MAX], size_t n)
{
	char clean[TREE_PATH_MAX];
	int v = get_text(r, out, n, TREE_PATH_MAX);

	if (v < 0)
		return v;
	return tree_clean_path(out, clean) && strcmp(out, clean) == 0 ? 0 : bad(r->e, "a bad path");
}

static int get_xattrs(struct wire_reader *r, uint32_t count)
{
	uint8_t *at = r->attributes;
	int v = count <= TREE_XATTRS_MAX ? 0 : bad(r->e, "too many attributes");

	for (uint32_t i = 0; v == 0 && i < count; i++) {
		struct xattr_head h = {0};
		char *name = (char *)at;

		v = get(r, &h, sizeof(h));
		if (v == 0 && (h.name == 0 || h.value > TREE_XATTR_BYTES_MAX))
			v = bad(r->e, "a bad attribute");
		if (v == 0)
			v = get_text(r, name, h.name, TREE_XATTR_NAME_MAX + 1);
		at += TREE_XATTR_NAME_MAX + 1;
		if (v == 0)
			v = get(r, at, h.value);
		r->xattrs[i] = (struct tree_xattr){name, at, h.value};
		at += TREE_XATTR_BYTES_MAX;
	}
	return v;
}

static int check_kind(struct wire_reader *r, const struct head *h)
{
	switch (h->mode & S_IFMT) {
	case S_IFLNK:
		return h->symlink ? 0 : bad(r->e, "a symbolic link to nowhere");
	case S_IFREG:
	case S_IFDIR:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return h->symlink ? bad(r->e, "a target of something else") : 0;
	default:
		return bad(r->e, "an entry of an unknown kind");
	}
}

static int get_entry(struct wire_reader *r, const struct head *h, struct tree_entry *ret)
{
	int v = h->hardlink ? 0 : check_kind(r, h);

	if (v == 0)
		v = get_path(r, r->path, h->path);
	if (v == 0)
		v = get_text(r, r->symlink, h->symlink, TREE_PATH_MAX);
	if (v == 0)
		v = get_path(r, r->hardlink, h->hardlink);
	if (v == 0)
		v = get_xattrs(r, h->xattrs);
	*ret = (struct tree_entry){.path = r->path,
		.mode = h->mode & (S_IFMT | 07777),
		.uid = h->uid,
		.gid = h->gid,
		.mtime = h->mtime,
		.rdev = h->rdev,
		.size = h->size,
		.symlink = h->symlink ? r->symlink : NULL,
		.hardlink = h->hardlink ? r->hardlink : NULL,
		.xattrs = r->xattrs,
		.xattr_count = h->xattrs};
	return v;
}

/* Begins the next piece of content. Returns 1, 0 at the end of the content, or -errno. */
static int next_piece(struct wire_reader *r)
{
	uint32_t n = 0;
	int v = get(r, &n, sizeof(n));

	if (v < 0)
		return v;
	r->in_content = n > 0 && n != broken;
	if (!r->in_content)
		return n == 0 ? 0 : -EBADMSG;
	if (n > r->left)
		return bad(r->e, "more content than it said");
	r->left -= n;
	r->piece = n;
	return 1;
}

static ssize_t read_content(void *opaque, void *buf, size_t n)
{
	struct wire_reader *r = opaque;
	int v;

	if (!r->in_content)
		return 0;
	if (r->piece == 0) {
		v = next_piece(r);
		if (v <= 0)
			return v;
	}
	n = n < r->piece ? n : r->piece;
	v = get(r, buf, n);
	r->piece -= (uint32_t)n;
	return v < 0 ? v : (ssize_t)n;
}

/* A sink need not read all of the content, so this skips the rest. */
static int skip_content(struct wire_reader *r)
{
	uint8_t rest[4096];
	ssize_t n;

	do
		n = read_content(r, rest, sizeof(rest));
	while (n > 0);
	return n == -EBADMSG ? error_set(r->e, ERROR_BAD_IMAGE, EBADMSG,
				       "the source of /%.200s is damaged or cut off", r->path)
			     : (int)n;
}

static int give(struct wire_reader *r, const struct head *h, struct tree_sink *to)
{
	struct tree_data d = {read_content, r};
	struct tree_entry t;
	int v = get_entry(r, h, &t);
	bool content = has_content(t.mode, t.hardlink);

	if (v < 0)
		return v;
	r->in_content = content;
	r->piece = 0;
	r->left = t.size;
	v = to->ops->add(to, &t, content ? &d : NULL, r->e);
	return v < 0 ? v : skip_content(r);
}

/* The codes that a writer may claim. */
static enum error_code code_of(uint32_t claimed)
{
	switch (claimed) {
	case ERROR_LIMIT:
	case ERROR_NO_SPACE:
	case ERROR_HOST:
	case ERROR_INTERNAL:
		return (enum error_code)claimed;
	default:
		return ERROR_BAD_IMAGE;
	}
}

static int fail(struct wire_reader *r, const struct head *h)
{
	char text[WIRE_TEXT_MAX];
	int err = h->uid > 0 && h->uid < 4096 ? (int)h->uid : EIO;
	int v = get_text(r, text, h->path, sizeof(text));

	if (v < 0)
		return v;
	for (char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return error_set(r->e, code_of(h->mode), err, "%s", text);
}

void wire_reader_init(struct wire_reader *r, wire_read_fn read, void *opaque)
{
	r->read = read;
	r->opaque = opaque;
	r->e = NULL;
	r->at = r->end = 0;
	r->in_content = false;
}

int wire_receive(struct wire_reader *r, struct tree_sink *to, struct error *e)
{
	struct head h = {0};
	int v;

	r->e = e;
	do {
		v = get(r, &h, sizeof(h));
		if (v == 0 && h.kind == ENTRY)
			v = give(r, &h, to);
	} while (v == 0 && h.kind == ENTRY);
	if (v == 0 && h.kind == FAILURE)
		return fail(r, &h);
	return v == 0 && h.kind != END ? bad(e, "an unknown word") : v;
}
