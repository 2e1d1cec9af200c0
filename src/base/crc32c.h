/* CRC-32C (Castagnoli), as in iSCSI and ext4: detects damage, not tampering. Uses the SSE 4.2
 * instruction where the CPU has it. Start with crc = 0; feed the result in to continue. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of n more bytes, after bytes with the checksum crc. */
uint32_t crc32c(uint32_t crc, const void *data, size_t n);

#endif
