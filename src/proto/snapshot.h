/* The snapshot's state file: everything about a stopped microVM except its memory and disk
 * contents.
 *
 * It is a header, then sections. Little-endian; vCPU sections hold KVM's x86 structures as the
 * kernel lays them out. docs/snapshot-format.md is the specification. Reading treats the bytes as
 * hostile: it first checks magic, version, lengths and a CRC-32C over the whole file. Each section
 * has a fixed place and a bounded reader. */
#ifndef PROTO_SNAPSHOT_H
#define PROTO_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/reader.h"

enum {
	SNAPSHOT_VERSION = 2,
	SNAPSHOT_VERSION_LEAST = 1,	  /* without memory layers; still read */
	SNAPSHOT_STATE_MAX = 1024 * 1024, /* bytes of a state file */
	SNAPSHOT_SECTIONS_MAX = 64,
	SNAPSHOT_DISKS_MAX = 2,		    /* of a VM */
	SNAPSHOT_LAYERS_MAX = 16,	    /* memory layers, and frozen deltas of each disk */
	SNAPSHOT_MACHINE_UNUSED_BYTES = 96, /* zero; CPU words of earlier versions */
};

/* Section types; numbers are never reused. */
enum snapshot_section {
	SNAPSHOT_MACHINE = 1, /* VM layout and the host's CPU, see struct snapshot_machine */
	SNAPSHOT_CPUID = 2,   /* the guest's CPUID: a count, then a kvm_cpuid_entry2 each */
	SNAPSHOT_VCPU = 3,    /* one per vCPU, index = id */
	SNAPSHOT_CLOCK = 4,   /* kvm-clock in ns */
	SNAPSHOT_IOAPIC = 5,
	SNAPSHOT_SERIAL = 6,
	SNAPSHOT_DEVICE = 7, /* one per virtio device, index = slot */
	SNAPSHOT_DISK = 8,   /* one per disk: capacity in bytes */
	/* Hash of the host's CPU facts (vmm/cpu_model.h), the guest's IA32_ARCH_CAPABILITIES; 8
	 * bytes each. */
	SNAPSHOT_CPU = 10,
	SNAPSHOT_MEMORY = 9, /* since version 2: the memory layers that belong to this state */
};

/* --- writing: sections are appended to one buffer --- */

struct snapshot_writer {
	struct buf bytes;
	size_t section_at; /* of the open section's header, 0: none */
	int err;	   /* sticky */
};

void snapshot_writer_init(struct snapshot_writer *w);
void snapshot_writer_done(struct snapshot_writer *w);
/* Opens a section and returns the buffer to add its content to. Closes the previous section. */
struct buf *snapshot_section(struct snapshot_writer *w, enum snapshot_section type, uint32_t index);
/* Closes the last section and fills in the header; 0 or -ENOMEM/-EMSGSIZE. */
int snapshot_writer_finish(struct snapshot_writer *w);

/* --- reading --- */

struct snapshot_reader {
	const uint8_t *data; /* borrowed */
	size_t bytes;
	unsigned count;
	struct {
		uint32_t type, index;
		const uint8_t *data;
		size_t bytes;
	} sections[SNAPSHOT_SECTIONS_MAX];
};

/* Checks the whole file. ERROR_BAD_SNAPSHOT, or ERROR_INCOMPATIBLE for another version. data must
 * outlive r and must not change. */
int snapshot_reader_open(
	struct snapshot_reader *r, const void *data, size_t bytes, struct error *e);
/* Returns a reader for a section. For a missing section, the reader is bad from the start. */
struct reader snapshot_find(
	const struct snapshot_reader *r, enum snapshot_section type, uint32_t index);

#endif
