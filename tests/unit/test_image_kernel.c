/* Kernel image files, modules and initramfs archives, hostile ones among them. */
#include "test.h"

#include <archive.h>
#include <archive_entry.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "image/initramfs.h"
#include "image/module_info.h"
#include "image/modules.h"
#include "image/kernel.h"

enum { PAYLOAD_AT = 1024, ELF_BYTES = 200000 };

/* A bzImage with one setup sector and this payload. */
static uint8_t *make_bzimage(const void *payload, size_t n, size_t *ret_len)
{
	uint8_t *f = calloc(1, PAYLOAD_AT + n + 64);

	assert_non_null(f);
	f[0x1f1] = 1;
	memcpy(f + 0x202, "HdrS", 4);
	put_le16(f + 0x206, 0x020f);
	put_le16(f + 0x20e, 0x100);
	memcpy(f + 0x300, "6.1.0-99-cloud-amd64 (me@here) #1", 34);
	put_le32(f + 0x248, 0);
	put_le32(f + 0x24c, (uint32_t)n);
	memcpy(f + PAYLOAD_AT, payload, n);
	*ret_len = PAYLOAD_AT + n;
	return f;
}

static uint8_t *make_elf(void)
{
	uint8_t *p = calloc(1, ELF_BYTES);
	Elf64_Ehdr h = {.e_machine = EM_X86_64};

	assert_non_null(p);
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(p, &h, sizeof(h));
	for (size_t i = sizeof(h); i < ELF_BYTES; i++)
		p[i] = (uint8_t)(i * i >> 7);
	return p;
}

static uint8_t *lz4_payload(const uint8_t *elf, size_t *ret_len)
{
	int max = LZ4_compressBound(ELF_BYTES), n;
	uint8_t *p = malloc((size_t)max + 12);

	assert_non_null(p);
	put_le32(p, 0x184c2102);
	n = LZ4_compress_default((const char *)elf, (char *)p + 8, ELF_BYTES, max);
	assert_true(n > 0);
	put_le32(p + 4, (uint32_t)n);
	put_le32(p + 8 + n, ELF_BYTES);
	*ret_len = (size_t)n + 12;
	return p;
}

static uint8_t *filtered_payload(const uint8_t *elf, int filter, size_t *ret_len)
{
	struct archive *a = archive_write_new();
	struct archive_entry *entry = archive_entry_new();
	size_t used = 0, room = ELF_BYTES * 2;
	uint8_t *p = malloc(room);

	assert_non_null(p);
	assert_int_equal(archive_write_add_filter(a, filter), ARCHIVE_OK);
	assert_int_equal(archive_write_set_format_raw(a), ARCHIVE_OK);
	assert_int_equal(archive_write_set_bytes_in_last_block(a, 1), ARCHIVE_OK);
	assert_int_equal(archive_write_open_memory(a, p, room - 4, &used), ARCHIVE_OK);
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_pathname(entry, "x");
	assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
	assert_int_equal(archive_write_data(a, elf, ELF_BYTES), ELF_BYTES);
	assert_int_equal(archive_write_close(a), ARCHIVE_OK);
	archive_write_free(a);
	archive_entry_free(entry);
	if (filter != ARCHIVE_FILTER_GZIP) {
		put_le32(p + used, ELF_BYTES);
		used += 4;
	}
	*ret_len = used;
	return p;
}

static int extract(const void *f, size_t n, enum error_code *code)
{
	struct error e = {0};
	uint8_t *image = NULL;
	size_t len = 0;
	int r = kernel_extract(f, n, &image, &len, &e);

	if (r == 0)
		free(image);
	if (code)
		*code = e.code;
	return r;
}

static void check_extracts(const uint8_t *f, size_t n, const uint8_t *elf)
{
	struct error e = {0};
	uint8_t *image;
	size_t len;

	assert_int_equal(kernel_extract(f, n, &image, &len, &e), 0);
	assert_int_equal(len, ELF_BYTES);
	assert_memory_equal(image, elf, ELF_BYTES);
	free(image);
}

static void test_formats(void **state)
{
	static const int filters[] = {
		ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_XZ, ARCHIVE_FILTER_ZSTD, ARCHIVE_FILTER_BZIP2};
	uint8_t *elf = make_elf(), *payload, *f;
	size_t n, len;

	check_extracts(elf, ELF_BYTES, elf);
	payload = lz4_payload(elf, &n);
	f = make_bzimage(payload, n, &len);
	check_extracts(f, len, elf);
	free(payload);
	free(f);
	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
		payload = filtered_payload(elf, filters[i], &n);
		f = make_bzimage(payload, n, &len);
		check_extracts(f, len, elf);
		free(payload);
		free(f);
	}
	f = make_bzimage(elf, ELF_BYTES, &len);
	check_extracts(f, len, elf);
	free(f);
	free(elf);
}

static void test_truncated(void **state)
{
	uint8_t *elf = make_elf(), *f, *payload;
	enum error_code code;
	size_t n, len;

	payload = lz4_payload(elf, &n);
	f = make_bzimage(payload, n, &len);
	for (size_t k = 0; k < len; k += k < 1200 ? 1 : 997) {
		uint8_t *cut = malloc(k ? k : 1); /* exact size, for the sanitizer */

		assert_non_null(cut);
		memcpy(cut, f, k);
		assert_true(extract(cut, k, &code) < 0);
		assert_int_equal(code, ERROR_BAD_IMAGE);
		free(cut);
	}
	free(f);
	free(payload);
	free(elf);
}

static void test_lies(void **state)
{
	uint8_t *elf = make_elf(), *f, *payload;
	size_t n, len;

	payload = lz4_payload(elf, &n);
	f = make_bzimage(payload, n, &len);
	put_le32(f + 0x24c, (uint32_t)n + 1); /* one byte past the end */
	assert_true(extract(f, len, NULL) < 0);
	put_le32(f + 0x24c, UINT32_MAX);
	assert_true(extract(f, len, NULL) < 0);
	put_le32(f + 0x24c, 0);
	assert_true(extract(f, len, NULL) < 0);
	put_le32(f + 0x24c, (uint32_t)n);
	put_le32(f + 0x248, UINT32_MAX);
	assert_true(extract(f, len, NULL) < 0);
	put_le32(f + 0x248, 0);
	put_le16(f + 0x206, 0x0207); /* a protocol without payload fields */
	assert_true(extract(f, len, NULL) < 0);
	put_le16(f + 0x206, 0x020f);
	put_le32(f + len - 4, ELF_BYTES * 2); /* more than the payload gives */
	assert_true(extract(f, len, NULL) < 0);
	put_le32(f + len - 4, UINT32_MAX);
	assert_true(extract(f, len, NULL) < 0);
	put_le32(f + len - 4, ELF_BYTES);
	put_le32(f + PAYLOAD_AT + 4, UINT32_MAX); /* length of the LZ4 block */
	assert_true(extract(f, len, NULL) < 0);
	put_le32(f + PAYLOAD_AT, 0x12345678); /* unknown magic */
	assert_true(extract(f, len, NULL) < 0);
	free(f);
	free(payload);
	elf[EI_CLASS] = ELFCLASS32;
	assert_true(extract(elf, ELF_BYTES, NULL) < 0);
	free(elf);
}

static void test_bit_flips(void **state)
{
	uint8_t *elf = make_elf(), *f, *payload;
	size_t n, len;

	payload = lz4_payload(elf, &n);
	f = make_bzimage(payload, n, &len);
	for (size_t bit = 0x1f0 * 8; bit < 0x260 * 8; bit++) { /* must not crash */
		f[bit / 8] ^= (uint8_t)(1u << bit % 8);
		(void)extract(f, len, NULL);
		f[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t bit = PAYLOAD_AT * 8; bit < (PAYLOAD_AT + 64) * 8; bit++) {
		f[bit / 8] ^= (uint8_t)(1u << bit % 8);
		(void)extract(f, len, NULL);
		f[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(f);
	free(payload);
	free(elf);
}

static void test_release(void **state)
{
	static const char banner[] = "..Linux version %s..Linux version 5.10.2-X+ (gcc) #1";
	char release[KERNEL_RELEASE_MAX];
	size_t len;
	uint8_t *f = make_bzimage("0123456789abcdef", 16, &len);

	assert_int_equal(kernel_release(f, len, release), 0);
	assert_string_equal(release, "6.1.0-99-cloud-amd64");
	memcpy(f + 0x300, "../../etc", 10);
	assert_int_equal(kernel_release(f, len, release), -ENOENT);
	put_le16(f + 0x20e, 0xffff);
	assert_int_equal(kernel_release(f, len, release), -ENOENT);
	free(f);
	assert_int_equal(kernel_release(banner, sizeof(banner), release), 0);
	assert_string_equal(release, "5.10.2-x_");
	assert_int_equal(kernel_release("nothing", 7, release), -ENOENT);
}

/* An ELF file with a .modinfo section of `info`, which contains its NULs. */
static size_t make_module(uint8_t *out, const char *info, size_t info_len)
{
	static const char names[] = "\0.modinfo";
	Elf64_Ehdr h = {
		.e_shoff = 64, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 2};
	Elf64_Shdr s[3] = {{0},
		{.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = 300, .sh_size = info_len},
		{.sh_type = SHT_STRTAB, .sh_offset = 280, .sh_size = sizeof(names)}};

	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	memset(out, 0, 300);
	memcpy(out, &h, sizeof(h));
	memcpy(out + 64, s, sizeof(s));
	memcpy(out + 280, names, sizeof(names));
	memcpy(out + 300, info, info_len);
	return 300 + info_len;
}

static void test_modinfo(void **state)
{
	static const char info[] = "license=GPL\0depends=a,b\0vermagic=6.1";
	uint8_t file[512], *exact;
	size_t n = make_module(file, info, sizeof(info));

	assert_string_equal(module_info(file, n, "depends"), "a,b");
	assert_string_equal(module_info(file, n, "vermagic"), "6.1");
	assert_null(module_info(file, n, "depend"));
	assert_null(module_info(file, n, "name"));
	for (size_t k = 0; k < n; k++) { /* cut anywhere: no answer, no crash */
		exact = malloc(k ? k : 1);
		assert_non_null(exact);
		memcpy(exact, file, k);
		assert_null(module_info(exact, k, "vermagic"));
		free(exact);
	}
	for (size_t bit = 0; bit < 300 * 8; bit++) {
		file[bit / 8] ^= (uint8_t)(1u << bit % 8);
		(void)module_info(file, n, "vermagic");
		file[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static void put_module(int dirfd, const char *name, const char *info, size_t n)
{
	uint8_t file[512];
	size_t len = make_module(file, info, n);

	assert_int_equal(file_write_atomic(dirfd, name, file, len, 0600), 0);
}

#define PUT_MODULE(fd, name, info) put_module(fd, name, info, sizeof(info))

static void test_closure(void **state)
{
	static const char *const wanted[] = {"top-most", "ext4", "missing?", NULL};
	static const char *const unknown[] = {"nowhere", NULL};
	static const char *const circle[] = {"x", NULL};
	char dir[] = "/tmp/test-modules-XXXXXX";
	struct modules *m = calloc(1, sizeof(*m));
	struct error e = {0};
	int fd;

	assert_non_null(m);
	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	PUT_MODULE(fd, "top_most.ko", "vermagic=1\0depends=mid,low");
	PUT_MODULE(fd, "mid.ko", "vermagic=1\0depends=low");
	PUT_MODULE(fd, "low.ko", "vermagic=1\0depends=");
	PUT_MODULE(fd, "x.ko", "vermagic=1\0depends=y");
	PUT_MODULE(fd, "y.ko", "vermagic=1\0depends=x");
	assert_int_equal(
		file_write_atomic(fd, "modules.builtin", "kernel/fs/ext4/ext4.ko\n", 23, 0600), 0);
	assert_int_equal(modules_load(parse, dir, wanted, m, &e), 0);
	assert_int_equal(m->count, 3);
	assert_string_equal(m->items[0].name, "low");
	assert_string_equal(m->items[1].name, "mid");
	assert_string_equal(m->items[2].name, "top_most");
	modules_done(m);
	assert_true(modules_load(parse, dir, unknown, m, &e) < 0);
	assert_int_equal(e.code, ERROR_NOT_FOUND);
	error_clear(&e);
	assert_true(modules_load(parse, dir, circle, m, &e) < 0);
	assert_int_equal(e.code, ERROR_BAD_IMAGE);
	free(m);
	(void)close(fd);
	(void)file_remove_tree(AT_FDCWD, dir);
}

static void test_initramfs(void **state)
{
	struct modules *m = calloc(1, sizeof(*m));
	struct buf out = BUF_INIT(1 << 20), small = BUF_INIT(64);
	struct error e = {0};
	struct archive *a = archive_read_new();
	struct archive_entry *entry;
	unsigned seen = 0;

	assert_non_null(m);
	m->count = 1;
	memcpy(m->items[0].name, "abc", 4);
	m->items[0].data = (uint8_t *)strdup("module");
	m->items[0].len = 6;
	assert_int_equal(initramfs_write("agent", 5, m, &out, &e), 0);
	assert_true(initramfs_write("agent", 5, m, &small, &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
	assert_int_equal(archive_read_support_format_cpio(a), ARCHIVE_OK);
	assert_int_equal(archive_read_open_memory(a, buf_head(&out), buf_len(&out)), ARCHIVE_OK);
	while (archive_read_next_header(a, &entry) == ARCHIVE_OK) {
		const char *path = archive_entry_pathname(entry);
		char text[64] = "";

		(void)archive_read_data(a, text, sizeof(text) - 1);
		if (strcmp(path, "init") == 0) {
			assert_string_equal(text, "agent");
			assert_int_equal(archive_entry_mode(entry), S_IFREG | 0755);
			seen |= 1;
		} else if (strcmp(path, "etc/mayfly/modules") == 0) {
			assert_string_equal(text, "/lib/modules/abc.ko\n");
			seen |= 2;
		} else if (strcmp(path, "lib/modules/abc.ko") == 0) {
			assert_string_equal(text, "module");
			seen |= 4;
		} else if (strcmp(path, "dev/console") == 0) {
			assert_int_equal(archive_entry_rdevmajor(entry), 5);
			assert_int_equal(archive_entry_rdevminor(entry), 1);
			seen |= 8;
		}
	}
	assert_int_equal(seen, 15);
	archive_read_free(a);
	buf_done(&out);
	buf_done(&small);
	modules_done(m);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_bit_flips),
		cmocka_unit_test(test_release),
		cmocka_unit_test(test_modinfo),
		cmocka_unit_test(test_closure),
		cmocka_unit_test(test_initramfs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
