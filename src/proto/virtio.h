/* Numbers and wire layouts of virtio 1.2 (OASIS): split virtqueues (2.7), virtio-mmio version 2
 * (4.2.2), and the block (5.2), entropy (5.4) and socket (5.10) devices.
 *
 * Everything on the wire is little-endian. The structs only describe the layout: read memory shared
 * with a driver field by field, once. */
#ifndef PROTO_VIRTIO_H
#define PROTO_VIRTIO_H

#include <assert.h>
#include <stdint.h>

/* --- device status, 2.1 --- */
enum {
	VIRTIO_STATUS_ACKNOWLEDGE = 1,
	VIRTIO_STATUS_DRIVER = 2,
	VIRTIO_STATUS_DRIVER_OK = 4,
	VIRTIO_STATUS_FEATURES_OK = 8,
	VIRTIO_STATUS_NEEDS_RESET = 64,
	VIRTIO_STATUS_FAILED = 128,
};

/* --- feature bits of every device, 6 --- */
enum {
	VIRTIO_F_RING_INDIRECT_DESC = 28,
	VIRTIO_F_RING_EVENT_IDX = 29,
	VIRTIO_F_VERSION_1 = 32,
};

/* --- split virtqueues, 2.7 --- */
enum {
	VIRTQ_DESC_F_NEXT = 1,
	VIRTQ_DESC_F_WRITE = 2,
	VIRTQ_DESC_F_INDIRECT = 4,
	VIRTQ_AVAIL_F_NO_INTERRUPT = 1,
	VIRTQ_USED_F_NO_NOTIFY = 1,
};

struct virtq_desc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags;
	uint16_t next;
};
static_assert(sizeof(struct virtq_desc) == 16, "wire layout");

/* Offsets within the driver (available) and device (used) areas of a queue of `size` entries. */
enum {
	VIRTQ_AVAIL_FLAGS = 0,
	VIRTQ_AVAIL_IDX = 2,
	VIRTQ_AVAIL_RING = 4, /* size times le16, then le16 used_event */
	VIRTQ_USED_FLAGS = 0,
	VIRTQ_USED_IDX = 2,
	VIRTQ_USED_RING = 4, /* size times {le32 id, le32 len}, then le16 avail_event */
	VIRTQ_USED_ELEMENT = 8,
	VIRTQ_DESC_ALIGN = 16,
	VIRTQ_AVAIL_ALIGN = 2,
	VIRTQ_USED_ALIGN = 4,
};

static inline uint64_t virtq_desc_bytes(uint16_t size)
{
	return sizeof(struct virtq_desc) * (uint64_t)size;
}

static inline uint64_t virtq_avail_bytes(uint16_t size)
{
	return VIRTQ_AVAIL_RING + 2 * (uint64_t)size + 2;
}

static inline uint64_t virtq_used_bytes(uint16_t size)
{
	return VIRTQ_USED_RING + VIRTQ_USED_ELEMENT * (uint64_t)size + 2;
}

/* --- MMIO registers, 4.2.2 --- */
enum {
	VIRTIO_MMIO_MAGIC_VALUE = 0x000,
	VIRTIO_MMIO_VERSION = 0x004,
	VIRTIO_MMIO_DEVICE_ID = 0x008,
	VIRTIO_MMIO_VENDOR_ID = 0x00c,
	VIRTIO_MMIO_DEVICE_FEATURES = 0x010,
	VIRTIO_MMIO_DEVICE_FEATURES_SEL = 0x014,
	VIRTIO_MMIO_DRIVER_FEATURES = 0x020,
	VIRTIO_MMIO_DRIVER_FEATURES_SEL = 0x024,
	VIRTIO_MMIO_QUEUE_SEL = 0x030,
	VIRTIO_MMIO_QUEUE_NUM_MAX = 0x034,
	VIRTIO_MMIO_QUEUE_NUM = 0x038,
	VIRTIO_MMIO_QUEUE_READY = 0x044,
	VIRTIO_MMIO_QUEUE_NOTIFY = 0x050,
	VIRTIO_MMIO_INTERRUPT_STATUS = 0x060,
	VIRTIO_MMIO_INTERRUPT_ACK = 0x064,
	VIRTIO_MMIO_STATUS = 0x070,
	VIRTIO_MMIO_QUEUE_DESC_LOW = 0x080,
	VIRTIO_MMIO_QUEUE_DESC_HIGH = 0x084,
	VIRTIO_MMIO_QUEUE_DRIVER_LOW = 0x090,
	VIRTIO_MMIO_QUEUE_DRIVER_HIGH = 0x094,
	VIRTIO_MMIO_QUEUE_DEVICE_LOW = 0x0a0,
	VIRTIO_MMIO_QUEUE_DEVICE_HIGH = 0x0a4,
	VIRTIO_MMIO_SHM_LEN_LOW = 0x0b0,
	VIRTIO_MMIO_SHM_BASE_HIGH = 0x0bc,
	VIRTIO_MMIO_CONFIG_GENERATION = 0x0fc,
	VIRTIO_MMIO_CONFIG = 0x100,

	VIRTIO_MMIO_MAGIC = 0x74726976, /* "virt" */
	VIRTIO_MMIO_VERSION_2 = 2,
	VIRTIO_MMIO_INT_VRING = 1,
	VIRTIO_MMIO_INT_CONFIG = 2,
};

/* --- block device, 5.2 --- */
enum {
	VIRTIO_BLK_F_SIZE_MAX = 1,
	VIRTIO_BLK_F_SEG_MAX = 2,
	VIRTIO_BLK_F_RO = 5,
	VIRTIO_BLK_F_BLK_SIZE = 6,
	VIRTIO_BLK_F_FLUSH = 9,
	VIRTIO_BLK_F_TOPOLOGY = 10,
	VIRTIO_BLK_F_DISCARD = 13,
	VIRTIO_BLK_F_WRITE_ZEROES = 14,

	VIRTIO_BLK_T_IN = 0,
	VIRTIO_BLK_T_OUT = 1,
	VIRTIO_BLK_T_FLUSH = 4,
	VIRTIO_BLK_T_GET_ID = 8,
	VIRTIO_BLK_T_DISCARD = 11,
	VIRTIO_BLK_T_WRITE_ZEROES = 13,

	VIRTIO_BLK_S_OK = 0,
	VIRTIO_BLK_S_IOERR = 1,
	VIRTIO_BLK_S_UNSUPP = 2,

	VIRTIO_BLK_ID_BYTES = 20,
	VIRTIO_BLK_HEADER_BYTES = 16,
	VIRTIO_BLK_RANGE_BYTES = 16,
	VIRTIO_BLK_RANGE_F_UNMAP = 1,
};

/* The header before every request: le32 type, le32 reserved, le64 sector. */
enum { VIRTIO_BLK_HEADER_TYPE = 0, VIRTIO_BLK_HEADER_SECTOR = 8 };

/* One range of DISCARD and WRITE_ZEROES: le64 sector, le32 sectors, le32 flags. */
enum {
	VIRTIO_BLK_RANGE_SECTOR = 0,
	VIRTIO_BLK_RANGE_SECTORS = 8,
	VIRTIO_BLK_RANGE_FLAGS = 12,
};

/* Offsets in the configuration space. */
enum {
	VIRTIO_BLK_CONFIG_CAPACITY = 0,		      /* le64, sectors */
	VIRTIO_BLK_CONFIG_SIZE_MAX = 8,		      /* le32, bytes of a segment */
	VIRTIO_BLK_CONFIG_SEG_MAX = 12,		      /* le32 */
	VIRTIO_BLK_CONFIG_BLK_SIZE = 20,	      /* le32 */
	VIRTIO_BLK_CONFIG_PHYSICAL_EXP = 24,	      /* u8 */
	VIRTIO_BLK_CONFIG_MIN_IO = 26,		      /* le16, blocks */
	VIRTIO_BLK_CONFIG_NUM_QUEUES = 34,	      /* le16 */
	VIRTIO_BLK_CONFIG_DISCARD_SECTORS = 36,	      /* le32 */
	VIRTIO_BLK_CONFIG_DISCARD_SEGMENTS = 40,      /* le32 */
	VIRTIO_BLK_CONFIG_DISCARD_ALIGN = 44,	      /* le32, sectors */
	VIRTIO_BLK_CONFIG_WRITE_ZEROES_SECTORS = 48,  /* le32 */
	VIRTIO_BLK_CONFIG_WRITE_ZEROES_SEGMENTS = 52, /* le32 */
	VIRTIO_BLK_CONFIG_WRITE_ZEROES_UNMAP = 56,    /* u8 */
	VIRTIO_BLK_CONFIG_BYTES = 60,
};

/* --- socket device, 5.10 --- */
enum {
	VIRTIO_VSOCK_TYPE_STREAM = 1,

	VIRTIO_VSOCK_OP_REQUEST = 1,
	VIRTIO_VSOCK_OP_RESPONSE = 2,
	VIRTIO_VSOCK_OP_RST = 3,
	VIRTIO_VSOCK_OP_SHUTDOWN = 4,
	VIRTIO_VSOCK_OP_RW = 5,
	VIRTIO_VSOCK_OP_CREDIT_UPDATE = 6,
	VIRTIO_VSOCK_OP_CREDIT_REQUEST = 7,

	VIRTIO_VSOCK_SHUTDOWN_RCV = 1,
	VIRTIO_VSOCK_SHUTDOWN_SEND = 2,

	VIRTIO_VSOCK_RX_QUEUE = 0,
	VIRTIO_VSOCK_TX_QUEUE = 1,
	VIRTIO_VSOCK_EVENT_QUEUE = 2,

	VIRTIO_VSOCK_CID_HOST = 2,
};

struct virtio_vsock_hdr {
	uint64_t src_cid;
	uint64_t dst_cid;
	uint32_t src_port;
	uint32_t dst_port;
	uint32_t len;
	uint16_t type;
	uint16_t op;
	uint32_t flags;
	uint32_t buf_alloc;
	uint32_t fwd_cnt;
} __attribute__((packed));
static_assert(sizeof(struct virtio_vsock_hdr) == 44, "wire layout");

#endif
