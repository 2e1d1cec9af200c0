#include "vmm/boot.h"

#include <asm/bootparam.h>
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "vmm/acpi.h"

/* GDT, boot_params, page tables and command line lie in the first 640 KiB. */
#define GDT_AT	       UINT64_C(0x500)
#define BOOT_PARAMS_AT UINT64_C(0x7000)
#define PAGE_TABLE_AT  UINT64_C(0x9000) /* PML4, PDPT, and four page directories: 6 pages */
#define CMDLINE_AT     UINT64_C(0x20000)
#define LOW_MEMORY_END UINT64_C(0x9fc00)
#define HIGH_MEMORY    UINT64_C(0x100000)

enum { PROGRAM_HEADERS_MAX = 64, IDENTITY_GIB = 4 };

static int bad_kernel(struct error *e, const char *why)
{
	return error_set(e, ERROR_BAD_IMAGE, EINVAL,
		"the kernel cannot be loaded: %s; give an uncompressed 64-bit ELF image (vmlinux)",
		why);
}

static int load_segment(const struct guest_memory *m, int fd, const Elf64_Phdr *p, struct error *e)
{
	uint8_t *host;

	if (p->p_filesz > p->p_memsz)
		return bad_kernel(e, "a segment's file size exceeds its memory size");
	if (p->p_paddr < LOW_MEMORY_END)
		return bad_kernel(e, "a segment lies below 640 KiB");
	host = guest_memory_ptr(m, p->p_paddr, p->p_memsz);
	if (!host)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"the kernel does not fit into the guest's memory: give it more");
	if (p->p_offset > INT64_MAX || fd_pread_full(fd, host, p->p_filesz, (off_t)p->p_offset) < 0)
		return bad_kernel(e, "the file is truncated");
	return 0; /* guest memory is fresh, so the rest of the segment is already zero */
}

static int load_elf(
	const struct guest_memory *m, int fd, gpa_t *ret_entry, gpa_t *ret_end, struct error *e)
{
	Elf64_Ehdr h;
	gpa_t end = 0;

	if (fd_pread_full(fd, &h, sizeof(h), 0) < 0 || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return bad_kernel(e, "not an ELF file");
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != EM_X86_64)
		return bad_kernel(e, "not for x86-64");
	if (h.e_phentsize != sizeof(Elf64_Phdr) || h.e_phnum == 0 ||
		h.e_phnum > PROGRAM_HEADERS_MAX || h.e_phoff > INT32_MAX)
		return bad_kernel(e, "bad program headers");
	for (unsigned i = 0; i < h.e_phnum; i++) {
		Elf64_Phdr p;
		int r;

		if (fd_pread_full(fd, &p, sizeof(p), (off_t)(h.e_phoff + i * sizeof(p))) < 0)
			return bad_kernel(e, "the file is truncated");
		if (p.p_type != PT_LOAD || p.p_memsz == 0)
			continue;
		r = load_segment(m, fd, &p, e);
		if (r < 0)
			return r;
		if (p.p_paddr + p.p_memsz > end)
			end = p.p_paddr + p.p_memsz;
	}
	if (!guest_memory_ptr(m, h.e_entry, 1))
		return bad_kernel(e, "the entry point lies outside of memory");
	*ret_entry = h.e_entry;
	*ret_end = end;
	return 0;
}

/* Loads the initramfs at the top of low memory. */
static int load_initrd(const struct guest_memory *m, int fd, gpa_t kernel_end, gpa_t *ret_at,
	uint32_t *ret_bytes, struct error *e)
{
	const struct guest_region *low = &m->regions[0];
	struct stat st;
	uint64_t size;
	gpa_t at;

	if (fstat(fd, &st) < 0)
		return error_set_errno(e, ERROR_BAD_IMAGE, errno, "cannot read the initramfs");
	size = (uint64_t)st.st_size;
	if (size == 0 || size > low->bytes)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"the initramfs does not fit into the guest's memory: give it more");
	at = (low->start + low->bytes - size) & ~UINT64_C(4095);
	if (at < kernel_end)
		return error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"kernel and initramfs do not fit into the guest's memory: give it more");
	if (fd_pread_full(fd, guest_memory_ptr(m, at, size), size, 0) < 0)
		return error_set(e, ERROR_BAD_IMAGE, EIO, "cannot read the initramfs");
	*ret_at = at;
	*ret_bytes = (uint32_t)size;
	return 0;
}

/* Writes flat 64-bit segments, and page tables that map the first 4 GiB to themselves in 2 MiB
 * pages. */
static int write_tables(const struct guest_memory *m)
{
	static const uint64_t gdt[4] = {
		0, 0, UINT64_C(0x00af9b000000ffff), UINT64_C(0x00cf93000000ffff)};
	uint64_t *t = guest_memory_ptr(m, PAGE_TABLE_AT, (2 + IDENTITY_GIB) * 4096);

	if (!t || guest_memory_write(m, GDT_AT, gdt, sizeof(gdt)) < 0)
		return -EFAULT;
	t[0] = (PAGE_TABLE_AT + 4096) | 3;
	for (uint64_t i = 0; i < IDENTITY_GIB; i++) {
		t[512 + i] = (PAGE_TABLE_AT + (2 + i) * 4096) | 3;
		for (uint64_t k = 0; k < 512; k++)
			t[(2 + i) * 512 + k] = (i * 512 + k) << 21 | 0x83;
	}
	return 0;
}

static void add_e820(struct boot_params *b, uint64_t start, uint64_t bytes, uint32_t type)
{
	b->e820_table[b->e820_entries++] =
		(struct boot_e820_entry){.addr = start, .size = bytes, .type = type};
}

static void fill_memory_map(const struct guest_memory *m, struct boot_params *b)
{
	enum { RAM = 1, RESERVED = 2 };

	add_e820(b, 0, LOW_MEMORY_END, RAM);
	add_e820(b, ACPI_BASE, HIGH_MEMORY - ACPI_BASE, RESERVED);
	if (m->regions[0].bytes > HIGH_MEMORY)
		add_e820(b, HIGH_MEMORY, m->regions[0].bytes - HIGH_MEMORY, RAM);
	if (m->region_count > 1)
		add_e820(b, m->regions[1].start, m->regions[1].bytes, RAM);
}

int boot_load(const struct guest_memory *m, const struct boot_source *s, struct boot_entry *ret,
	struct error *e)
{
	size_t cmdline_bytes = strlen(s->cmdline) + 1;
	struct boot_params b = {0};
	gpa_t entry = 0, end = 0, initrd_at = 0;
	uint32_t initrd_bytes = 0;
	int r;

	if (cmdline_bytes > BOOT_CMDLINE_MAX)
		return error_set(e, ERROR_LIMIT, E2BIG,
			"the kernel command line is longer than %d bytes", BOOT_CMDLINE_MAX - 1);
	r = load_elf(m, s->kernel_fd, &entry, &end, e);
	if (r < 0)
		return r;
	if (s->initrd_fd >= 0) {
		r = load_initrd(m, s->initrd_fd, end, &initrd_at, &initrd_bytes, e);
		if (r < 0)
			return r;
	}
	b.hdr.type_of_loader = 0xff;
	b.hdr.boot_flag = 0xaa55;
	b.hdr.header = 0x53726448; /* "HdrS" */
	b.hdr.kernel_alignment = 0x1000000;
	b.hdr.cmd_line_ptr = (uint32_t)CMDLINE_AT;
	b.hdr.cmdline_size = (uint32_t)cmdline_bytes;
	b.hdr.ramdisk_image = (uint32_t)initrd_at;
	b.hdr.ramdisk_size = initrd_bytes;
	b.acpi_rsdp_addr = s->rsdp;
	fill_memory_map(m, &b);
	if (guest_memory_write(m, BOOT_PARAMS_AT, &b, sizeof(b)) < 0 ||
		guest_memory_write(m, CMDLINE_AT, s->cmdline, cmdline_bytes) < 0 ||
		write_tables(m) < 0)
		return error_set(e, ERROR_LIMIT, EFAULT, "the guest has too little memory to boot");
	*ret = (struct boot_entry){.rip = entry,
		.boot_params = BOOT_PARAMS_AT,
		.page_table = PAGE_TABLE_AT,
		.gdt = GDT_AT};
	return 0;
}
