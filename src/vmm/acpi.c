/* AML is written by hand, as only a few objects are needed: name paths, packages, buffers, devices.
 * References in ACPI 6.3: encoding of AML in chapter 20, tables in 5.2, resources in 6.4. */
#include "vmm/acpi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "vmm/ioapic.h"
#include "vmm/serial.h"

enum {
	AML_ZERO = 0x00,
	AML_ONE = 0x01,
	AML_NAME = 0x08,
	AML_BYTE = 0x0a,
	AML_DWORD = 0x0c,
	AML_STRING = 0x0d,
	AML_SCOPE = 0x10,
	AML_BUFFER = 0x11,
	AML_PACKAGE = 0x12,
	AML_EXT = 0x5b,
	AML_EXT_DEVICE = 0x82,
	RESOURCE_FIXED_MEMORY = 0x86,
	RESOURCE_INTERRUPT = 0x89,
	RESOURCE_IO = 0x47,
	RESOURCE_END = 0x79,
	INTERRUPT_CONSUMER = 0x01,
	INTERRUPT_EDGE = 0x02,
	SERIAL_GSI = 4,
	TABLE_HEADER_BYTES = 36,
	LOCAL_APIC_ADDRESS = 0xfee00000u,
};

/* A package length counts itself and what follows it. */
static int add_package(struct buf *out, const struct buf *content)
{
	uint32_t n = (uint32_t)buf_len(content);
	uint8_t enc[3];
	unsigned bytes;

	if (n + 1 <= 63) {
		enc[0] = (uint8_t)(n + 1);
		bytes = 1;
	} else if (n + 2 < 1 << 12) {
		enc[0] = (uint8_t)(0x40 | ((n + 2) & 15));
		enc[1] = (uint8_t)((n + 2) >> 4);
		bytes = 2;
	} else {
		enc[0] = (uint8_t)(0x80 | ((n + 3) & 15));
		enc[1] = (uint8_t)((n + 3) >> 4);
		enc[2] = (uint8_t)((n + 3) >> 12);
		bytes = 3;
	}
	return buf_add(out, enc, bytes) | buf_add(out, buf_head(content), n);
}

static int add_name(struct buf *out, const char name[4])
{
	return buf_add_u8(out, AML_NAME) | buf_add(out, name, 4);
}

static int add_integer(struct buf *out, uint32_t v)
{
	if (v <= 0xff)
		return buf_add_u8(out, AML_BYTE) | buf_add_u8(out, (uint8_t)v);
	return buf_add_u8(out, AML_DWORD) | buf_add_le32(out, v);
}

static int add_string(struct buf *out, const char *s)
{
	return buf_add_u8(out, AML_STRING) | buf_add(out, s, strlen(s) + 1);
}

/* A compressed EISA identifier such as PNP0501. */
static int add_eisa_id(struct buf *out, const char *id)
{
	unsigned product = 0;
	uint32_t v;

	(void)sscanf(id + 3, "%4x", &product); /* our own constants */
	v = (uint32_t)(id[0] - 0x40) << 26 | (uint32_t)(id[1] - 0x40) << 21 |
	    (uint32_t)(id[2] - 0x40) << 16 | product;
	return buf_add_u8(out, AML_DWORD) | buf_add_le32(out, __builtin_bswap32(v));
}

static int add_interrupt(struct buf *out, uint32_t gsi)
{
	return buf_add_u8(out, RESOURCE_INTERRUPT) | buf_add_le16(out, 6) |
	       buf_add_u8(out, INTERRUPT_CONSUMER | INTERRUPT_EDGE) | buf_add_u8(out, 1) |
	       buf_add_le32(out, gsi);
}

/* _CRS: a buffer of resource descriptors, closed by an end tag. */
static int add_resources(struct buf *out, struct buf *resources)
{
	struct buf content = BUF_INIT(256);
	int r = buf_add_u8(resources, RESOURCE_END) | buf_add_u8(resources, 0);

	r |= add_name(out, "_CRS") | buf_add_u8(out, AML_BUFFER);
	r |= add_integer(&content, (uint32_t)buf_len(resources));
	r |= buf_add(&content, buf_head(resources), buf_len(resources));
	r |= add_package(out, &content);
	buf_done(&content);
	return r;
}

static int add_device(struct buf *out, const char name[4], const struct buf *body)
{
	struct buf content = BUF_INIT(512);
	int r = buf_add(&content, name, 4) | buf_add(&content, buf_head(body), buf_len(body));

	r |= buf_add_u8(out, AML_EXT) | buf_add_u8(out, AML_EXT_DEVICE) |
	     add_package(out, &content);
	buf_done(&content);
	return r;
}

static int add_virtio(struct buf *out, unsigned index, const struct acpi_device *d)
{
	struct buf body = BUF_INIT(256), res = BUF_INIT(128);
	const char name[4] = {'V', 'R', (char)('0' + index / 10 % 10), (char)('0' + index % 10)};
	int r = 0;

	r |= add_name(&body, "_HID") | add_string(&body, "LNRO0005");
	r |= add_name(&body, "_UID") | add_integer(&body, index);
	r |= add_name(&body, "_CCA") | buf_add_u8(&body, AML_ONE);
	r |= buf_add_u8(&res, RESOURCE_FIXED_MEMORY) | buf_add_le16(&res, 9) | buf_add_u8(&res, 1);
	r |= buf_add_le32(&res, (uint32_t)d->mmio_base) | buf_add_le32(&res, d->mmio_bytes);
	r |= add_interrupt(&res, d->gsi);
	r |= add_resources(&body, &res);
	r |= add_device(out, name, &body);
	buf_done(&body);
	buf_done(&res);
	return r;
}

static int add_serial(struct buf *out)
{
	struct buf body = BUF_INIT(256), res = BUF_INIT(128);
	int r = 0;

	r |= add_name(&body, "_HID") | add_eisa_id(&body, "PNP0501");
	r |= add_name(&body, "_UID") | buf_add_u8(&body, AML_ZERO);
	r |= buf_add_u8(&res, RESOURCE_IO) | buf_add_u8(&res, 1);
	r |= buf_add_le16(&res, SERIAL_PORT) | buf_add_le16(&res, SERIAL_PORT);
	r |= buf_add_u8(&res, 1) | buf_add_u8(&res, SERIAL_PORTS);
	r |= add_interrupt(&res, SERIAL_GSI);
	r |= add_resources(&body, &res);
	r |= add_device(out, "COM1", &body);
	buf_done(&body);
	buf_done(&res);
	return r;
}

/* \_S5: the sleep type that powers off. */
static int add_s5(struct buf *out)
{
	struct buf content = BUF_INIT(32);
	int r = add_name(out, "_S5_") | buf_add_u8(out, AML_PACKAGE);

	r |= buf_add_u8(&content, 4) | add_integer(&content, 5);
	r |= buf_add(&content, "\0\0\0", 3); /* three ZeroOp */
	r |= add_package(out, &content);
	buf_done(&content);
	return r;
}

static int build_dsdt(struct buf *out, const struct acpi_device *devices, unsigned n)
{
	struct buf scope = BUF_INIT(8192);
	int r = buf_add(&scope, "_SB_", 4) | add_serial(&scope);

	for (unsigned i = 0; i < n; i++)
		r |= add_virtio(&scope, i, &devices[i]);
	r |= buf_add_u8(out, AML_SCOPE) | add_package(out, &scope) | add_s5(out);
	buf_done(&scope);
	return r;
}

static int build_madt(struct buf *out, unsigned cpu_count)
{
	int r = buf_add_le32(out, LOCAL_APIC_ADDRESS) | buf_add_le32(out, 0);

	for (unsigned i = 0; i < cpu_count; i++) {
		const uint8_t lapic[4] = {0, 8, (uint8_t)i, (uint8_t)i};

		r |= buf_add(out, lapic, sizeof(lapic)) | buf_add_le32(out, 1 /* enabled */);
	}
	r |= buf_add(out, (uint8_t[]){1, 12, IOAPIC_ID, 0}, 4);
	r |= buf_add_le32(out, (uint32_t)IOAPIC_MMIO_BASE) | buf_add_le32(out, 0);
	return r;
}

/* A generic address structure for an 8-bit I/O port. */
static void put_port(uint8_t *p, uint16_t port)
{
	p[0] = 1; /* system I/O */
	p[1] = 8;
	p[2] = 0;
	p[3] = 1; /* byte access */
	put_le64(p + 4, port);
}

static int build_fadt(struct buf *out, gpa_t dsdt)
{
	uint8_t f[276 - TABLE_HEADER_BYTES] = {0};

#define FIELD(offset) (&f[(offset)-TABLE_HEADER_BYTES]) /* offsets of the specification */
	put_le16(FIELD(109), 0x0004 /* no VGA */ | 0x0008 /* no MSI */ | 0x0020 /* no CMOS RTC */);
	put_le32(FIELD(112), 1u << 20 /* hardware-reduced */ | 1u << 10 /* reset register */);
	put_port(FIELD(116), ACPI_PORT_RESET);
	*FIELD(128) = ACPI_RESET_VALUE;
	*FIELD(131) = 3; /* minor version: 6.3 */
	put_le64(FIELD(140), dsdt);
	put_port(FIELD(244), ACPI_PORT_SLEEP_CONTROL);
	put_port(FIELD(256), ACPI_PORT_SLEEP_STATUS);
#undef FIELD
	return buf_add(out, f, sizeof(f));
}

static uint8_t checksum(const uint8_t *p, size_t n)
{
	uint8_t sum = 0;

	while (n--)
		sum += *p++;
	return (uint8_t)-sum;
}

/* Writes a table with its header at *next and advances *next. *ret is the table's address. */
static int place(const struct guest_memory *m, gpa_t *next, const char signature[4],
	uint8_t revision, const struct buf *body, gpa_t *ret)
{
	uint32_t n = TABLE_HEADER_BYTES + (uint32_t)buf_len(body);
	uint8_t *p = guest_memory_ptr(m, *next, n);

	if (!p || *next + n > ACPI_BASE + ACPI_BYTES_MAX)
		return -ENOSPC;
	memset(p, 0, TABLE_HEADER_BYTES);
	memcpy(p, signature, 4);
	put_le32(p + 4, n);
	p[8] = revision;
	memcpy(p + 10, "MAYFLY", 6);
	memcpy(p + 16, "MICROVM ", 8);
	put_le32(p + 24, 1);
	memcpy(p + 28, "MFLY", 4);
	put_le32(p + 32, 1);
	memcpy(p + TABLE_HEADER_BYTES, buf_head(body), buf_len(body));
	p[9] = checksum(p, n);
	*ret = *next;
	*next = (*next + n + 15) & ~(gpa_t)15;
	return 0;
}

static int write_rsdp(const struct guest_memory *m, gpa_t xsdt)
{
	uint8_t p[36] = "RSD PTR ";

	memcpy(p + 9, "MAYFLY", 6);
	p[15] = 2;
	put_le32(p + 20, sizeof(p));
	put_le64(p + 24, xsdt);
	p[8] = checksum(p, 20);
	p[32] = checksum(p, sizeof(p));
	return guest_memory_write(m, ACPI_BASE, p, sizeof(p));
}

int acpi_write(const struct guest_memory *m, unsigned cpu_count, const struct acpi_device *devices,
	unsigned device_count, gpa_t *ret_rsdp, struct error *e)
{
	struct buf dsdt = BUF_INIT(8192), fadt = BUF_INIT(512), madt = BUF_INIT(512),
		   xsdt = BUF_INIT(64);
	gpa_t next = ACPI_BASE + 64, dsdt_at = 0, fadt_at = 0, madt_at = 0, xsdt_at = 0;
	int r;

	r = build_dsdt(&dsdt, devices, device_count);
	r = r ? r : place(m, &next, "DSDT", 6, &dsdt, &dsdt_at);
	r = r ? r : build_fadt(&fadt, dsdt_at);
	r = r ? r : place(m, &next, "FACP", 6, &fadt, &fadt_at);
	r = r ? r : build_madt(&madt, cpu_count);
	r = r ? r : place(m, &next, "APIC", 5, &madt, &madt_at);
	r = r ? r : (buf_add_le64(&xsdt, fadt_at) | buf_add_le64(&xsdt, madt_at));
	r = r ? r : place(m, &next, "XSDT", 1, &xsdt, &xsdt_at);
	r = r ? r : write_rsdp(m, xsdt_at);
	buf_done(&dsdt);
	buf_done(&fadt);
	buf_done(&madt);
	buf_done(&xsdt);
	*ret_rsdp = ACPI_BASE;
	return r ? error_set(e, ERROR_INTERNAL, ENOSPC, "the ACPI tables do not fit") : 0;
}
