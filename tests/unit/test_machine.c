/* Pieces of the machine that need no KVM: memory, ACPI tables, kernel loading, I/O APIC, serial. */
#include "test.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "vmm/acpi.h"
#include "vmm/boot.h"
#include "vmm/ioapic.h"
#include "vmm/memory.h"
#include "vmm/serial.h"

#define MIB (UINT64_C(1) << 20)

static void test_memory_bounds(void **state)
{
	struct guest_memory m;
	struct error e = {0};

	(void)state; /* none */
	assert_int_equal(guest_memory_create(&m, 4 * MIB, &e), 0);
	assert_non_null(guest_memory_ptr(&m, 0, 4 * MIB));
	assert_non_null(guest_memory_ptr(&m, 4 * MIB, 0));
	assert_null(guest_memory_ptr(&m, 4 * MIB, 1));
	assert_null(guest_memory_ptr(&m, 4 * MIB - 1, 2));
	assert_null(guest_memory_ptr(&m, UINT64_MAX, 1));
	assert_null(guest_memory_ptr(&m, 1, UINT64_MAX));
	assert_null(guest_memory_ptr(&m, UINT64_MAX - 10, 20));
	guest_memory_done(&m);
	assert_true(guest_memory_create(&m, 0, &e) < 0);
	assert_true(guest_memory_create(&m, 4097, &e) < 0);
	assert_true(guest_memory_create(&m, 5ULL << 30, &e) < 0);
}

/* Whether the kernel was asked to map it by huge pages; -1: this kernel has none. */
static int wants_huge_pages(const void *p)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long from = 0, to = 0;
	char line[512];

	if (!f || access("/sys/kernel/mm/transparent_hugepage", F_OK) < 0)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		(void)sscanf(line, "%lx-%lx ", &from, &to); /* other lines leave the range */
		if (from <= (uintptr_t)p && (uintptr_t)p < to && strncmp(line, "VmFlags:", 8) == 0)
			return strstr(line, " hg") != NULL;
	}
	return -1;
}

/* The host maps 2 MiB of a guest at once only if their addresses agree in the lower bits. */
static void test_memory_by_huge_pages(void **state)
{
	struct guest_memory m[3];

	(void)state; /* none */
	for (unsigned i = 0; i < ARRAY_SIZE(m); i++) {
		assert_int_equal(guest_memory_create(&m[i], (3 + 2 * i) * MIB + 4096, NULL), 0);
		assert_int_equal((uintptr_t)guest_memory_ptr(&m[i], 0, 1) % (2 * MIB), 0);
		assert_int_not_equal(wants_huge_pages(guest_memory_ptr(&m[i], 0, 1)), 0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(m); i++)
		guest_memory_done(&m[i]);
}

static void test_memory_above_the_gap(void **state)
{
	struct guest_memory m;
	struct error e = {0};

	(void)state; /* none */
	assert_int_equal(guest_memory_create(&m, 4ULL << 30, &e), 0);
	assert_int_equal(m.region_count, 2);
	assert_non_null(guest_memory_ptr(&m, GUEST_MMIO_GAP_START - 1, 1));
	assert_null(guest_memory_ptr(&m, GUEST_MMIO_GAP_START - 1, 2));
	assert_null(guest_memory_ptr(&m, GUEST_MMIO_GAP_START, 1));
	assert_non_null(guest_memory_ptr(&m, GUEST_MMIO_GAP_END, 1 << 30));
	assert_null(guest_memory_ptr(&m, GUEST_MMIO_GAP_END, (1 << 30) + 1));
	guest_memory_done(&m);
}

static uint8_t sum_of(const uint8_t *p, size_t n)
{
	uint8_t sum = 0;

	while (n--)
		sum += *p++;
	return sum;
}

static void check_table(const struct guest_memory *m, gpa_t at, const char *signature)
{
	const uint8_t *p = guest_memory_ptr(m, at, 36);

	assert_memory_equal(p, signature, 4);
	assert_non_null(guest_memory_ptr(m, at, get_le32(p + 4)));
	assert_int_equal(sum_of(p, get_le32(p + 4)), 0);
}

static void test_acpi_tables(void **state)
{
	struct acpi_device devices[4];
	struct guest_memory m;
	struct error e = {0};
	const uint8_t *p;
	gpa_t rsdp, xsdt;

	(void)state; /* none */
	for (unsigned i = 0; i < 4; i++)
		devices[i] = (struct acpi_device){0xd0000000 + i * 0x1000, 0x1000, 5 + i};
	assert_int_equal(guest_memory_create(&m, 4 * MIB, &e), 0);
	assert_int_equal(acpi_write(&m, 4, devices, 4, &rsdp, &e), 0);
	p = guest_memory_ptr(&m, rsdp, 36);
	assert_memory_equal(p, "RSD PTR ", 8);
	assert_int_equal(sum_of(p, 20), 0);
	assert_int_equal(sum_of(p, 36), 0);
	xsdt = get_le64(p + 24);
	check_table(&m, xsdt, "XSDT");
	p = guest_memory_ptr(&m, xsdt, 36 + 16);
	check_table(&m, get_le64(p + 36), "FACP");
	check_table(&m, get_le64(p + 44), "APIC");
	p = guest_memory_ptr(&m, get_le64(p + 36), 276);
	check_table(&m, get_le64(p + 140), "DSDT");
	guest_memory_done(&m);
}

/* The byte code must be what a compiler of the field understands. */
static void test_dsdt_disassembles(void **state)
{
	struct acpi_device device = {0xd0000000, 0x1000, 5};
	char dir[] = "/tmp/mayfly-acpi-XXXXXX", command[256];
	struct guest_memory m;
	struct error e = {0};
	const uint8_t *p;
	char *text;
	gpa_t rsdp;
	FILE *f;

	(void)state; /* none */
	if (access("/usr/bin/iasl", X_OK) < 0)
		skip();
	assert_int_equal(guest_memory_create(&m, 4 * MIB, &e), 0);
	assert_int_equal(acpi_write(&m, 1, &device, 1, &rsdp, &e), 0);
	p = guest_memory_ptr(&m, get_le64((uint8_t *)guest_memory_ptr(&m, rsdp, 36) + 24), 52);
	p = guest_memory_ptr(&m, get_le64(p + 36), 276);
	p = guest_memory_ptr(&m, get_le64(p + 140), 36);
	assert_non_null(mkdtemp(dir));
	(void)snprintf(command, sizeof(command), "%s/dsdt.aml", dir); /* fits */
	f = fopen(command, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, get_le32(p + 4), f), get_le32(p + 4));
	assert_int_equal(fclose(f), 0);
	(void)snprintf(command, sizeof(command),
		"cd %s && /usr/bin/iasl -d dsdt.aml >log 2>&1 && /usr/bin/iasl dsdt.dsl >>log 2>&1",
		dir); /* fits */
	assert_int_equal(system(command), 0);
	(void)snprintf(command, sizeof(command), "%s/dsdt.dsl", dir); /* fits */
	assert_int_equal(file_read(AT_FDCWD, command, 1 << 20, &text, NULL), 0);
	assert_non_null(strstr(text, "LNRO0005"));
	assert_non_null(strstr(text, "PNP0501"));
	free(text);
	assert_int_equal(file_remove_tree(AT_FDCWD, dir), 0);
	guest_memory_done(&m);
}

/* --- kernels --- */

struct tiny_kernel {
	Elf64_Ehdr h;
	Elf64_Phdr p;
	uint8_t code[64];
};

static struct tiny_kernel tiny(void)
{
	struct tiny_kernel k = {
		.h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			.e_machine = EM_X86_64,
			.e_entry = MIB,
			.e_phoff = offsetof(struct tiny_kernel, p),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 1},
		.p = {.p_type = PT_LOAD,
			.p_offset = offsetof(struct tiny_kernel, code),
			.p_paddr = MIB,
			.p_filesz = 64,
			.p_memsz = 4096},
	};

	memset(k.code, 0xf4, sizeof(k.code));
	return k;
}

static int load_bytes(const void *data, size_t n, uint64_t memory_bytes, struct error *e)
{
	int fd = memfd_create("kernel", MFD_CLOEXEC), r;
	struct boot_source s = {.kernel_fd = fd, .initrd_fd = -1, .cmdline = "quiet"};
	struct boot_entry entry;
	struct guest_memory m;

	assert_int_equal(write(fd, data, n), n);
	assert_int_equal(guest_memory_create(&m, memory_bytes, e), 0);
	r = boot_load(&m, &s, &entry, e);
	if (r == 0) {
		assert_int_equal(entry.rip, MIB);
		assert_int_equal(*(uint8_t *)guest_memory_ptr(&m, MIB, 1), 0xf4);
	}
	guest_memory_done(&m);
	close(fd);
	return r;
}

static void test_kernel_loads(void **state)
{
	struct tiny_kernel k = tiny();
	struct error e = {0};

	(void)state; /* none */
	assert_int_equal(load_bytes(&k, sizeof(k), 4 * MIB, &e), 0);
}

static void test_kernel_refused(void **state)
{
	static const struct {
		size_t offset;
		uint64_t value;
		unsigned bytes;
	} changes[] = {
		{offsetof(struct tiny_kernel, h.e_ident), 0, 4},
		{offsetof(struct tiny_kernel, h.e_machine), EM_386, 2},
		{offsetof(struct tiny_kernel, h.e_entry), UINT64_MAX, 8},
		{offsetof(struct tiny_kernel, h.e_phoff), UINT64_MAX, 8},
		{offsetof(struct tiny_kernel, h.e_phoff), 1 << 20, 8},
		{offsetof(struct tiny_kernel, h.e_phentsize), 1, 2},
		{offsetof(struct tiny_kernel, h.e_phnum), 0, 2},
		{offsetof(struct tiny_kernel, h.e_phnum), 65535, 2},
		{offsetof(struct tiny_kernel, p.p_offset), UINT64_MAX, 8},
		{offsetof(struct tiny_kernel, p.p_offset), 1 << 20, 8},
		{offsetof(struct tiny_kernel, p.p_paddr), 0, 8},
		{offsetof(struct tiny_kernel, p.p_paddr), UINT64_MAX - 4095, 8},
		{offsetof(struct tiny_kernel, p.p_paddr), 4 * MIB, 8},
		{offsetof(struct tiny_kernel, p.p_filesz), 5000, 8},
		{offsetof(struct tiny_kernel, p.p_memsz), UINT64_MAX, 8},
	};

	(void)state; /* none */
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct tiny_kernel k = tiny();
		struct error e = {0};

		memcpy((uint8_t *)&k + changes[i].offset, &changes[i].value, changes[i].bytes);
		if (load_bytes(&k, sizeof(k), 4 * MIB, &e) == 0)
			fail_msg("change %zu was accepted", i);
		assert_int_equal(e.code, ERROR_BAD_IMAGE);
	}
}

static void test_kernel_truncated(void **state)
{
	struct tiny_kernel k = tiny();

	(void)state; /* none */
	for (size_t n = 0; n < sizeof(k); n++) {
		struct error e = {0};

		assert_true(load_bytes(&k, n, 4 * MIB, &e) < 0);
	}
}

/* --- I/O APIC, serial --- */

static void test_ioapic_junk(void **state)
{
	struct ioapic a;

	(void)state; /* none */
	ioapic_init(&a, -1);
	for (uint32_t select = 0; select < 256; select++) {
		ioapic_mmio_write(&a, 0, select);
		ioapic_mmio_write(&a, 0x10, 0xffffffff);
		(void)ioapic_mmio_read(&a, 0x10); /* no crash */
	}
	for (unsigned pin = 0; pin < 300; pin++)
		ioapic_raise(&a, pin);
	ioapic_done(&a);
}

static void test_ioapic_remembers_masked_edges(void **state)
{
	struct buf b = BUF_INIT(1024);
	struct ioapic a, other;
	struct reader in;

	(void)state; /* none */
	ioapic_init(&a, -1);
	ioapic_raise(&a, 5);
	assert_int_equal(a.pending, 1 << 5);
	assert_int_equal(ioapic_save(&a, &b), 0);
	ioapic_init(&other, -1);
	in = reader_of(buf_head(&b), buf_len(&b));
	assert_int_equal(ioapic_load(&other, &in), 0);
	assert_int_equal(other.pending, 1 << 5);
	ioapic_mmio_write(&other, 0, 0x10 + 2 * 5);
	ioapic_mmio_write(&other, 0x10, 0x30); /* vector 0x30, not masked: delivered */
	assert_int_equal(other.pending, 0);
	in = reader_of(buf_head(&b), buf_len(&b) - 1);
	assert_int_equal(ioapic_load(&other, &in), -EINVAL);
	ioapic_done(&a);
	ioapic_done(&other);
	buf_done(&b);
}

static void no_interrupt(void *opaque)
{
	(void)opaque; /* not looked at */
}

static void test_serial_log_is_bounded(void **state)
{
	char dir[] = "/tmp/mayfly-serial-XXXXXX";
	struct serial s;
	char *log;
	size_t n;
	int fd;

	(void)state; /* none */
	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	serial_init(&s, openat(fd, "console.log", O_RDWR | O_CREAT | O_CLOEXEC, 0600), no_interrupt,
		NULL);
	for (unsigned i = 0; i < 3 * SERIAL_LOG_MAX; i++)
		serial_write(&s, 0, i % 80 == 79 ? '\n' : (uint8_t)('a' + i / 80 % 26));
	for (unsigned i = 0; i < 2048; i++) {
		serial_write(&s, 1 + i % 7, (uint8_t)(i >> 3));
		(void)serial_read(&s, i % 8); /* no crash */
	}
	serial_done(&s);
	assert_int_equal(file_read(fd, "console.log", SERIAL_LOG_MAX, &log, &n), 0);
	assert_true(n >= SERIAL_LOG_MAX / 2);
	for (size_t i = 80; i + 80 < n - 2048; i++) /* the newest lines, in order */
		if (log[i] == '\n' && log[i + 1] != '\n')
			assert_int_equal((log[i + 2] - log[i - 1] + 26) % 26, 1);
	assert_false(file_exists(fd, "console.log.1"));
	free(log);
	close(fd);
	assert_int_equal(file_remove_tree(AT_FDCWD, dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_bounds),
		cmocka_unit_test(test_memory_by_huge_pages),
		cmocka_unit_test(test_memory_above_the_gap),
		cmocka_unit_test(test_acpi_tables),
		cmocka_unit_test(test_dsdt_disassembles),
		cmocka_unit_test(test_kernel_loads),
		cmocka_unit_test(test_kernel_refused),
		cmocka_unit_test(test_kernel_truncated),
		cmocka_unit_test(test_ioapic_junk),
		cmocka_unit_test(test_ioapic_remembers_masked_edges),
		cmocka_unit_test(test_serial_log_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
