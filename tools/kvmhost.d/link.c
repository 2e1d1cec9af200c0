/* The common part of kvmexec and execd: buffers, frames, windows, and the byte relay. See link.h.
 */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RELAY_SIZE 65536
#define IN_SIZE	   (256 << 10)
#define OUT_SIZE   (256 << 10)
#define OUT_SPARE  4096 /* for control frames behind the last data frame */

void buffer_init(struct buffer *b, size_t capacity)
{
	*b = (struct buffer){.data = malloc(capacity), .capacity = capacity};
	if (!b->data) {
		fprintf(stderr, "kvmhost: out of memory\n");
		exit(125);
	}
}

size_t buffer_room(struct buffer *b)
{
	if (b->start) {
		memmove(b->data, b->data + b->start, b->length);
		b->start = 0;
	}
	return b->capacity - b->length;
}

void buffer_append(struct buffer *b, const void *data, size_t length)
{
	if (length > b->capacity - b->start - b->length && length > buffer_room(b))
		abort(); /* the caller's arithmetic is wrong */
	if (length)
		memcpy(b->data + b->start + b->length, data, length);
	b->length += length;
}

void buffer_consume(struct buffer *b, size_t length)
{
	b->start += length;
	b->length -= length;
	if (!b->length)
		b->start = 0;
}

void link_init(struct link *l, int fd)
{
	*l = (struct link){.fd = fd};
	buffer_init(&l->in, IN_SIZE);
	buffer_init(&l->out, OUT_SIZE);
	for (int i = 0; i < STREAMS; i++) {
		buffer_init(&l->pending[i], LINK_WINDOW);
		l->window[i] = LINK_WINDOW;
	}
	(void)fcntl(fd, F_SETFL, O_NONBLOCK); /* cannot fail on a socket of our own */
}

bool link_has_room(const struct link *l)
{
	return l->out.length + sizeof(struct frame) + LINK_PAYLOAD_MAX + OUT_SPARE <=
	       l->out.capacity;
}

void link_send(struct link *l, enum frame_type type, int stream, const void *data, size_t length)
{
	struct frame f = {.type = type, .stream = stream, .length = length};

	buffer_append(&l->out, &f, sizeof(f));
	buffer_append(&l->out, data, length);
}

void link_delivered(struct link *l, int stream, size_t length)
{
	l->uncredited[stream] += length;
	if (l->uncredited[stream] < LINK_WINDOW / 4)
		return;
	link_send(l, FRAME_CREDIT, stream, &l->uncredited[stream], sizeof(uint32_t));
	l->uncredited[stream] = 0;
}

int link_receive(struct link *l)
{
	size_t room = buffer_room(&l->in);
	ssize_t n = read(l->fd, l->in.data + l->in.length, room);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (n == 0)
		return -1;
	l->in.length += n;
	return 0;
}

int link_flush(struct link *l)
{
	while (l->out.length) {
		ssize_t n = send(l->fd, l->out.data + l->out.start, l->out.length, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		buffer_consume(&l->out, n);
	}
	return 0;
}

static int handle_data(struct link *l, const struct frame *f, const uint8_t *payload)
{
	struct buffer *pending = &l->pending[f->stream];

	if (f->length > pending->capacity - pending->length)
		return -1;
	buffer_append(pending, payload, f->length);
	return 0;
}

static int handle_credit(struct link *l, const struct frame *f, const uint8_t *payload)
{
	uint32_t credit;

	if (f->length != sizeof(credit))
		return -1;
	memcpy(&credit, payload, sizeof(credit));
	if (credit > LINK_WINDOW - l->window[f->stream])
		return -1;
	l->window[f->stream] += credit;
	return 0;
}

int link_next(struct link *l, struct frame *ret_frame, const uint8_t **ret_payload)
{
	for (;;) {
		struct frame f;
		const uint8_t *payload = l->in.data + l->in.start + sizeof(f);

		if (l->in.length < sizeof(f))
			return 0;
		memcpy(&f, l->in.data + l->in.start, sizeof(f));
		if (f.length > LINK_PAYLOAD_MAX || f.stream >= STREAMS)
			return -1;
		if (l->in.length < sizeof(f) + f.length)
			return 0;

		buffer_consume(&l->in, sizeof(f) + f.length); /* the bytes stay where they are */
		if (f.type == FRAME_CREDIT) {
			if (handle_credit(l, &f, payload) < 0)
				return -1;
		} else if (f.type == FRAME_DATA && f.length) {
			if (handle_data(l, &f, payload) < 0)
				return -1;
		} else {
			*ret_frame = f;
			*ret_payload = payload;
			return 1;
		}
	}
}

int read_all(int fd, void *data, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = read(fd, (char *)data + done, length - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		done += n;
	}
	return 0;
}

int write_all(int fd, const void *data, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = write(fd, (const char *)data + done, length - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		done += n;
	}
	return 0;
}

struct direction {
	int from, to;
	struct buffer buffer;
	bool eof, ended; /* read to its end; and told the other side */
};

static int pump(struct direction *d)
{
	if (!d->eof && buffer_room(&d->buffer)) {
		ssize_t n = recv(d->from, d->buffer.data + d->buffer.length,
			buffer_room(&d->buffer), MSG_DONTWAIT);
		if (n == 0)
			d->eof = true;
		else if (n > 0)
			d->buffer.length += n;
		else if (errno != EAGAIN && errno != EINTR)
			return -1;
	}
	if (d->buffer.length) {
		ssize_t n = send(d->to, d->buffer.data + d->buffer.start, d->buffer.length,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			buffer_consume(&d->buffer, n);
		else if (errno != EAGAIN && errno != EINTR)
			return -1;
	}
	if (d->eof && !d->buffer.length && !d->ended) {
		d->ended = true;
		if (shutdown(d->to, SHUT_WR) < 0)
			return -1;
	}
	return 0;
}

void close_with_reset(int fd)
{
	struct linger now = {.l_onoff = 1};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); /* at worst a normal end */
	close(fd);
}

void relay(int a, int b)
{
	struct direction d[2] = {{.from = a, .to = b}, {.from = b, .to = a}};
	bool broken = false;

	buffer_init(&d[0].buffer, RELAY_SIZE);
	buffer_init(&d[1].buffer, RELAY_SIZE);
	while (!broken && !(d[0].ended && d[1].ended)) {
		struct pollfd fds[2] = {{.fd = a}, {.fd = b}};

		for (int i = 0; i < 2; i++) {
			if (!d[i].eof && d[i].buffer.length < RELAY_SIZE)
				fds[i].events |= POLLIN;
			if (d[i].buffer.length)
				fds[!i].events |= POLLOUT;
		}
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		for (int i = 0; i < 2; i++) {
			/* a hang-up that reading cannot explain is a reset */
			if (fds[i].revents & POLLERR ||
				(fds[i].revents & POLLHUP && d[i].eof && !d[!i].ended))
				broken = true;
		}
		if (!broken)
			broken = pump(&d[0]) < 0 || pump(&d[1]) < 0;
	}
	if (broken) {
		close_with_reset(a);
		close_with_reset(b);
		return;
	}
	close(a);
	close(b);
}
