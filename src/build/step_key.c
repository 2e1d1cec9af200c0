#include "build/step_key.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "oci/digest.h"

static void add(struct step_key *k, const void *data, size_t n)
{
	if (k->r == 0)
		k->r = oci_hash_add(k->hash, data, n);
}

void step_key_number(struct step_key *k, uint64_t n)
{
	uint64_t le = htole64(n);

	add(k, &le, sizeof(le));
}

static void add_sized(struct step_key *k, const void *data, size_t n)
{
	step_key_number(k, n);
	add(k, data, n);
}

void step_key_text(struct step_key *k, const char *text)
{
	add_sized(k, text, strlen(text));
}

void step_key_begin(struct step_key *k, const char *what)
{
	k->hash = oci_hash_new();
	k->r = k->hash ? 0 : -ENOMEM;
	step_key_text(k, what);
}

void step_key_vars(struct step_key *k, const struct vars *v)
{
	step_key_number(k, v->count);
	for (size_t i = 0; i < v->count; i++)
		step_key_text(k, v->items[i]);
}

static int add_content(
	struct step_key *k, struct files *from, const struct files_entry *f, struct error *e)
{
	_cleanup_free_ uint8_t *chunk = malloc(MACHINE_CHUNK_BYTES);
	uint64_t offset = 0;
	size_t n = 0;
	int r = chunk ? 0 : -ENOMEM;

	do {
		if (r == 0)
			r = from->read(from, f->path, offset, chunk, MACHINE_CHUNK_BYTES, &n, e);
		if (r == 0)
			add_sized(k, chunk, n);
		offset += n;
	} while (r == 0 && n == MACHINE_CHUNK_BYTES);
	return r;
}

static int add_xattrs(
	struct step_key *k, struct files *from, const struct files_entry *f, struct error *e)
{
	struct files_xattrs x;
	int r = from->xattrs ? from->xattrs(from, f->path, &x, e) : 0;

	if (r < 0 || !from->xattrs)
		return r;
	for (uint32_t i = 0; i < x.count; i++)
		step_key_text(k, x.items[i]);
	return 0;
}

int step_key_file(struct step_key *k, struct files *from, const struct files_entry *f,
	const char *path, struct error *e)
{
	int r = 0;

	step_key_text(k, path);
	step_key_number(k, f->mode);
	step_key_number(k, (uint64_t)f->uid << 32 | f->gid);
	step_key_text(k, f->target);
	if (S_ISREG(f->mode) || S_ISDIR(f->mode))
		r = add_xattrs(k, from, f, e);
	return r == 0 && S_ISREG(f->mode) ? add_content(k, from, f, e) : r;
}

int step_key_end(struct step_key *k, char out[STEP_KEY_BYTES], struct error *e)
{
	char digest[OCI_DIGEST_MAX];
	int r = k->r;

	if (r == 0)
		r = oci_hash_end(k->hash, digest);
	oci_hash_free(k->hash);
	k->hash = NULL;
	if (r < 0)
		return error_set_errno(e, ERROR_NO_SPACE, -r, "cannot compute a digest");
	(void)snprintf(out, STEP_KEY_BYTES, "%s", oci_digest_hex(digest)); /* fits */
	return 0;
}
