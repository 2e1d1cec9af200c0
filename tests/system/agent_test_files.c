/* Files, watching and dialling. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent_test.h"
#include "base/clock.h"
#include "base/fd.h"

static char path_text[8][5000];

/* NAME below the test's directory; eight of them live at a time. */
static const char *in_work(const char *name)
{
	static unsigned next;
	char *p = path_text[next++ % 8];

	(void)snprintf(p, 5000, "%s/%s", work_dir, name);
	return p;
}

static void put(const char *name, const char *text)
{
	int fd = open(in_work(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || fd_write_full(fd, text, strlen(text)) < 0)
		test_fail("cannot write %s", name);
	if (fd >= 0)
		(void)close(fd);
}

static unsigned refused(enum agent_type type, const void *m)
{
	struct agent_event ev = {0};

	if (agent_call(dial_agent(), soon(), type, m, AGENT_OK, &ev, NULL) == 0)
		return 0;
	return ev.type == AGENT_ERROR ? ev.error.class : 1000;
}

static void test_stat(void)
{
	struct agent_conn *c = dial_agent();
	struct agent_entry e;
	struct stat st;

	put("stat-me", "12345");
	CHECK(chmod(in_work("stat-me"), 04750) == 0);
	(void)!symlink("stat-me", in_work("stat-link"));
	(void)!symlink("nowhere", in_work("stat-dangling"));
	CHECK(stat(in_work("stat-me"), &st) == 0);
	CHECK(agent_stat(c, soon(), in_work("x/.././/stat-me"), 0, &e, NULL) == 0);
	CHECK(e.size == 5 && e.mode == (S_IFREG | 04750) && e.uid == st.st_uid);
	CHECK(strcmp(e.path, in_work("stat-me")) == 0 && e.target[0] == '\0');
	CHECK(e.mtime_ns == st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
	CHECK(st.st_uid != 0 || strcmp(e.owner, "root") == 0);
	CHECK(agent_stat(c, soon(), in_work("stat-link"), AGENT_STAT_RESOLVE, &e, NULL) == 0);
	CHECK(S_ISLNK(e.mode) && strcmp(e.target, "stat-me") == 0);
	CHECK(e.target_mode == (S_IFREG | 04750) && strcmp(e.resolved, in_work("stat-me")) == 0);
	CHECK(agent_stat(c, soon(), in_work("stat-link"), AGENT_STAT_FOLLOW, &e, NULL) == 0);
	CHECK(S_ISREG(e.mode));
	CHECK(agent_stat(c, soon(), in_work("stat-dangling"), AGENT_STAT_RESOLVE, &e, NULL) == 0);
	CHECK(e.target_mode == 0 && e.resolved[0] == '\0');
	CHECK(agent_stat(c, soon(), "~", 0, &e, NULL) == 0 && S_ISDIR(e.mode));
	CHECK(refused(AGENT_STAT, &(struct agent_stat){.path = in_work("missing")}) ==
		AGENT_ERR_NOT_FOUND);
	CHECK(refused(AGENT_STAT, &(struct agent_stat){.path = "~other/x"}) == AGENT_ERR_INVALID);
	CHECK(refused(AGENT_STAT, &(struct agent_stat){.path = "x", .user = "nosuchuser"}) ==
		AGENT_ERR_BAD_USER);
	CHECK(refused(AGENT_STAT, &(struct agent_stat){.path = "/", .flags = 0x1000}) ==
		AGENT_ERR_UNSUPPORTED);
}

static void test_read_write(void)
{
	enum { N = 3 << 20 };
	struct agent_write w = {
		.flags = AGENT_WRITE_PARENTS, .mode = 0640, .path = in_work("a/b/file")};
	uint8_t *data = malloc(N), *back = NULL;
	struct agent_conn *c = dial_agent();
	struct agent_entry e;
	size_t n = 0;
	bool same;

	for (size_t i = 0; i < N; i++)
		data[i] = (uint8_t)(i * 2654435761U >> 13);
	same = agent_write_file(c, soon(), &w, data, N, NULL) == 0 &&
	       agent_read_file(c, soon(), w.path, N, &back, &n, NULL) == 0 && n == N &&
	       memcmp(data, back, N) == 0;
	free(back);
	CHECK(agent_read_file(c, soon(), w.path, N - 1, &back, &n, NULL) == -EFBIG);
	c = dial_agent();
	CHECK(same && agent_stat(c, soon(), w.path, 0, &e, NULL) == 0);
	CHECK(e.size == N && e.mode == (S_IFREG | 0640));
	/* A shorter one replaces it; the mode of what exists stays. */
	w.mode = 0600;
	CHECK(agent_write_file(c, soon(), &w, "tail", 4, NULL) == 0);
	w.flags = AGENT_WRITE_APPEND;
	CHECK(agent_write_file(c, soon(), &w, "+end", 4, NULL) == 0);
	w.flags = AGENT_WRITE_KEEP;
	w.offset = 2;
	CHECK(agent_write_file(c, soon(), &w, "XX", 2, NULL) == 0);
	CHECK(agent_read_file(c, soon(), w.path, 100, &back, &n, NULL) == 0);
	same = n == 8 && memcmp(back, "taXX+end", 8) == 0;
	free(back);
	CHECK(same && agent_stat(c, soon(), w.path, 0, &e, NULL) == 0 && (e.mode & 0777) == 0640);
	w.flags = AGENT_WRITE_EXCLUSIVE;
	CHECK(agent_write_file(c, soon(), &w, data, N, NULL) == -EEXIST);
	free(data);
	w.path = in_work("empty");
	w.offset = 0;
	CHECK(agent_write_file(c, soon(), &w, NULL, 0, NULL) == 0);
	CHECK(agent_read_file(c, soon(), w.path, 100, &back, &n, NULL) == 0 && n == 0);
	free(back);
}

static void test_read_part(void)
{
	struct agent_conn *c = dial_agent();
	struct agent_event ev;
	struct agent_read m = {.offset = 3, .length = 4, .path = in_work("part")};

	put("part", "0123456789");
	CHECK(agent_request(c, AGENT_READ, &m, NULL) == 0);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_ENTRY);
	CHECK(ev.entry.size == 10);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_DATA);
	CHECK(ev.length == 4 && memcmp(ev.data, "3456", 4) == 0);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_END);
	m.offset = UINT64_MAX;
	CHECK(agent_request(c, AGENT_READ, &m, NULL) == 0);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_ENTRY);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_END);
}

static void test_file_errors(void)
{
	struct agent_write w = {.mode = 0644, .path = in_work("no/parents")};
	static uint8_t zeros[300000];
	struct agent_conn *c = dial_agent();
	struct error e = {0};
	struct agent_entry entry;

	(void)mkfifo(in_work("fifo"), 0600);
	CHECK(agent_write_file(c, soon(), &w, zeros, sizeof(zeros), &e) == -ENOENT);
	CHECK(e.code == ERROR_NOT_FOUND && strstr(e.message, "no/parents"));
	w.path = work_dir;
	CHECK(agent_write_file(c, soon(), &w, "x", 1, NULL) == -EISDIR);
	w.path = in_work("fifo");
	CHECK(agent_write_file(c, soon(), &w, "x", 1, NULL) == -EINVAL);
	w.path = "/dev/full";
	CHECK(agent_write_file(c, soon(), &w, "x", 1, NULL) == -EINVAL);
	/* The connection survived all that. */
	CHECK(agent_stat(c, soon(), "/", 0, &entry, NULL) == 0);
	CHECK(refused(AGENT_READ, &(struct agent_read){.path = work_dir}) ==
		AGENT_ERR_IS_DIRECTORY);
	CHECK(refused(AGENT_READ, &(struct agent_read){.path = in_work("fifo")}) ==
		AGENT_ERR_NOT_FILE);
	CHECK(refused(AGENT_READ, &(struct agent_read){.path = "/dev/zero"}) == AGENT_ERR_NOT_FILE);
	CHECK(refused(AGENT_READ, &(struct agent_read){.path = in_work("none")}) ==
		AGENT_ERR_NOT_FOUND);
}

/* A full disk is told at once, while the client is still sending. */
static void test_no_space(void)
{
	const char *small = getenv("AGENT_TEST_SMALL_FS");
	struct agent_write w = {.mode = 0644};
	struct agent_conn *c = dial_agent();
	struct error e = {0};
	char path[5000];
	uint8_t *data;
	int r;

	if (!small) {
		test_skip("no small file system ($AGENT_TEST_SMALL_FS)");
		return;
	}
	(void)snprintf(path, sizeof(path), "%s/big", small);
	w.path = path;
	data = calloc(1, 8 << 20);
	r = agent_write_file(c, soon(), &w, data, 8 << 20, &e);
	free(data);
	if (r != -ENOSPC)
		test_fail("%d: %s", r, e.message);
	CHECK(r == -ENOSPC && e.code == ERROR_NO_SPACE);
	CHECK(agent_remove(c, soon(), path, 0, NULL) == 0);
}

static void test_directories(void)
{
	struct agent_conn *c = dial_agent();
	struct agent_mkdir d = {.mode = 0755, .path = in_work("d/e/f")};
	struct agent_move m = {.from = in_work("d"), .to = in_work("moved/to/d")};
	struct agent_entry e;

	CHECK(agent_mkdir(c, soon(), &d, NULL) == -ENOENT);
	d.flags = AGENT_MKDIR_PARENTS;
	CHECK(agent_mkdir(c, soon(), &d, NULL) == 0);
	CHECK(agent_mkdir(c, soon(), &d, NULL) == -EEXIST);
	put("d/e/f/file", "x");
	d.path = in_work("d/e/f/file");
	CHECK(agent_mkdir(c, soon(), &d, NULL) == -ENOTDIR);
	CHECK(agent_move(c, soon(), &m, NULL) == -ENOENT);
	m.flags = AGENT_MOVE_PARENTS;
	CHECK(agent_move(c, soon(), &m, NULL) == 0);
	CHECK(agent_stat(c, soon(), in_work("moved/to/d/e/f/file"), 0, &e, NULL) == 0);
	CHECK(agent_remove(c, soon(), in_work("moved"), 0, NULL) == -ENOTEMPTY);
	(void)!symlink("/", in_work("moved/root"));
	CHECK(agent_remove(c, soon(), in_work("moved"), AGENT_REMOVE_RECURSIVE, NULL) == 0);
	CHECK(agent_stat(c, soon(), in_work("moved"), 0, &e, NULL) == -ENOENT);
	CHECK(agent_remove(c, soon(), in_work("moved"), AGENT_REMOVE_RECURSIVE, NULL) == 0);
	CHECK(access("/bin/sh", X_OK) == 0);
	CHECK(refused(AGENT_REMOVE, &(struct agent_remove){AGENT_REMOVE_RECURSIVE, "",
					    "/tmp/.."}) == AGENT_ERR_INVALID);
	put("mv-a", "a");
	put("mv-b", "b");
	m = (struct agent_move){AGENT_MOVE_NO_REPLACE, "", in_work("mv-a"), in_work("mv-b")};
	CHECK(agent_move(c, soon(), &m, NULL) == -EEXIST);
	m.flags = 0;
	CHECK(agent_move(c, soon(), &m, NULL) == 0);
}

static void list_names(const struct agent_list *m, struct buf *out)
{
	struct agent_conn *c = dial_agent();
	struct agent_event ev;

	buf_clear(out);
	if (agent_request(c, AGENT_LIST, m, NULL) < 0)
		return;
	while (agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_ENTRY)
		(void)buf_printf(out, "%s ", ev.entry.path + strlen(m->path) + 1);
	if (ev.type == AGENT_ERROR)
		(void)buf_printf(out, "error %u", ev.error.class);
	else if (ev.type != AGENT_END)
		test_fail("LIST ended with %s", agent_type_name(ev.type));
}

static void test_listing(void)
{
	struct agent_list m = {.depth = 1, .path = in_work("tree")};
	struct buf out = BUF_INIT(1 << 20);
	char name[64];

	(void)mkdir(in_work("tree"), 0755);
	(void)mkdir(in_work("tree/b"), 0755);
	(void)mkdir(in_work("tree/b/c"), 0755);
	put("tree/a", "");
	put("tree/b/z", "");
	put("tree/b/c/deep", "");
	(void)!symlink("b", in_work("tree/link"));
	(void)!symlink("tree", in_work("tree-link"));
	list_names(&m, &out);
	CHECK(output_is(&out, "a b link "));
	m.depth = 2;
	list_names(&m, &out);
	CHECK(output_is(&out, "a b b/c b/z link "));
	m.depth = 64;
	m.path = in_work("tree-link");
	list_names(&m, &out);
	CHECK(output_is(&out, "a b b/c b/c/deep b/z link "));
	m.depth = 65;
	list_names(&m, &out);
	CHECK(output_is(&out, "error 4"));
	m.depth = 1;
	m.path = in_work("tree/a");
	list_names(&m, &out);
	CHECK(output_is(&out, "error 11"));
	m.path = in_work("no-tree");
	list_names(&m, &out);
	CHECK(output_is(&out, "error 7"));
	(void)mkdir(in_work("many"), 0755);
	for (int i = 0; i < 3000; i++) {
		(void)snprintf(name, sizeof(name), "many/f%04d", i);
		put(name, "");
	}
	m.path = in_work("many");
	list_names(&m, &out);
	CHECK(buf_len(&out) == 3000 * 6);
	buf_done(&out);
}

static void test_attributes(void)
{
	static const char *const pairs[] = {
		"user.e2b.k", "v 1", "user.e2b.k2", "", "user.other", "o"};
	struct agent_set_attr a = {
		.flags = AGENT_SET_MODE | AGENT_SET_MTIME, .mode = 0600, .mtime_ns = 1500000000};
	struct agent_set_xattrs x = {.pairs = {.array = pairs, .count = 6}, .prefix = "user.e2b."};
	struct agent_conn *c = dial_agent();
	struct agent_entry e;
	size_t pos = 0;
	const char *s;
	int r;

	put("attr", "");
	a.path = x.path = in_work("attr");
	CHECK(agent_set_attr(c, soon(), &a, NULL) == 0);
	CHECK(agent_stat(c, soon(), a.path, 0, &e, NULL) == 0);
	CHECK(e.mode == (S_IFREG | 0600) && e.mtime_ns == 1500000000);
	if (geteuid() == 0) {
		a = (struct agent_set_attr){
			.flags = AGENT_SET_OWNER, .owner = "12:34", .path = a.path};
		CHECK(agent_set_attr(c, soon(), &a, NULL) == 0);
		CHECK(agent_stat(c, soon(), a.path, 0, &e, NULL) == 0 && e.uid == 12 &&
			e.gid == 34);
		a.owner = "nosuchuser";
		CHECK(refused(AGENT_SET_ATTR, &a) == AGENT_ERR_BAD_USER);
	}
	r = agent_set_xattrs(c, soon(), &x, NULL);
	if (r == -EOPNOTSUPP) {
		test_skip("no extended attributes on this file system");
		return;
	}
	CHECK(r == 0 && agent_stat(c, soon(), a.path, AGENT_STAT_XATTRS, &e, NULL) == 0);
	CHECK(e.xattrs.count == 6);
	x.flags = AGENT_XATTRS_REPLACE;
	x.pairs.count = 2;
	CHECK(agent_set_xattrs(c, soon(), &x, NULL) == 0);
	CHECK(agent_stat(c, soon(), a.path, AGENT_STAT_XATTRS, &e, NULL) == 0);
	CHECK(e.xattrs.count == 4); /* k and other */
	while (agent_strings_next(&e.xattrs, &pos, &s))
		CHECK(strcmp(s, "user.e2b.k2") != 0);
	x.pairs.count = 1;
	CHECK(refused(AGENT_SET_XATTRS, &x) == AGENT_ERR_INVALID);
}

static bool has_capability(const struct agent_entry *e)
{
	size_t pos = 0;
	const char *s;

	while (agent_strings_next(&e->xattrs, &pos, &s))
		if (strcmp(s, "security.capability") == 0)
			return agent_strings_next(&e->xattrs, &pos, &s) &&
			       strcmp(s, "0100000200040000000000000000000000000000") == 0;
	return false;
}

static void test_capability(void)
{
	static const char *const pairs[] = {"security.capability",
		"0100000200040000000000000000000000000000", "user.beside", "v"};
	static const char *const bad[] = {"x", "010", "0g", "security.capability"};
	const char *changed[] = {"security.capability", ""};
	struct agent_set_xattrs x = {.flags = AGENT_XATTRS_CAPABILITY,
		.pairs = {.array = pairs, .count = 4},
		.prefix = ""};
	const uint32_t both = AGENT_STAT_XATTRS | AGENT_STAT_CAPABILITY;
	struct agent_conn *c = dial_agent();
	struct agent_entry e;
	int r;

	put("capable", "");
	x.path = in_work("capable");
	r = agent_set_xattrs(c, soon(), &x, NULL);
	if (r == -EOPNOTSUPP || r == -EPERM) {
		test_skip("capabilities of files cannot be set here");
		return;
	}
	CHECK(r == 0 && agent_stat(c, soon(), x.path, both, &e, NULL) == 0 && has_capability(&e));
	CHECK(agent_stat(c, soon(), x.path, AGENT_STAT_XATTRS, &e, NULL) == 0);
	CHECK(!has_capability(&e) && e.xattrs.count == 2);
	x.pairs = (struct agent_strings){.array = changed, .count = 2};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		changed[1] = bad[i];
		CHECK(agent_set_xattrs(c, soon(), &x, NULL) < 0);
	}
	changed[0] = "security.other";
	changed[1] = pairs[1];
	CHECK(agent_set_xattrs(c, soon(), &x, NULL) < 0);
	changed[0] = pairs[0];
	x.flags = 0;
	CHECK(agent_set_xattrs(c, soon(), &x, NULL) < 0);
	CHECK(agent_stat(c, soon(), x.path, both, &e, NULL) == 0 && has_capability(&e));
}

/* --- watching --- */

struct seen {
	struct agent_conn *c;
	struct buf text; /* "kind:name " ... */
};

/* Waits until the events seen so far contain what is wanted. */
static bool see(struct seen *s, const char *wanted)
{
	uint64_t deadline = clock_monotonic_ns() + 3 * NS_PER_S;
	struct agent_event ev;

	while (!memmem(buf_head(&s->text), buf_len(&s->text), wanted, strlen(wanted))) {
		if (agent_wait_event(s->c, deadline, &ev, NULL) != 1 ||
			(ev.type != AGENT_WATCH_EVENT && ev.type != AGENT_END)) {
			test_fail("saw '%.*s', not %s", (int)buf_len(&s->text),
				(const char *)buf_head(&s->text), wanted);
			return false;
		}
		if (ev.type == AGENT_END)
			(void)buf_add_str(&s->text, "end ");
		else
			(void)buf_printf(&s->text, "%u:%s%s ", ev.watch.kind, ev.watch.name,
				ev.watch.entry_bytes ? "!" : "");
	}
	return true;
}

static bool watch(struct seen *s, const char *path, unsigned flags)
{
	struct agent_watch m = {.flags = flags, .path = path};
	struct agent_event ev;

	s->c = dial_agent();
	buf_init(&s->text, 1 << 20);
	(void)buf_add_str(&s->text, " ");
	return agent_call(s->c, soon(), AGENT_WATCH, &m, AGENT_OK, &ev, NULL) == 0;
}

static void test_watch(void)
{
	struct seen s;
	struct agent_event ev;

	(void)mkdir(in_work("w"), 0755);
	(void)mkdir(in_work("w/sub"), 0755);
	CHECK(watch(&s, in_work("w"), 0));
	put("w/f", "text");
	CHECK(see(&s, " 1:f ") && see(&s, " 2:f "));
	CHECK(chmod(in_work("w/f"), 0600) == 0 && see(&s, " 5:f "));
	CHECK(rename(in_work("w/f"), in_work("w/g")) == 0 && see(&s, " 4:f ") && see(&s, " 1:g "));
	CHECK(unlink(in_work("w/g")) == 0 && see(&s, " 3:g "));
	put("w/sub/unseen", "");
	put("w/last", "");
	CHECK(see(&s, " 1:last "));
	CHECK(!memmem(buf_head(&s.text), buf_len(&s.text), "unseen", 6));
	CHECK(agent_request(s.c, AGENT_STOP, NULL, NULL) == 0);
	while (agent_wait_event(s.c, soon(), &ev, NULL) == 1 && ev.type == AGENT_WATCH_EVENT)
		;
	CHECK(ev.type == AGENT_END);
	buf_done(&s.text);
}

static void test_watch_recursive(void)
{
	struct seen s;

	(void)mkdir(in_work("r"), 0755);
	(void)mkdir(in_work("r/old"), 0755);
	(void)mkdir(in_work("r/old/er"), 0755);
	CHECK(watch(&s, in_work("r"), AGENT_WATCH_RECURSIVE | AGENT_WATCH_ENTRY));
	usleep(100000); /* the first walk is not waited for */
	put("r/old/er/f", "");
	CHECK(see(&s, " 1:old/er/f! "));
	CHECK(mkdir(in_work("r/new"), 0755) == 0 && mkdir(in_work("r/new/x"), 0755) == 0);
	put("r/new/x/f", "");
	CHECK(see(&s, " 1:new! ") && see(&s, " 1:new/x! ") && see(&s, " 1:new/x/f! "));
	CHECK(rename(in_work("r/new"), in_work("r/named")) == 0);
	CHECK(see(&s, " 4:new ") && see(&s, " 1:named! "));
	usleep(100000);
	put("r/named/x/g", "");
	CHECK(see(&s, " 1:named/x/g! "));
	CHECK(unlink(in_work("r/named/x/g")) == 0 && see(&s, " 3:named/x/g "));
	CHECK(agent_remove(dial_agent(), soon(), in_work("r"), AGENT_REMOVE_RECURSIVE, NULL) == 0);
	CHECK(see(&s, " 7: end "));
	buf_done(&s.text);
	CHECK(!watch(&s, in_work("r"), 0));
	buf_done(&s.text);
	put("plain", "");
	CHECK(refused(AGENT_WATCH, &(struct agent_watch){.path = in_work("plain")}) ==
		AGENT_ERR_NOT_DIRECTORY);
}

/* More appears at once than a connection takes: that is told, and the watch goes on. */
static void test_watch_flood(void)
{
	enum { FILES = 40000 };
	struct agent_event ev = {0};
	struct seen s;
	unsigned created = 0;
	char name[64];

	(void)mkdir(in_work("flood"), 0755);
	(void)mkdir(in_work("big"), 0755);
	for (unsigned i = 0; i < FILES; i++) {
		(void)snprintf(name, sizeof(name), "big/%040u", i);
		put(name, "");
	}
	CHECK(watch(&s, in_work("flood"), AGENT_WATCH_RECURSIVE));
	usleep(100000);
	CHECK(rename(in_work("big"), in_work("flood/big")) == 0);
	while (agent_wait_event(s.c, soon(), &ev, NULL) == 1 && ev.type == AGENT_WATCH_EVENT &&
		ev.watch.kind != AGENT_WATCH_OVERFLOW)
		created += ev.watch.kind == AGENT_WATCH_CREATE;
	CHECK(ev.type == AGENT_WATCH_EVENT && ev.watch.kind == AGENT_WATCH_OVERFLOW);
	CHECK(created > 1000 && created < FILES);
	put("flood/last", "");
	CHECK(see(&s, " 1:last "));
	buf_done(&s.text);
	CHECK(agent_remove(dial_agent(), soon(), in_work("flood"), AGENT_REMOVE_RECURSIVE, NULL) ==
		0);
}

/* --- dialling --- */

static int listen_tcp(int family, uint16_t *port)
{
	struct sockaddr_in6 sa = {0};
	struct sockaddr_in *v4 = (void *)&sa;
	socklen_t n = sizeof(sa);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (family == AF_INET) {
		v4->sin_family = AF_INET;
		v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	} else {
		sa.sin6_family = AF_INET6;
		sa.sin6_addr = in6addr_loopback;
	}
	if (fd < 0 || bind(fd, (void *)&sa, family == AF_INET ? sizeof(*v4) : sizeof(sa)) < 0 ||
		listen(fd, 4) < 0 || getsockname(fd, (void *)&sa, &n) < 0)
		return -1;
	*port = ntohs(sa.sin6_port); /* at the same place in both */
	return fd;
}

/* Sends all the bytes of a child's peer back, in reverse order of who ends first. */
static void echo_until_end(int listener)
{
	uint8_t bytes[4096];
	int fd = accept(listener, NULL, NULL);
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		if (fd_write_full(fd, bytes, (size_t)n) < 0)
			break;
	(void)!write(fd, "bye", 3);
	_exit(0);
}

static bool exchange(int fd, size_t total)
{
	size_t sent = 0, received = 0;
	uint8_t bytes[65536];

	while (received < total + 3) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		if (sent < total)
			p.events |= POLLOUT;
		if (poll(&p, 1, 10000) != 1)
			return false;
		if (p.revents & POLLOUT) {
			size_t part = total - sent < sizeof(bytes) ? total - sent : sizeof(bytes);

			for (size_t i = 0; i < part; i++)
				bytes[i] = (uint8_t)((sent + i) % 251);
			n = send(fd, bytes, part, MSG_DONTWAIT);
			sent += n > 0 ? (size_t)n : 0;
			if (sent == total)
				(void)shutdown(fd, SHUT_WR);
		}
		if (!(p.revents & POLLIN))
			continue;
		n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n <= 0)
			return false;
		for (ssize_t i = 0; i < n; i++, received++)
			if (received < total && bytes[i] != (uint8_t)(received % 251))
				return false;
	}
	return received == total + 3 && read(fd, bytes, 1) == 0;
}

static void dial_and_exchange(int family)
{
	struct agent_conn *c = NULL;
	uint8_t *early = NULL;
	size_t early_bytes;
	uint16_t port = 0;
	int listener = listen_tcp(family, &port), fd = raw_socket();
	pid_t pid;

	CHECK(listener >= 0);
	pid = fork();
	if (pid == 0)
		echo_until_end(listener);
	(void)close(listener);
	CHECK(agent_open(fd, AGENT_OPEN_PREAMBLE, &c, NULL) == 0);
	CHECK(agent_dial(c, soon(), NULL, port, NULL) == 0);
	fd = agent_take_fd(c, &early, &early_bytes);
	CHECK(fd >= 0 && early_bytes == 0);
	CHECK(exchange(fd, 2 << 20));
	(void)close(fd);
}

static void test_dial(void)
{
	struct agent_dial none = {.port = 1, .host = "127.0.0.1"};

	dial_and_exchange(AF_INET);
	dial_and_exchange(AF_INET6);
	CHECK(refused(AGENT_DIAL, &none) == AGENT_ERR_REFUSED);
	none.host = "";
	CHECK(refused(AGENT_DIAL, &none) == AGENT_ERR_REFUSED);
	none.host = "no-address";
	CHECK(refused(AGENT_DIAL, &none) == AGENT_ERR_INVALID);
}

/* All of a short exchange in one write, its end included. */
static void test_dial_pipelined(void)
{
	static const struct agent_hello hello = {1, 1};
	struct buf out = BUF_INIT(4096);
	struct agent_dial m;
	uint16_t port = 0;
	int listener = listen_tcp(AF_INET, &port), fd = raw_socket();
	uint8_t got[512];
	size_t n = 0;
	ssize_t k;

	CHECK(listener >= 0 && fd >= 0);
	if (fork() == 0)
		echo_until_end(listener);
	(void)close(listener);
	m = (struct agent_dial){.port = port};
	CHECK(agent_hello_encode(&out, &hello) == 0 && agent_dial_encode(&out, &m) == 0);
	CHECK(buf_add_str(&out, "early bytes;") == 0);
	CHECK(fd_write_full(fd, buf_head(&out), buf_len(&out)) == 0);
	CHECK(shutdown(fd, SHUT_WR) == 0);
	while (n < sizeof(got) && (k = read(fd, got + n, sizeof(got) - n)) > 0)
		n += (size_t)k;
	(void)close(fd);
	buf_done(&out);
	CHECK(n > 15 && memcmp(got + n - 15, "early bytes;bye", 15) == 0);
}

const struct test file_tests[] = {
	{"stat", test_stat},
	{"read and write", test_read_write},
	{"read part", test_read_part},
	{"file errors", test_file_errors},
	{"no space", test_no_space},
	{"directories", test_directories},
	{"listing", test_listing},
	{"attributes", test_attributes},
	{"capability", test_capability},
	{"watch", test_watch},
	{"watch recursive", test_watch_recursive},
	{"watch of a flood", test_watch_flood},
	{"dial", test_dial},
	{"dial pipelined", test_dial_pipelined},
	{NULL, NULL},
};
