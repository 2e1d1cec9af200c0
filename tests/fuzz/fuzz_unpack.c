/* What a process that unpacks files says, from arbitrary bytes: a sink gets only what tree.h
 * allows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/unpack_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p;
	size_t left;
};

static ssize_t read_input(void *opaque, void *data, size_t n, struct error *e)
{
	struct input *in = opaque;

	n = n < in->left ? n : in->left;
	if (!n)
		return 0;
	memcpy(data, in->p, n);
	in->p += n;
	in->left -= n;
	return (ssize_t)n;
}

static void check_path(const char *path)
{
	char clean[TREE_PATH_MAX];

	if (!tree_clean_path(path, clean) || strcmp(path, clean) != 0)
		abort();
}

static int take(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	uint8_t piece[512];
	uint64_t done = 0;
	ssize_t n = 0;

	check_path(t->path);
	if (t->hardlink)
		check_path(t->hardlink);
	if (t->xattr_count > TREE_XATTRS_MAX)
		abort();
	for (size_t i = 0; i < t->xattr_count; i++)
		if (!*t->xattrs[i].name || t->xattrs[i].size > TREE_XATTR_BYTES_MAX)
			abort();
	while (d && (n = d->read(d->opaque, piece, sizeof(piece))) > 0)
		done += (uint64_t)n;
	if (d && done > t->size)
		abort();
	return n < 0 ? (int)n : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tree_sink_ops ops = {.add = take};
	static struct wire_reader reader;
	struct tree_sink sink = {&ops};
	struct input in = {data, size};
	struct error e = {0};

	wire_reader_init(&reader, read_input, &in);
	(void)wire_receive(&reader, &sink, &e);
	return 0;
}
