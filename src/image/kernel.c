#include "image/kernel.h"

#include <archive.h>
#include <archive_entry.h>
#include <elf.h>
#include <errno.h>
#include <lz4.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/str.h"

/* Offsets in the setup header. */
enum {
	SETUP_SECTS = 0x1f1,
	SETUP_MAGIC = 0x202, /* "HdrS" */
	SETUP_VERSION = 0x206,
	SETUP_KERNEL_VERSION = 0x20e, /* offset of a string, counted from 0x200 */
	SETUP_PAYLOAD_OFFSET = 0x248,
	SETUP_PAYLOAD_LENGTH = 0x24c,
	SETUP_END = 0x250,
	PROTOCOL_WITH_PAYLOAD = 0x0208,
	LZ4_LEGACY_BLOCK = 8 << 20, /* uncompressed bytes per block, fixed by the format */
	SIZE_SUFFIX = 4,	    /* the kernel's build appends the uncompressed size */
};

struct span {
	const uint8_t *p;
	size_t n;
};

static int bad(struct error *e, const char *what)
{
	return error_set(e, ERROR_BAD_IMAGE, EINVAL,
		"the kernel file %s: give a bzImage (vmlinuz) or an ELF vmlinux for x86-64", what);
}

static bool is_elf(struct span f)
{
	return f.n >= sizeof(Elf64_Ehdr) && memcmp(f.p, ELFMAG, SELFMAG) == 0;
}

static bool is_bzimage(struct span f)
{
	return f.n >= SETUP_END && memcmp(f.p + SETUP_MAGIC, "HdrS", 4) == 0;
}

static int check_elf(struct span f, struct error *e)
{
	Elf64_Ehdr h;

	if (!is_elf(f))
		return bad(e, "does not hold an ELF image");
	memcpy(&h, f.p, sizeof(h));
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
		h.e_machine != EM_X86_64)
		return bad(e, "is not for 64-bit x86");
	return 0;
}

static int find_payload(struct span f, struct span *ret, struct error *e)
{
	uint32_t sects = f.p[SETUP_SECTS] ? f.p[SETUP_SECTS] : 4;
	uint64_t at = (uint64_t)(sects + 1) * 512 + get_le32(f.p + SETUP_PAYLOAD_OFFSET);
	uint64_t n = get_le32(f.p + SETUP_PAYLOAD_LENGTH);

	if (get_le16(f.p + SETUP_VERSION) < PROTOCOL_WITH_PAYLOAD)
		return bad(e, "is older than boot protocol 2.08");
	if (n <= 2 * SIZE_SUFFIX || at > f.n || n > f.n - at)
		return bad(e, "is truncated, or its setup header is damaged");
	*ret = (struct span){f.p + at, (size_t)n};
	return 0;
}

/* Unpacks the blocks of a legacy frame: each is a length and that many bytes, which give at most 8
 * MiB. */
static int unpack_lz4(struct span in, uint8_t *out, size_t size)
{
	size_t at = 4, done = 0;

	while (done < size) {
		uint32_t n;
		int r, room = size - done < LZ4_LEGACY_BLOCK ? (int)(size - done)
							     : LZ4_LEGACY_BLOCK;

		if (in.n - at < 4)
			return -ENODATA;
		n = get_le32(in.p + at);
		at += 4;
		if (n > in.n - at || n > LZ4_COMPRESSBOUND(LZ4_LEGACY_BLOCK))
			return -EINVAL;
		r = LZ4_decompress_safe((const char *)in.p + at, (char *)out + done, (int)n, room);
		if (r <= 0)
			return -EINVAL;
		at += n;
		done += (size_t)r;
	}
	return 0;
}

static void free_archive(struct archive **a)
{
	(void)archive_read_free(*a); /* only memory */
}

/* Unpacks all else that libarchive's filters know. */
static int unpack_filtered(struct span in, uint8_t *out, size_t size)
{
	_cleanup_(free_archive) struct archive *a = archive_read_new();
	struct archive_entry *entry;
	size_t done = 0;

	if (!a)
		return -ENOMEM;
	(void)archive_read_support_filter_gzip(a); /* if a filter is missing, opening the file
						    * fails */
	(void)archive_read_support_filter_bzip2(a);
	(void)archive_read_support_filter_lzma(a);
	(void)archive_read_support_filter_xz(a);
	(void)archive_read_support_filter_zstd(a);
	(void)archive_read_support_format_raw(a);
	if (archive_read_open_memory(a, in.p, in.n) != ARCHIVE_OK ||
		archive_read_next_header(a, &entry) != ARCHIVE_OK)
		return -EINVAL;
	while (done < size) {
		la_ssize_t r = archive_read_data(a, out + done, size - done);

		if (r <= 0)
			return -EINVAL;
		done += (size_t)r;
	}
	return 0;
}

/* Takes the uncompressed size from the last four bytes. The kernel's build appends it; for gzip it
 * is the format's own trailer. */
static int unpack(struct span in, uint8_t **ret_image, size_t *ret_len, struct error *e)
{
	_cleanup_free_ uint8_t *out = NULL;
	size_t size = get_le32(in.p + in.n - SIZE_SUFFIX);
	bool gzip = in.p[0] == 0x1f && in.p[1] == 0x8b;
	struct span body = {in.p, gzip ? in.n : in.n - SIZE_SUFFIX};
	int r;

	if (size < sizeof(Elf64_Ehdr) || size > KERNEL_IMAGE_MAX || size / 1100 > in.n)
		return bad(e, "names an impossible size");
	out = malloc(size);
	if (!out)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "no memory for the kernel image");
	r = get_le32(in.p) == 0x184c2102 ? unpack_lz4(body, out, size)
					 : unpack_filtered(body, out, size);
	if (r < 0)
		return bad(e, "holds a damaged or unknown payload");
	r = check_elf((struct span){out, size}, e);
	if (r < 0)
		return r;
	*ret_image = TAKE_PTR(out);
	*ret_len = size;
	return 0;
}

static int copy_elf(struct span f, uint8_t **ret_image, size_t *ret_len, struct error *e)
{
	int r = check_elf(f, e);

	if (r < 0)
		return r;
	if (f.n > KERNEL_IMAGE_MAX)
		return bad(e, "is too large");
	*ret_image = malloc(f.n);
	if (!*ret_image)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "no memory for the kernel image");
	memcpy(*ret_image, f.p, f.n);
	*ret_len = f.n;
	return 0;
}

int kernel_extract(
	const void *file, size_t len, uint8_t **ret_image, size_t *ret_len, struct error *e)
{
	struct span f = {file, len}, payload;
	int r;

	if (is_elf(f))
		return copy_elf(f, ret_image, ret_len, e);
	if (!is_bzimage(f))
		return bad(e, "is of an unknown kind");
	r = find_payload(f, &payload, e);
	if (r < 0)
		return r;
	if (is_elf(payload))
		return copy_elf(payload, ret_image, ret_len, e);
	return unpack(payload, ret_image, ret_len, e);
}

/* Copies the first word at p, if it can be a directory name. */
static int take_release(const uint8_t *p, size_t n, char out[KERNEL_RELEASE_MAX])
{
	size_t k = 0;

	while (k < n && k < KERNEL_RELEASE_MAX && p[k] > ' ' && p[k] < 127)
		k++;
	if (k == 0 || k == n || k == KERNEL_RELEASE_MAX)
		return -ENOENT;
	for (size_t i = 0; i < k; i++) /* names of our directories are lower case */
		out[i] = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] + 32)
			 : p[i] == '+'		    ? '_'
						    : (char)p[i];
	out[k] = '\0';
	return str_is_name(out) ? 0 : -ENOENT;
}

int kernel_release(const void *file, size_t len, char out[KERNEL_RELEASE_MAX])
{
	static const char banner[] = "Linux version ";
	struct span f = {file, len};
	const uint8_t *p = f.p;
	size_t at;

	if (is_bzimage(f) && get_le16(f.p + SETUP_KERNEL_VERSION) != 0) {
		at = 0x200 + (size_t)get_le16(f.p + SETUP_KERNEL_VERSION);
		return at < f.n ? take_release(f.p + at, f.n - at, out) : -ENOENT;
	}
	/* The first matches may be format strings ("Linux version %s"). */
	while ((p = memmem(p, f.n - (size_t)(p - f.p), banner, sizeof(banner) - 1))) {
		p += sizeof(banner) - 1;
		at = (size_t)(p - f.p);
		if (at < f.n && *p >= '0' && *p <= '9' && take_release(p, f.n - at, out) == 0)
			return 0;
	}
	return -ENOENT;
}
