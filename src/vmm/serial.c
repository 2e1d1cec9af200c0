#include "vmm/serial.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

enum {
	REG_DATA = 0,
	REG_IER = 1,
	REG_IIR = 2,
	REG_LCR = 3,
	REG_MCR = 4,
	REG_LSR = 5,
	REG_MSR = 6,
	REG_SCR = 7,
	IER_THRI = 0x02,
	IIR_NONE = 0x01,
	IIR_THRI = 0x02,
	LCR_DLAB = 0x80,
	MCR_OUT2 = 0x08, /* gates the interrupt line */
	MCR_LOOP = 0x10,
	LSR_EMPTY = 0x60, /* transmitter and its register are empty: always ready */
	MSR_READY = 0xb0, /* carrier, data set ready, clear to send */
};

void serial_init(struct serial *s, int log_fd, void (*raise_irq)(void *), void *irq_opaque)
{
	struct stat st;

	*s = (struct serial){.log_fd = log_fd, .raise_irq = raise_irq, .irq_opaque = irq_opaque};
	if (log_fd >= 0 && fstat(log_fd, &st) == 0)
		s->log_bytes = (uint64_t)st.st_size;
	pthread_mutex_init(&s->lock, NULL);
}

/* Moves the newer half of a full log to its start.
 *
 * #calls vcpu: preadv pwritev ftruncate */
static int drop_older(struct serial *s)
{
	const uint64_t keep = SERIAL_LOG_MAX / 2, from = s->log_bytes - keep;
	char part[4096];

	for (uint64_t at = 0; at < keep; at += sizeof(part)) {
		struct iovec iov = {part, sizeof(part)};
		int r = fd_preadv_full(s->log_fd, &iov, 1, (off_t)(from + at));

		r = r < 0 ? r : fd_pwrite_full(s->log_fd, part, sizeof(part), (off_t)at);
		if (r < 0)
			return r;
	}
	s->log_bytes = keep;
	return ftruncate(s->log_fd, (off_t)keep) < 0 ? -errno : 0;
}

static void make_room(struct serial *s)
{
	if (s->log_bytes + s->line_len <= SERIAL_LOG_MAX ||
		(s->log_bytes >= SERIAL_LOG_MAX / 2 && drop_older(s) == 0))
		return;
	if (ftruncate(s->log_fd, 0) == 0) /* on a full disk the log is lost */
		s->log_bytes = 0;
}

/* #calls main: pwritev */
static void flush_line(struct serial *s)
{
	if (!s->line_len)
		return;
	if (s->log_fd >= 0) {
		make_room(s);
		if (fd_pwrite_full(s->log_fd, s->line, s->line_len, (off_t)s->log_bytes) == 0)
			s->log_bytes += s->line_len; /* else a full disk loses log */
	}
	s->line_len = 0;
}

void serial_flush(struct serial *s)
{
	pthread_mutex_lock(&s->lock);
	flush_line(s);
	pthread_mutex_unlock(&s->lock);
}

void serial_done(struct serial *s)
{
	serial_flush(s);
	if (s->log_fd >= 0)
		(void)close(s->log_fd); /* a log */
	s->log_fd = -1;
	pthread_mutex_destroy(&s->lock);
}

static void transmit(struct serial *s, uint8_t c)
{
	if (c != '\r')
		s->line[s->line_len++] = (char)c;
	if (c == '\n' || s->line_len == sizeof(s->line))
		flush_line(s);
}

static void update_interrupt(struct serial *s)
{
	if (!(s->ier & IER_THRI))
		return;
	s->thr_interrupt = 1;
	if (s->mcr & MCR_OUT2)
		s->raise_irq(s->irq_opaque);
}

static uint8_t read_iir(struct serial *s)
{
	if (!s->thr_interrupt)
		return IIR_NONE;
	s->thr_interrupt = 0;
	return IIR_THRI;
}

static uint8_t read_register(struct serial *s, unsigned reg)
{
	switch (reg) {
	case REG_DATA:
		return s->lcr & LCR_DLAB ? s->dll : 0;
	case REG_IER:
		return s->lcr & LCR_DLAB ? s->dlm : s->ier;
	case REG_IIR:
		return read_iir(s);
	case REG_LCR:
		return s->lcr;
	case REG_MCR:
		return s->mcr;
	case REG_LSR:
		return LSR_EMPTY;
	case REG_MSR:
		/* In loop-back, modem outputs come back as inputs. Drivers detect a UART by
		 * this. */
		return s->mcr & MCR_LOOP ? (uint8_t)((s->mcr & 0x0c) << 4 | (s->mcr & 0x02) << 3 |
						     (s->mcr & 0x01) << 5)
					 : MSR_READY;
	case REG_SCR:
		return s->scr;
	default:
		return 0;
	}
}

uint8_t serial_read(struct serial *s, unsigned reg)
{
	uint8_t v;

	pthread_mutex_lock(&s->lock);
	v = read_register(s, reg);
	pthread_mutex_unlock(&s->lock);
	return v;
}

static void write_data(struct serial *s, uint8_t value)
{
	if (s->lcr & LCR_DLAB) {
		s->dll = value;
		return;
	}
	if (!(s->mcr & MCR_LOOP))
		transmit(s, value);
	update_interrupt(s);
}

static void write_ier(struct serial *s, uint8_t value)
{
	if (s->lcr & LCR_DLAB) {
		s->dlm = value;
		return;
	}
	s->ier = value & 0x0f;
	update_interrupt(s);
}

void serial_write(struct serial *s, unsigned reg, uint8_t value)
{
	pthread_mutex_lock(&s->lock);
	switch (reg) {
	case REG_DATA:
		write_data(s, value);
		break;
	case REG_IER:
		write_ier(s, value);
		break;
	case REG_LCR:
		s->lcr = value;
		break;
	case REG_MCR:
		s->mcr = value;
		break;
	case REG_SCR:
		s->scr = value;
		break;
	default:
		break;
	}
	pthread_mutex_unlock(&s->lock);
}

int serial_save(struct serial *s, struct buf *out)
{
	uint8_t regs[7];

	pthread_mutex_lock(&s->lock);
	flush_line(s);
	memcpy(regs, (uint8_t[]){s->ier, s->lcr, s->mcr, s->scr, s->dll, s->dlm, s->thr_interrupt},
		sizeof(regs));
	pthread_mutex_unlock(&s->lock);
	return buf_add(out, regs, sizeof(regs));
}

int serial_load(struct serial *s, struct reader *in)
{
	s->ier = reader_u8(in) & 0x0f;
	s->lcr = reader_u8(in);
	s->mcr = reader_u8(in);
	s->scr = reader_u8(in);
	s->dll = reader_u8(in);
	s->dlm = reader_u8(in);
	s->thr_interrupt = reader_u8(in) & 1;
	return reader_finished(in) ? 0 : -EINVAL;
}
