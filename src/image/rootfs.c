#include "image/rootfs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/str.h"
#include "image/rootfs_internal.h"

enum { REPORT_EVERY_NS = 200000000 };

static const char stage[] = "write the image";

static int add_foreign(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	return rootfs_add((struct rootfs *)(void *)s, t, d, e);
}

struct tree_sink *rootfs_sink(struct rootfs *f)
{
	return &f->entrance;
}

static int lookup_foreign(struct tree_sink *s, const char *path, struct tree_stat *ret)
{
	struct rootfs *f = (struct rootfs *)(void *)s;

	return f->sink->ops->lookup(f->sink, path, ret);
}

static int read_foreign(struct tree_sink *s, const char *path, char **ret, size_t *ret_len)
{
	struct rootfs *f = (struct rootfs *)(void *)s;

	return f->sink->ops->read(f->sink, path, ret, ret_len);
}

int64_t rootfs_epoch(const struct rootfs *f)
{
	return f->epoch;
}

struct rootfs *rootfs_new(struct tree_sink *sink, int64_t epoch, const struct progress *p)
{
	static const struct tree_sink_ops entrance = {add_foreign, lookup_foreign, read_foreign};
	struct rootfs *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->entrance.ops = &entrance;
	f->sink = sink;
	f->epoch = epoch;
	if (p)
		f->progress = *p;
	f->digest = EVP_MD_CTX_new();
	if (!f->digest || !EVP_DigestInit_ex(f->digest, EVP_sha256(), NULL)) {
		rootfs_free(f);
		return NULL;
	}
	return f;
}

void rootfs_free(struct rootfs *f)
{
	if (!f)
		return;
	EVP_MD_CTX_free(f->digest);
	free(f);
}

void rootfs_counts(const struct rootfs *f, uint64_t *entries, uint64_t *bytes)
{
	*entries = f->entries;
	*bytes = f->bytes;
}

static bool feed(struct rootfs *f, const void *data, size_t n)
{
	return EVP_DigestUpdate(f->digest, data, n) == 1;
}

/* Hashes numbers as text, and strings with their NUL, so that no two entries give the same
 * bytes. */
static bool feed_entry(struct rootfs *f, const struct tree_entry *t)
{
	char head[160];
	int n = snprintf(head, sizeof(head),
		"%" PRIo32 " %" PRIu32 " %" PRIu32 " %" PRId64 " %" PRIu64 " %" PRIu64 " %zu",
		t->mode, t->uid, t->gid, t->mtime, (uint64_t)t->rdev, t->size, t->xattr_count);
	const char *strings[] = {
		t->path, t->symlink ? t->symlink : "", t->hardlink ? t->hardlink : ""};
	bool ok = feed(f, head, (size_t)n + 1);

	for (size_t i = 0; ok && i < 3; i++)
		ok = feed(f, strings[i], strlen(strings[i]) + 1);
	for (size_t i = 0; ok && i < t->xattr_count; i++)
		ok = feed(f, t->xattrs[i].name, strlen(t->xattrs[i].name) + 1) &&
		     feed(f, &t->xattrs[i].size, sizeof(t->xattrs[i].size)) &&
		     feed(f, t->xattrs[i].value, t->xattrs[i].size);
	return ok;
}

struct tapped {
	struct rootfs *f;
	const struct tree_data *inner;
};

static ssize_t read_tapped(void *opaque, void *buf, size_t n)
{
	struct tapped *t = opaque;
	ssize_t r = t->inner->read(t->inner->opaque, buf, n);

	if (r > 0) {
		t->f->bytes += (uint64_t)r;
		if (!feed(t->f, buf, (size_t)r))
			return -ENOMEM;
	}
	return r;
}

static int report(struct rootfs *f, struct error *e)
{
	uint64_t now = clock_monotonic_ns();
	char size[16], line[96];
	int r;

	if (now - f->last_report_ns < REPORT_EVERY_NS)
		return 0;
	f->last_report_ns = now;
	(void)snprintf(line, sizeof(line), "%" PRIu64 " files, %s", f->entries,
		str_format_bytes(f->bytes, size));
	r = progress_report(&f->progress, stage, PROGRESS_NO_PERCENT, line);
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended") : 0;
}

int rootfs_add(
	struct rootfs *f, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	struct tapped tap = {f, d};
	struct tree_data tapped = {read_tapped, &tap};
	int r;

	if (++f->entries > ROOTFS_ENTRIES_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG, "the image has more than %d files",
			ROOTFS_ENTRIES_MAX);
	if (!feed_entry(f, t))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = f->sink->ops->add(f->sink, t, d ? &tapped : NULL, e);
	return r < 0 ? r : report(f, e);
}

struct text {
	const char *p;
};

static ssize_t read_text(void *opaque, void *buf, size_t n)
{
	struct text *t = opaque;
	size_t left = strlen(t->p);

	n = n < left ? n : left;
	memcpy(buf, t->p, n);
	t->p += n;
	return (ssize_t)n;
}

int rootfs_put(struct rootfs *f, const char *path, const char *text, struct tree_stat owner,
	int64_t mtime, struct error *e)
{
	struct text t = {text};
	struct tree_data d = {read_text, &t};
	struct tree_entry entry = {.path = path,
		.mode = S_IFREG | (owner.mode & 07777),
		.uid = owner.uid,
		.gid = owner.gid,
		.mtime = mtime,
		.size = strlen(text)};

	return rootfs_add(f, &entry, &d, e);
}

int rootfs_digest(struct rootfs *f, uint8_t out[ROOTFS_DIGEST_BYTES], struct error *e)
{
	if (!EVP_DigestFinal_ex(f->digest, out, NULL))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "cannot compute the digest");
	return 0;
}
