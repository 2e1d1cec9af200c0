/* WATCH: changes below a directory, by inotify. The kernel watches single directories. So a
 * recursive watch adds every directory below, and those that appear later. Files that appear in a
 * new directory before it is watched are reported as created when the directory is read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "entry.h"
#include "files.h"
#include "requests.h"

enum {
	WATCH_FLAGS = AGENT_WATCH_RECURSIVE | AGENT_WATCH_ENTRY | AGENT_WATCH_NETWORK_MOUNTS,
	DIRECTORIES_MAX = 16384, /* per WATCH */
	ADDED_PER_ROUND = 256,	 /* directories to read per round, for fairness */
	EVENT_MASK = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
		     IN_ONLYDIR | IN_EXCL_UNLINK,
	ROOT_MASK = IN_DELETE_SELF | IN_MOVE_SELF,
};

/* A watched directory. The table is sorted by watch descriptor. */
struct directory {
	int wd;
	char *path; /* relative to the root: "" for the root, else with a slash at the end */
};

struct watch {
	struct source inotify;
	struct timer next_round;
	struct conn *conn;
	uint32_t flags;
	struct directory *dirs; /* sorted by wd; the kernel assigns increasing ones */
	unsigned count, capacity;
	char **pending; /* directories that are still to be read; paths as in dirs */
	unsigned pending_count, pending_capacity;
	bool settled; /* the first walk is done: what is found later is new */
	bool gone, lost_some;
	size_t root_length;
	char path[2 * AGENT_PATH_MAX + 2]; /* root, slash, relative path */
};

static struct entry_text text;

static void watch_free(struct watch *w)
{
	source_close(&w->inotify);
	timer_cancel(&w->next_round);
	for (unsigned i = 0; i < w->count; i++)
		free(w->dirs[i].path);
	for (unsigned i = 0; i < w->pending_count; i++)
		free(w->pending[i]);
	free(w->dirs);
	free(w->pending);
	loop_defer_free(w);
}

/* --- events --- */

/* Makes the absolute path of a relative one, in w->path. NULL when it is too long. */
static const char *full_path(struct watch *w, const char *relative)
{
	size_t n = strlen(relative);

	if (w->root_length + 1 + n > AGENT_PATH_MAX)
		return NULL;
	w->path[w->root_length] = '/';
	memcpy(w->path + w->root_length + 1, relative, n + 1);
	if (n && relative[n - 1] == '/')
		w->path[w->root_length + n] = '\0';
	return w->path;
}

static void overflow(struct watch *w);

/* Sends an event. A burst may exceed what the connection can hold: then sends OVERFLOW once, and
 * drops the rest. */
static void send_event(struct watch *w, enum agent_watch_kind kind, const char *name)
{
	struct agent_watch_event m = {.kind = kind, .name = name};
	struct buf b = BUF_INIT(AGENT_PAYLOAD_MAX);
	const char *path = full_path(w, name);
	struct agent_entry e;

	if (kind <= AGENT_WATCH_CHMOD && buf_len(&w->conn->out) > CONN_OUT_MAX / 2) {
		overflow(w);
		return;
	}
	if ((w->flags & AGENT_WATCH_ENTRY) && path && kind <= AGENT_WATCH_CHMOD &&
		kind != AGENT_WATCH_REMOVE && kind != AGENT_WATCH_RENAME &&
		entry_fill(path, AGENT_STAT_RESOLVE, &text, &e) == 0 &&
		agent_entry_encode(&b, &e) == 0 && buf_len(&b) < AGENT_PAYLOAD_MAX / 2) {
		m.entry = buf_head(&b) + AGENT_HEADER_BYTES;
		m.entry_bytes = (uint32_t)buf_len(&b) - AGENT_HEADER_BYTES;
	}
	conn_send(w->conn, AGENT_WATCH_EVENT, &m);
	buf_done(&b);
}

static void overflow(struct watch *w)
{
	if (!w->lost_some)
		send_event(w, AGENT_WATCH_OVERFLOW, "");
	w->lost_some = true;
}

/* --- directories --- */

static struct directory *find_directory(struct watch *w, int wd)
{
	unsigned low = 0, high = w->count;

	while (low < high) {
		unsigned mid = (low + high) / 2;

		if (w->dirs[mid].wd == wd)
			return &w->dirs[mid];
		if (w->dirs[mid].wd < wd)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static void remove_directory(struct watch *w, struct directory *d)
{
	size_t i = (size_t)(d - w->dirs);

	free(d->path);
	memmove(d, d + 1, (w->count - i - 1) * sizeof(*d));
	w->count--;
}

static bool grow(void **array, unsigned count, unsigned *capacity, size_t size)
{
	unsigned want = *capacity ? *capacity * 2 : 16;
	void *p;

	if (count < *capacity)
		return true;
	p = realloc(*array, want * size);
	if (!p)
		return false;
	*array = p;
	*capacity = want;
	return true;
}

/* Queues a directory to be read later. Takes ownership of the path. */
static void postpone(struct watch *w, char *path)
{
	if (w->pending_count >= DIRECTORIES_MAX || !grow((void **)&w->pending, w->pending_count,
							   &w->pending_capacity, sizeof(char *))) {
		free(path);
		overflow(w);
		return;
	}
	w->pending[w->pending_count++] = path;
}

static int insert_directory(struct watch *w, int wd, const char *relative)
{
	struct directory *d = find_directory(w, wd);
	char *path = strdup(relative);
	unsigned i;

	if (!path)
		return -ENOMEM;
	if (d) { /* the same directory under a new name, as after a rename */
		free(d->path);
		d->path = path;
		return 0;
	}
	if (w->count >= DIRECTORIES_MAX ||
		!grow((void **)&w->dirs, w->count, &w->capacity, sizeof(*w->dirs))) {
		free(path);
		return -ENOSPC;
	}
	for (i = w->count; i > 0 && w->dirs[i - 1].wd > wd; i--)
		w->dirs[i] = w->dirs[i - 1];
	w->dirs[i] = (struct directory){wd, path};
	w->count++;
	return 0;
}

/* Watches one directory. Its content is read later. */
static int add_directory(struct watch *w, const char *relative)
{
	const char *path = full_path(w, relative);
	uint32_t mask = EVENT_MASK | (relative[0] ? IN_DONT_FOLLOW : ROOT_MASK);
	char *copy;
	int wd, r;

	if (!path)
		return -ENAMETOOLONG;
	wd = inotify_add_watch(w->inotify.fd,
		relative[0]	 ? path
		: w->root_length ? w->path
				 : "/",
		mask);
	if (wd < 0)
		return -errno;
	r = insert_directory(w, wd, relative);
	if (r < 0) {
		(void)inotify_rm_watch(w->inotify.fd, wd); /* it was just added */
		return r;
	}
	copy = w->flags & AGENT_WATCH_RECURSIVE ? strdup(relative) : NULL;
	if (copy)
		postpone(w, copy);
	return 0;
}

static void add_below(struct watch *w, const char *relative)
{
	int r = add_directory(w, relative);

	/* It may be gone, or not a directory. But at a limit, changes would go unseen. */
	if (r == -ENOSPC || r == -ENOMEM)
		overflow(w);
}

/* Reads one directory and watches its subdirectories. Reports its content if the directory is
 * new. */
static void read_directory(struct watch *w, const char *relative)
{
	char name[AGENT_PATH_MAX + 1];
	struct dirent *e;
	struct stat st;
	DIR *d;

	d = full_path(w, relative) ? opendir(w->path) : NULL;
	while (d && !w->conn->dead && (e = readdir(d))) {
		int n = snprintf(name, sizeof(name) - 1, "%s%s", relative, e->d_name);

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || n < 0 ||
			(size_t)n >= sizeof(name) - 1)
			continue;
		if (w->settled)
			send_event(w, AGENT_WATCH_CREATE, name);
		if (w->conn->dead) /* then w->dirs is freed */
			break;
		if (e->d_type == DT_UNKNOWN &&
			fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISDIR(st.st_mode))
			e->d_type = DT_DIR;
		if (e->d_type != DT_DIR)
			continue;
		strcpy(name + n, "/");
		add_below(w, name);
	}
	if (d)
		(void)closedir(d); /* read-only */
}

static void read_pending(struct watch *w)
{
	for (int i = 0; i < ADDED_PER_ROUND && w->pending_count && conn_has_room(w->conn); i++) {
		char *path = w->pending[--w->pending_count];

		read_directory(w, path);
		free(path);
		if (w->conn->dead)
			return;
	}
	if (!w->pending_count)
		w->settled = true;
}

/* A directory was moved away: forgets everything below it, which is no longer below the root. */
static void forget_below(struct watch *w, const char *relative)
{
	size_t n = strlen(relative);

	for (unsigned i = w->count; i-- > 0;) {
		if (strncmp(w->dirs[i].path, relative, n) != 0)
			continue;
		(void)inotify_rm_watch(w->inotify.fd, w->dirs[i].wd); /* it may be gone */
		remove_directory(w, &w->dirs[i]);
	}
}

/* --- the kernel's events --- */

static enum agent_watch_kind kind_of(uint32_t mask)
{
	if (mask & (IN_CREATE | IN_MOVED_TO))
		return AGENT_WATCH_CREATE;
	if (mask & IN_DELETE)
		return AGENT_WATCH_REMOVE;
	if (mask & IN_MOVED_FROM)
		return AGENT_WATCH_RENAME;
	return mask & IN_MODIFY ? AGENT_WATCH_WRITE : AGENT_WATCH_CHMOD;
}

static void handle_named(struct watch *w, const struct directory *d, const struct inotify_event *ev)
{
	char name[AGENT_PATH_MAX + 2];
	int n = snprintf(name, AGENT_PATH_MAX, "%s%s", d->path, ev->name);

	if (n < 0 || n >= AGENT_PATH_MAX)
		return;
	send_event(w, kind_of(ev->mask), name);
	if (w->conn->dead) /* then w->dirs is freed */
		return;
	if (!(ev->mask & IN_ISDIR) || !(w->flags & AGENT_WATCH_RECURSIVE))
		return;
	strcpy(name + n, "/");
	if (ev->mask & IN_MOVED_FROM)
		forget_below(w, name);
	else if (ev->mask & (IN_CREATE | IN_MOVED_TO))
		add_below(w, name);
}

static void handle_event(struct watch *w, const struct inotify_event *ev)
{
	struct directory *d;

	if (ev->mask & IN_Q_OVERFLOW) {
		w->lost_some = false;
		overflow(w);
		return;
	}
	d = find_directory(w, ev->wd);
	if (!d)
		return;
	if (ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT))
		w->gone |= !d->path[0];
	if (ev->mask & IN_IGNORED)
		remove_directory(w, d);
	else if (ev->len)
		handle_named(w, d, ev);
}

static void watch_end(struct watch *w, enum agent_type type)
{
	struct conn *c = w->conn;

	watch_free(w);
	conn_end_stream(c);
	conn_send(c, type, NULL);
}

static void next_round(struct timer *t);

static void watch_go_on(struct watch *w)
{
	if (w->conn->dead)
		return;
	if (w->gone) {
		send_event(w, AGENT_WATCH_GONE, "");
		if (!w->conn->dead)
			watch_end(w, AGENT_END);
		return;
	}
	/* Without space, read no new events: the kernel's queue is bounded and reports an
	 * overflow. */
	(void)source_wait(&w->inotify, conn_has_room(w->conn) ? EPOLLIN : 0);
	if (w->pending_count)
		timer_set(&w->next_round, 0, next_round);
}

/* Continues the walk after the other sources had their turn. */
static void next_round(struct timer *t)
{
	struct watch *w = (void *)((char *)t - offsetof(struct watch, next_round));

	read_pending(w);
	if (!w->conn->dead)
		watch_go_on(w);
}

static void inotify_ready(struct source *s, uint32_t events)
{
	union {
		struct inotify_event event;
		char bytes[4096];
	} u;
	struct watch *w = (struct watch *)s;
	ssize_t n = read(s->fd, &u, sizeof(u));
	ssize_t pos = 0;

	while (pos < n && !w->conn->dead) {
		const struct inotify_event *ev = (const void *)(u.bytes + pos);

		handle_event(w, ev);
		pos += (ssize_t)(sizeof(*ev) + ev->len);
	}
	if (w->conn->dead)
		return;
	read_pending(w);
	watch_go_on(w);
}

/* --- the stream --- */

static bool watch_message(struct conn *c, const struct agent_frame *f)
{
	if (f->type != AGENT_STOP)
		return false;
	watch_end(c->stream, AGENT_END);
	return true;
}

static void watch_room(struct conn *c)
{
	struct watch *w = c->stream;

	read_pending(w);
	if (!c->dead)
		watch_go_on(w);
}

static void watch_lost(struct conn *c)
{
	watch_free(c->stream);
}

static const struct stream_ops watch_ops = {watch_message, watch_room, watch_lost};

static bool on_network(const char *path)
{
	static const uint32_t magics[] = {0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x65735546};
	struct statfs st;

	if (statfs(path, &st) < 0)
		return false;
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if ((uint32_t)st.f_type == magics[i])
			return true;
	return false;
}

static int watch_open(struct watch *w)
{
	struct stat st;
	int fd;

	if (stat(w->path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (fd < 0)
		return -errno;
	source_open(&w->inotify, fd, inotify_ready);
	w->root_length = strcmp(w->path, "/") == 0 ? 0 : strlen(w->path);
	return add_directory(w, "");
}

void request_watch(struct conn *c, const struct agent_frame *f)
{
	struct agent_watch m;
	struct watch *w;
	int r;

	if (!conn_decode(c, f, &m) || !conn_check_flags(c, AGENT_WATCH, m.flags, WATCH_FLAGS))
		return;
	w = calloc(1, sizeof(*w));
	if (!w) {
		conn_error(c, AGENT_ERR_LIMIT, AGENT_WATCH, ENOMEM, "the agent");
		return;
	}
	w->inotify.fd = -1;
	w->conn = c;
	w->flags = m.flags;
	w->settled = !(m.flags & AGENT_WATCH_RECURSIVE);
	if (!files_resolve(c, AGENT_WATCH, m.user, m.path, NULL, w->path)) {
		watch_free(w);
		return;
	}
	if (!(m.flags & AGENT_WATCH_NETWORK_MOUNTS) && on_network(w->path)) {
		conn_error(c, AGENT_ERR_INVALID, AGENT_WATCH, 0,
			"%s is on a network file system, where changes can go unseen", w->path);
		watch_free(w);
		return;
	}
	r = watch_open(w);
	if (r < 0) {
		w->path[w->root_length ? w->root_length : strlen(w->path)] = '\0';
		files_error(c, AGENT_WATCH, -r, w->path);
		watch_free(w);
		return;
	}
	conn_send(c, AGENT_OK, NULL);
	conn_take_over(c, &watch_ops, w);
	if (w->settled)
		(void)source_wait(&w->inotify, EPOLLIN); /* also done as soon as there is space */
}
