#include "proto/snapshot.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"

/* Header: magic[8], version le32, section count le32, file bytes le64, CRC-32C of all that follows
 * the header le32, zero le32. Section: type le32, index le32, bytes le64, content padded to 8. */
static const char magic[8] = "MAYFLYST";
enum { HEADER_BYTES = 32, SECTION_BYTES = 16, ALIGN = 8 };

void snapshot_writer_init(struct snapshot_writer *w)
{
	static const uint8_t zero[HEADER_BYTES];

	*w = (struct snapshot_writer){.bytes = BUF_INIT(SNAPSHOT_STATE_MAX)};
	w->err = buf_add(&w->bytes, zero, sizeof(zero));
}

void snapshot_writer_done(struct snapshot_writer *w)
{
	buf_done(&w->bytes);
}

static void close_section(struct snapshot_writer *w)
{
	static const uint8_t zero[ALIGN];
	size_t n;

	if (!w->section_at || w->err)
		return;
	n = buf_len(&w->bytes) - w->section_at - SECTION_BYTES;
	put_le64(w->bytes.data + w->bytes.start + w->section_at + 8, n);
	w->err = buf_add(&w->bytes, zero, (ALIGN - n % ALIGN) % ALIGN);
	w->section_at = 0;
}

struct buf *snapshot_section(struct snapshot_writer *w, enum snapshot_section type, uint32_t index)
{
	uint8_t h[SECTION_BYTES] = {0};

	close_section(w);
	put_le32(h, type);
	put_le32(h + 4, index);
	w->section_at = buf_len(&w->bytes);
	if (!w->err)
		w->err = buf_add(&w->bytes, h, sizeof(h));
	return &w->bytes;
}

static unsigned count_sections(const uint8_t *p, size_t n)
{
	unsigned count = 0;

	for (size_t at = HEADER_BYTES; at < n; count++)
		at += SECTION_BYTES + (get_le64(p + at + 8) + ALIGN - 1) / ALIGN * ALIGN;
	return count;
}

int snapshot_writer_finish(struct snapshot_writer *w)
{
	uint8_t *p;
	size_t n;

	close_section(w);
	if (w->err)
		return w->err;
	p = w->bytes.data + w->bytes.start;
	n = buf_len(&w->bytes);
	memcpy(p, magic, sizeof(magic));
	put_le32(p + 8, SNAPSHOT_VERSION);
	put_le32(p + 12, count_sections(p, n));
	put_le64(p + 16, n);
	put_le32(p + 24, crc32c(0, p + HEADER_BYTES, n - HEADER_BYTES));
	return 0;
}

static int damaged(struct error *e, const char *why)
{
	return error_set(
		e, ERROR_BAD_SNAPSHOT, EINVAL, "the snapshot's state file is damaged (%s)", why);
}

static int check_header(const uint8_t *p, size_t n, struct error *e)
{
	if (n < HEADER_BYTES)
		return damaged(e, "truncated");
	if (memcmp(p, magic, sizeof(magic)) != 0)
		return damaged(e, "not a state file");
	if (get_le32(p + 8) < SNAPSHOT_VERSION_LEAST || get_le32(p + 8) > SNAPSHOT_VERSION)
		return error_set(e, ERROR_INCOMPATIBLE, EINVAL,
			"the snapshot has format version %u, this Mayfly reads versions %d to %d; "
			"rebuild the template",
			get_le32(p + 8), SNAPSHOT_VERSION_LEAST, SNAPSHOT_VERSION);
	if (get_le64(p + 16) != n)
		return damaged(e, n < get_le64(p + 16) ? "truncated" : "longer than it says");
	if (get_le32(p + 24) != crc32c(0, p + HEADER_BYTES, n - HEADER_BYTES) ||
		get_le32(p + 28) != 0)
		return damaged(e, "checksum does not match");
	return 0;
}

int snapshot_reader_open(struct snapshot_reader *r, const void *data, size_t bytes, struct error *e)
{
	struct reader in;
	int err = check_header(data, bytes, e);

	if (err < 0)
		return err;
	*r = (struct snapshot_reader){.data = data, .bytes = bytes};
	in = reader_of(r->data + HEADER_BYTES, bytes - HEADER_BYTES);
	while (reader_left(&in)) {
		uint32_t type = reader_le32(&in), index = reader_le32(&in);
		uint64_t n = reader_le64(&in);
		const uint8_t *p;

		if (in.bad || n > reader_left(&in) || r->count == SNAPSHOT_SECTIONS_MAX)
			return damaged(e, "bad section");
		p = reader_bytes(&in, n);
		(void)reader_bytes(
			&in, (ALIGN - n % ALIGN) % ALIGN); /* skip padding; if it is missing, the
							    * check below fails */
		if (in.bad)
			return damaged(e, "bad section");
		r->sections[r->count].type = type;
		r->sections[r->count].index = index;
		r->sections[r->count].data = p;
		r->sections[r->count++].bytes = n;
	}
	if (r->count != get_le32(r->data + 12))
		return damaged(e, "sections are missing");
	return 0;
}

struct reader snapshot_find(
	const struct snapshot_reader *r, enum snapshot_section type, uint32_t index)
{
	struct reader none = {.bad = true};

	for (unsigned i = 0; i < r->count; i++)
		if (r->sections[i].type == type && r->sections[i].index == index)
			return reader_of(r->sections[i].data, r->sections[i].bytes);
	return none;
}
