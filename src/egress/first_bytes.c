#include "egress/first_bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "rules/rules.h"

enum {
	HTTP_PORT = 80,
	RECORD_HEAD = 5,
	CHANGE_CIPHER_SPEC = 20,
	ALERT = 21,
	HANDSHAKE = 22,
	APPLICATION_DATA = 23,
	CLIENT_HELLO = 1, /* of handshakes */
};

void first_init(struct first_bytes *f)
{
	*f = (struct first_bytes){.held = BUF_INIT(CLIENT_HELLO_MAX)};
}

void first_done(struct first_bytes *f)
{
	buf_done(&f->held);
}

static enum first_step wrong(struct first_bytes *f, const char *what, enum first_alert alert)
{
	(void)snprintf(f->why, sizeof(f->why), "%s", what); /* fits, or is cut */
	f->alert = alert;
	return FIRST_WRONG;
}

static enum first_step compare(
	struct first_bytes *f, const struct client_hello *h, const char *name)
{
	char what[sizeof(f->why)];

	if (strcmp(h->name, name) == 0)
		return FIRST_TLS;
	if (!h->name[0])
		return wrong(f, "its TLS hello names no server", ALERT_UNRECOGNIZED_NAME);
	(void)snprintf(what, sizeof(what), "its TLS hello is for %.72s", h->name); /* fits */
	return wrong(f, what, ALERT_UNRECOGNIZED_NAME);
}

static enum first_step judge(struct first_bytes *f, struct client_hello *h, const char *name)
{
	const char *why = "";

	switch (client_hello_parse(buf_head(&f->held), buf_len(&f->held), h, &why)) {
	case CLIENT_HELLO_OK:
		return compare(f, h, name);
	case CLIENT_HELLO_MORE:
		return FIRST_MORE;
	case CLIENT_HELLO_NOT_TLS:
		return FIRST_PLAIN;
	case CLIENT_HELLO_BAD:
		break;
	}
	return wrong(f, why, ALERT_DECODE_ERROR);
}

/* #calls egress: recvfrom */
enum first_step first_read(struct first_bytes *f, int fd, const char *name)
{
	size_t room = CLIENT_HELLO_MAX - buf_len(&f->held);
	uint8_t *p = buf_reserve(&f->held, room);
	ssize_t n = p ? recv(fd, p, room, 0) : 0;

	if (!p)
		return wrong(f, "out of memory", ALERT_HANDSHAKE_FAILURE);
	if (n < 0 && errno == EAGAIN)
		return FIRST_MORE;
	if (n <= 0)
		return buf_len(&f->held)
			       ? wrong(f, "it ended within its TLS hello", ALERT_DECODE_ERROR)
			       : FIRST_PLAIN;
	buf_commit(&f->held, (size_t)n);
	return judge(f, &f->hello, name);
}

static bool begins_with_method(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] >= 'A' && p[i] <= 'Z')
		i++;
	return i && i <= RULES_METHOD_MAX && (i == n || p[i] == ' ');
}

bool first_is_http(const struct first_bytes *f)
{
	return begins_with_method(buf_head(&f->held), buf_len(&f->held));
}

bool first_may_name_host(const struct first_bytes *f, uint16_t port)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n";
	const uint8_t *p = buf_head(&f->held);
	size_t n = buf_len(&f->held), blank = 0;

	if (n == 0 || port == HTTP_PORT)
		return n > 0;
	if (n >= sizeof(preface) - 1 && memcmp(p, preface, sizeof(preface) - 1) == 0)
		return false;
	while (blank < n && (p[blank] == '\r' || p[blank] == '\n'))
		blank++;
	return blank == n || begins_with_method(p + blank, n - blank);
}

/* --- what follows a hello --- */

static void pass(struct first_bytes *f, size_t n, struct buf *out)
{
	(void)buf_add(out, buf_head(&f->held), n); /* the owner made room */
	buf_consume(&f->held, n);
}

static enum first_step pass_all(struct first_bytes *f, struct buf *out)
{
	pass(f, buf_len(&f->held), out);
	buf_done(&f->held); /* gives the memory back */
	return FIRST_PLAIN;
}

static enum first_step take_second(struct first_bytes *f, const char *name, struct buf *out)
{
	struct client_hello second = {0};
	enum first_step step = judge(f, &second, name);

	if (step == FIRST_TLS && second.encrypted)
		return wrong(f, "its second TLS hello may hide another name (ECH)",
			ALERT_HANDSHAKE_FAILURE);
	return step == FIRST_TLS ? pass_all(f, out) : step; /* there is no third one */
}

/* At the head of a record. FIRST_TLS: it passes. */
static enum first_step take_record(struct first_bytes *f, const char *name, struct buf *out)
{
	const uint8_t *p = buf_head(&f->held);
	size_t n = buf_len(&f->held), length = n < RECORD_HEAD ? 0 : (size_t)p[3] << 8 | p[4];

	if (n < RECORD_HEAD || (p[0] == HANDSHAKE && length && n == RECORD_HEAD))
		return FIRST_MORE;
	if (p[0] == HANDSHAKE && (!length || p[RECORD_HEAD] == CLIENT_HELLO))
		return take_second(f, name, out); /* or an empty record, which is refused */
	if (p[0] != CHANGE_CIPHER_SPEC && p[0] != ALERT &&
		(p[0] != APPLICATION_DATA || !f->hello.early_data))
		return pass_all(f, out);
	f->passing = RECORD_HEAD + length;
	return FIRST_TLS;
}

static enum first_step take_records(struct first_bytes *f, const char *name, struct buf *out)
{
	enum first_step step = FIRST_TLS;

	while (step == FIRST_TLS) {
		size_t n = buf_len(&f->held) < f->passing ? buf_len(&f->held) : f->passing;

		pass(f, n, out);
		f->passing -= n;
		step = f->passing ? FIRST_MORE : take_record(f, name, out);
	}
	return step;
}

enum first_step first_next(struct first_bytes *f, int fd, const char *name, struct buf *out)
{
	size_t room = CLIENT_HELLO_MAX - buf_len(&f->held);
	uint8_t *p = room ? buf_reserve(&f->held, room) : NULL;
	ssize_t n = p ? recv(fd, p, room, 0) : 0;
	int err = errno;

	if (n > 0)
		buf_commit(&f->held, (size_t)n);
	if ((room && !p) || !buf_reserve(out, CLIENT_HELLO_MAX))
		return wrong(f, "out of memory", ALERT_HANDSHAKE_FAILURE);
	if (room && n <= 0 && !(n < 0 && err == EAGAIN))
		return pass_all(f, out); /* it has ended: no server takes half a hello */
	return take_records(f, name, out);
}

void first_send_alert(int fd, enum first_alert alert)
{
	const uint8_t record[] = {21, 3, 3, 0, 2, 2, (uint8_t)alert};

	(void)fd_send_peer(fd, record, sizeof(record)); /* the connection ends in any case */
}
