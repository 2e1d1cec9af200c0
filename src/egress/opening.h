/* The header that begins a stream of the guest, and our answer (egress_wire.h). */
#ifndef EGRESS_OPENING_H
#define EGRESS_OPENING_H

#include <stdint.h>

#include "proto/egress_wire.h"

/* Reads a header, and no byte behind it. head has room for EGRESS_OPEN_MAX bytes, and holds *bytes
 * so far. Returns as egress_get_open(), or -errno, such as -EAGAIN or -EPIPE. */
int opening_read(int fd, uint8_t *head, unsigned *bytes, struct egress_open *ret);

/* 0 or -errno. */
int opening_answer(int fd, enum egress_verdict verdict, int err, const char *reason);

#endif
