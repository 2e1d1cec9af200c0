/* COM1: a 16550 UART that only sends, for the boot log.
 *
 * The guest's output goes to the end of a log file. When the file would grow beyond SERIAL_LOG_MAX
 * bytes, it loses its older half. So the newest output is always there, and a chatty guest fills no
 * disk. Thread-safe: it has its own lock.
 * Specification: National Semiconductor PC16550D. */
#ifndef VMM_SERIAL_H
#define VMM_SERIAL_H

#include <pthread.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/reader.h"

enum { SERIAL_PORT = 0x3f8, SERIAL_PORTS = 8, SERIAL_LOG_MAX = 512 * 1024 };

struct serial {
	pthread_mutex_t lock;
	int log_fd; /* owned; -1: output is dropped */
	uint64_t log_bytes;
	void (*raise_irq)(void *opaque);
	void *irq_opaque;
	uint8_t ier, lcr, mcr, scr, dll, dlm;
	uint8_t thr_interrupt; /* the transmitter-empty interrupt is pending */
	uint16_t line_len;
	char line[256]; /* output waits here for a line end, to save writes */
};

/* log_fd: a file for reading and writing without O_APPEND, or -1; taken over. */
void serial_init(struct serial *s, int log_fd, void (*raise_irq)(void *), void *irq_opaque);
void serial_done(struct serial *s); /* flushes */
void serial_flush(struct serial *s);
uint8_t serial_read(struct serial *s, unsigned reg);
void serial_write(struct serial *s, unsigned reg, uint8_t value);
int serial_save(struct serial *s, struct buf *out);
int serial_load(struct serial *s, struct reader *in); /* 0 or -EINVAL */

#endif
