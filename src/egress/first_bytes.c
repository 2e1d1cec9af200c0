#include "egress/first_bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

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

static enum first_step compare(struct first_bytes *f, const char *name)
{
	char what[sizeof(f->why)];

	if (strcmp(f->hello.name, name) == 0)
		return FIRST_TLS;
	if (!f->hello.name[0])
		return wrong(f, "its TLS hello names no server", ALERT_UNRECOGNIZED_NAME);
	(void)snprintf(
		what, sizeof(what), "its TLS hello is for %s", f->hello.name); /* or is cut */
	return wrong(f, what, ALERT_UNRECOGNIZED_NAME);
}

static enum first_step judge(struct first_bytes *f, const char *name)
{
	const char *why = "";

	switch (client_hello_parse(buf_head(&f->held), buf_len(&f->held), &f->hello, &why)) {
	case CLIENT_HELLO_OK:
		return compare(f, name);
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
	return judge(f, name);
}

void first_send_alert(int fd, enum first_alert alert)
{
	const uint8_t record[] = {21, 3, 3, 0, 2, 2, (uint8_t)alert};

	(void)fd_send(fd, record, sizeof(record)); /* the connection ends in any case */
}
