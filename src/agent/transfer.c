/* READ and WRITE: one file as a stream, in slices. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "entry.h"
#include "files.h"
#include "path.h"
#include "requests.h"

#define OFFSET_MAX (INT64_MAX - AGENT_MESSAGE_MAX)

enum {
	WRITE_FLAGS = AGENT_WRITE_PARENTS | AGENT_WRITE_KEEP | AGENT_WRITE_APPEND |
		      AGENT_WRITE_EXCLUSIVE | AGENT_WRITE_KEEP_OWNER,
};

struct transfer {
	int fd;
	uint64_t offset, left;
	bool append;
	bool failed; /* WRITE: an ERROR was sent; drop the rest */
	char path[AGENT_PATH_MAX + 1];
};

static void transfer_end(struct conn *c)
{
	struct transfer *t = c->stream;

	if (t->fd >= 0)
		(void)close(t->fd); /* write already reported errors */
	free(t);
}

static struct transfer *transfer_new(struct conn *c, enum agent_type request)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (t)
		t->fd = -1;
	else
		conn_error(c, AGENT_ERR_LIMIT, request, ENOMEM, "the agent");
	return t;
}

/* --- READ --- */

/* Sends slices while there is space; the loop calls it again when there is space again. */
static void read_room(struct conn *c)
{
	static uint8_t slice[AGENT_PAYLOAD_MAX];
	struct transfer *t = c->stream;

	while (conn_has_room(c)) {
		size_t want = t->left < sizeof(slice) ? (size_t)t->left : sizeof(slice);
		ssize_t n = want ? pread(t->fd, slice, want, (off_t)t->offset) : 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			int err = n < 0 ? errno : 0;

			if (err)
				files_error(c, AGENT_READ, err, t->path);
			transfer_end(c);
			conn_end_stream(c);
			if (!err)
				conn_send(c, AGENT_END, NULL);
			return;
		}
		conn_send_raw(c, AGENT_DATA, slice, (size_t)n);
		if (c->dead)
			return;
		t->offset += (size_t)n;
		t->left -= (size_t)n;
	}
}

static bool read_message(struct conn *c, const struct agent_frame *f)
{
	if (f->type != AGENT_STOP)
		return false;
	transfer_end(c);
	conn_end_stream(c);
	conn_send(c, AGENT_END, NULL);
	return true;
}

static const struct stream_ops read_ops = {read_message, read_room, transfer_end};

static int open_for_reading(struct transfer *t)
{
	struct stat st;

	t->fd = open(t->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (t->fd < 0 || fstat(t->fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -ENXIO;
}

static void transfer_refuse(struct conn *c, enum agent_type request, struct transfer *t, int r)
{
	if (r == -ENXIO)
		conn_error(c, AGENT_ERR_NOT_FILE, request, 0, "%s is not a regular file", t->path);
	else if (r < 0)
		files_error(c, request, -r, t->path);
}

void request_read(struct conn *c, const struct agent_frame *f)
{
	struct transfer *t;
	struct agent_read m;
	int r;

	if (!conn_decode(c, f, &m) || !conn_check_flags(c, AGENT_READ, m.flags, 0))
		return;
	t = transfer_new(c, AGENT_READ);
	if (!t)
		return;
	if (m.offset <= OFFSET_MAX) { /* otherwise there is nothing to read, and pread would fail */
		t->left = m.length;
		t->offset = m.offset;
	}
	c->stream = t;
	r = files_resolve(c, AGENT_READ, m.user, m.path, NULL, t->path) ? open_for_reading(t) : 1;
	if (r != 0) {
		transfer_refuse(c, AGENT_READ, t, r);
		transfer_end(c);
		return;
	}
	files_reply_entry(c, AGENT_READ, t->path, AGENT_STAT_FOLLOW);
	conn_take_over(c, &read_ops, t);
}

/* --- WRITE --- */

static void write_failed(struct conn *c, struct transfer *t, int err)
{
	files_error(c, AGENT_WRITE, err, t->path);
	t->failed = true;
}

static void write_data(struct conn *c, struct transfer *t, const uint8_t *data, size_t n)
{
	while (n && !t->failed) {
		ssize_t k = t->append ? write(t->fd, data, n)
				      : pwrite(t->fd, data, n, (off_t)t->offset);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0) {
			write_failed(c, t, errno);
			return;
		}
		data += k;
		n -= (size_t)k;
		t->offset += (size_t)k;
	}
}

static void write_end(struct conn *c)
{
	struct transfer *t = c->stream;

	if (!t->failed && close(TAKE_FD(t->fd)) < 0)
		write_failed(c, t, errno);
	if (!t->failed)
		files_reply_entry(c, AGENT_WRITE, t->path, AGENT_STAT_FOLLOW);
	transfer_end(c);
	conn_end_stream(c);
}

static bool write_message(struct conn *c, const struct agent_frame *f)
{
	struct transfer *t = c->stream;

	if (f->type == AGENT_DATA) {
		write_data(c, t, f->payload, f->length);
	} else if (f->type == AGENT_END) {
		write_end(c);
	} else {
		conn_error(c, AGENT_ERR_MALFORMED, f->type, 0, "%s amid a WRITE",
			agent_type_name(f->type));
		c->closing = true;
	}
	return true;
}

static const struct stream_ops write_ops = {write_message, NULL, transfer_end};

/* Opens the file, or creates it; *created tells which. */
static int open_file(const struct agent_write *m, const char *path, bool *created)
{
	int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, fd = -1;

	if (m->flags & AGENT_WRITE_APPEND)
		flags |= O_APPEND;
	*created = false;
	if (!(m->flags & AGENT_WRITE_EXCLUSIVE)) {
		fd = open(path, flags);
		if (fd >= 0 || errno != ENOENT)
			return fd < 0 ? -errno : fd;
	}
	*created = true;
	fd = open(path, flags | O_CREAT | (m->flags & AGENT_WRITE_EXCLUSIVE ? O_EXCL : 0), 0600);
	return fd < 0 ? -errno : fd;
}

static int open_for_writing(const struct agent_write *m, const struct user *u, struct transfer *t)
{
	struct stat st;
	bool created = false;
	int r = 0;

	if (m->flags & AGENT_WRITE_PARENTS)
		r = path_make_parents(t->path, u->uid, u->gid);
	if (r == 0)
		r = open_file(m, t->path, &created);
	if (r < 0)
		return r;
	t->fd = r;
	if (fstat(t->fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENXIO;
	if (!created && !(m->flags & (AGENT_WRITE_KEEP | AGENT_WRITE_APPEND)) &&
		ftruncate(t->fd, 0) < 0)
		return -errno;
	/* Both work as root. Under test as another user, the file is already ours. */
	if (created || !(m->flags & AGENT_WRITE_KEEP_OWNER))
		(void)!fchown(t->fd, u->uid, u->gid);
	if (created)
		(void)!fchmod(t->fd, m->mode & 07777);
	return 0;
}

/* The client may send DATA at once, so even a failed WRITE consumes everything up to END. */
void request_write(struct conn *c, const struct agent_frame *f)
{
	struct transfer *t;
	struct agent_write m;
	struct user u;
	int r;

	if (!conn_decode(c, f, &m))
		return;
	t = transfer_new(c, AGENT_WRITE);
	if (!t)
		return;
	t->append = m.flags & AGENT_WRITE_APPEND;
	t->offset = m.offset < OFFSET_MAX ? m.offset : OFFSET_MAX;
	conn_take_over(c, &write_ops, t);
	t->failed = !conn_check_flags(c, AGENT_WRITE, m.flags, WRITE_FLAGS) ||
		    !files_resolve(c, AGENT_WRITE, m.user, m.path, &u, t->path);
	if (t->failed)
		return;
	r = open_for_writing(&m, &u, t);
	if (r < 0) {
		transfer_refuse(c, AGENT_WRITE, t, r);
		t->failed = true;
	}
}
