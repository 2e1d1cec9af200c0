/* What a stream of the guest begins with: its header, and our answer (egress_wire.h). */
#ifndef EGRESS_OPENING_H
#define EGRESS_OPENING_H

#include <stdint.h>

#include "proto/egress_wire.h"

/* Reads no byte behind the header. head, of EGRESS_OPEN_MAX bytes, has *bytes of it so far. Returns
 * what egress_get_open does, or -errno: -EAGAIN, -EPIPE. */
int opening_read(int fd, uint8_t *head, unsigned *bytes, struct egress_open *ret);

/* 0 or -errno. */
int opening_answer(int fd, enum egress_verdict verdict, int err, const char *reason);

#endif
