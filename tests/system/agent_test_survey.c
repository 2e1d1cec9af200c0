/* LIST_TASKS, TREE, FREEZE and HOLD: what there is in a guest, and that it stands still. */
#include "agent_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

static const char *in_work(const char *name)
{
	static char path[2][sizeof(work_dir) + 64];
	static unsigned i;

	i = !i;
	(void)snprintf(path[i], sizeof(path[i]), "%s/%s", work_dir, name); /* fits */
	return path[i];
}

static void put(const char *name, const char *text)
{
	int fd = open(in_work(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		test_fail("cannot write %s", name);
	(void)close(fd); /* written */
}

/* Names relative to `below`, with letters for what they are; then how it ended. */
static void tree_names(const char *path, const char *below, struct buf *out)
{
	struct agent_conn *c = dial_agent();
	const struct agent_tree m = {.path = path};
	struct agent_event ev;

	buf_clear(out);
	if (agent_request(c, AGENT_TREE, &m, NULL) < 0)
		return;
	while (agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_NODE)
		(void)buf_printf(out, "%c%s ",
			S_ISDIR(ev.node.mode)	? 'd'
			: S_ISLNK(ev.node.mode) ? 'l'
						: 'f',
			ev.node.path + strlen(below) + 1);
	if (ev.type == AGENT_ERROR)
		(void)buf_printf(out, "error %u", ev.error.class);
	else if (ev.type != AGENT_END)
		test_fail("TREE ended with %s", agent_type_name(ev.type));
}

static void test_tree(void)
{
	struct buf out = BUF_INIT(1 << 20);
	char top[sizeof(work_dir) + 64];

	strcpy(top, in_work("survey"));
	(void)mkdir(top, 0755);
	(void)mkdir(in_work("survey/b"), 0755);
	(void)mkdir(in_work("survey/b/c"), 0755);
	(void)mkdir(in_work("survey/b!"), 0755); /* sorts before "b/" by plain bytes */
	put("survey/a", "");
	put("survey/b/c/deep", "");
	(void)!symlink("b", in_work("survey/link"));
	(void)!symlink("survey", in_work("survey-link"));
	tree_names(top, top, &out);
	CHECK(output_is(&out, "fa db db/c fb/c/deep db! llink "));
	tree_names(in_work("survey-link"), top, &out);
	CHECK(output_is(&out, "fa db db/c fb/c/deep db! llink "));
	tree_names(in_work("survey/a"), top, &out);
	CHECK(output_is(&out, "error 11"));
	tree_names(in_work("survey/none"), top, &out);
	CHECK(output_is(&out, "error 7"));
	buf_done(&out);
}

/* One node of a tree, into ret; its strings are gone. */
static bool find_node(const char *top, const char *path, struct agent_node *ret, char *target)
{
	struct agent_conn *c = dial_agent();
	const struct agent_tree m = {.path = top};
	struct agent_event ev;
	bool found = false;

	if (agent_request(c, AGENT_TREE, &m, NULL) < 0)
		return false;
	while (agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_NODE)
		if (strcmp(ev.node.path, path) == 0) {
			*ret = ev.node;
			strcpy(target, ev.node.target);
			found = true;
		}
	return found && ev.type == AGENT_END;
}

static void test_node(void)
{
	char top[sizeof(work_dir) + 64], file[sizeof(top) + 8], target[AGENT_PATH_MAX + 1];
	struct agent_node n;
	struct stat st;

	strcpy(top, in_work("nodes"));
	(void)mkdir(top, 0755);
	put("nodes/file", "12345");
	strcpy(file, in_work("nodes/file"));
	CHECK(stat(file, &st) == 0 && find_node(top, file, &n, target));
	CHECK(n.mode == st.st_mode && n.uid == st.st_uid && n.gid == st.st_gid && n.size == 5);
	CHECK(n.inode == st.st_ino && n.device == 0 && !target[0]);
	CHECK(n.mtime_ns == (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
	CHECK(n.ctime_ns == (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec);
	(void)!symlink("to nowhere", in_work("nodes/link"));
	CHECK(find_node(top, in_work("nodes/link"), &n, target));
	CHECK(S_ISLNK(n.mode) && strcmp(target, "to nowhere") == 0);
}

/* More than fits any queue, deeper than LIST goes. */
static void test_large_tree(void)
{
	struct buf out = BUF_INIT(16 << 20);
	char path[sizeof(work_dir) + 400], name[32];
	unsigned count = 0;

	(void)mkdir(in_work("large"), 0755);
	strcpy(path, in_work("large"));
	for (int i = 0; i < 100; i++) {
		strcat(path, "/d");
		(void)mkdir(path, 0755);
	}
	for (int i = 0; i < 20000; i++) {
		(void)snprintf(name, sizeof(name), "large/f%05d", i);
		put(name, "");
	}
	tree_names(in_work("large"), in_work("large"), &out);
	for (const uint8_t *p = buf_head(&out); p < buf_head(&out) + buf_len(&out); p++)
		count += *p == ' ';
	CHECK(count == 20100);
	buf_done(&out);
}

/* What the kernel makes up is left out, the way to real files in it is not. */
static void test_tree_of_mounts(void)
{
	struct buf out = BUF_INIT(1 << 20);

	tree_names("/proc/self", "/proc", &out);
	CHECK(output_is(&out, ""));
	tree_names("/sys/kernel", "/sys", &out);
	CHECK(output_is(&out, ""));
	buf_done(&out);
}

/* The tasks' commands that begin so, and whether the agent is among them. */
static unsigned count_tasks_over(
	struct agent_conn *c, const char *begin, uint32_t pid, struct agent_task *ret)
{
	struct agent_event ev;
	unsigned count = 0;

	if (agent_request(c, AGENT_LIST_TASKS, NULL, NULL) < 0)
		return 0;
	while (agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_TASK) {
		if ((pid && ev.task.pid != pid) ||
			strncmp(ev.task.command, begin, strlen(begin)) != 0)
			continue;
		*ret = ev.task;
		count++;
	}
	if (ev.type != AGENT_END)
		test_fail("LIST_TASKS ended with %s", agent_type_name(ev.type));
	return count;
}

static unsigned count_tasks(const char *begin, uint32_t pid, struct agent_task *ret)
{
	return count_tasks_over(dial_agent(), begin, pid, ret);
}

static void test_tasks(void)
{
	struct agent_conn *c = dial_agent(), *lists = dial_agent();
	uint32_t pid = start_shell(c, "exec sleep 1234", 0);
	struct agent_task t, again;

	while (!count_tasks_over(lists, "sleep 1234", pid, &t)) /* it may still be a shell */
		pause_ms(10);
	CHECK(t.parent == (uint32_t)agent_pid && t.start > 0);
	CHECK(count_tasks("sleep 1234", pid, &again) == 1 && again.start == t.start);
	CHECK(count_tasks("", (uint32_t)agent_pid, &t) == 0);
	CHECK(count_tasks("[kthreadd]", 0, &t) == 0);
	CHECK(kill((pid_t)pid, SIGKILL) == 0);
	CHECK(gone(pid, 5000));
	CHECK(count_tasks("", pid, &t) == 0);
}

static void test_freeze(void)
{
	struct agent_event ev;

	CHECK(agent_call(dial_agent(), soon(), AGENT_FREEZE, NULL, AGENT_OK, &ev, NULL) == 0);
}

/* A command that waits for the end of a hold. */
static struct agent_conn *held_command(void)
{
	static const char *const argv[] = {"/bin/true"};
	const struct agent_exec x = {.argv = {.array = argv, .count = 1}};
	struct agent_conn *c = dial_agent();

	return agent_exec_start(c, &x, NULL) == 0 && agent_flush(c, NULL) == 1 ? c : NULL;
}

static int next_type(struct agent_conn *c)
{
	struct agent_event ev;

	return agent_wait_event(c, soon(), &ev, NULL) == 1 ? (int)ev.type : -1;
}

/* Nothing has come, and would have: the agent has answered others since. */
static bool waits(struct agent_conn *c)
{
	struct agent_conn *other = dial_agent();
	struct agent_metrics m;
	struct agent_event ev;

	for (int i = 0; i < 3; i++)
		if (agent_metrics(other, soon(), &m, NULL) < 0)
			return false;
	return agent_next_event(c, &ev, NULL) == 0;
}

static void test_hold(void)
{
	const struct agent_identity id = {.fields = AGENT_ID_ENTROPY,
		.entropy_bytes = 16,
		.entropy = (const uint8_t *)"0123456789abcdef"};
	const struct agent_identity time = {
		.fields = AGENT_ID_CLOCK, .realtime_ns = clock_realtime_ns()};
	struct agent_conn *owner = dial_agent(), *c;

	CHECK(agent_release(owner, soon(), NULL) == 0); /* of nothing */
	CHECK(agent_hold(owner, soon(), NULL) == 0);
	CHECK(agent_hold(owner, soon(), NULL) == 0); /* once more is the same */
	c = held_command();
	CHECK(c && waits(c));
	CHECK(agent_release(owner, soon(), NULL) == 0);
	CHECK(next_type(c) == AGENT_STARTED && next_type(c) == AGENT_EXIT);

	CHECK(agent_hold(owner, soon(), NULL) == 0);
	c = held_command();
	CHECK(agent_identity(dial_agent(), soon(), &time, NULL, NULL) == 0);
	CHECK(c && waits(c));
	CHECK(agent_identity(dial_agent(), soon(), &id, NULL, NULL) == 0);
	CHECK(next_type(c) == AGENT_STARTED && next_type(c) == AGENT_EXIT);
}

/* Whoever asked for it may never come back. */
static void test_hold_limit(void)
{
	static const uint32_t bad[] = {0, AGENT_HOLD_MS_MAX + 1};
	struct agent_hold m = {.limit_ms = 50};
	struct agent_conn *owner = dial_agent(), *c;
	struct agent_event ev;

	CHECK(agent_call(owner, soon(), AGENT_HOLD, &m, AGENT_OK, &ev, NULL) == 0);
	c = held_command();
	CHECK(c && next_type(c) == AGENT_STARTED && next_type(c) == AGENT_EXIT);
	for (size_t i = 0; i < 2; i++) {
		m.limit_ms = bad[i];
		CHECK(agent_call(owner, soon(), AGENT_HOLD, &m, AGENT_OK, &ev, NULL) == -EINVAL);
	}
}

const struct test survey_tests[] = {
	{"tree", test_tree},
	{"node", test_node},
	{"large tree", test_large_tree},
	{"tree of mounts", test_tree_of_mounts},
	{"tasks", test_tasks},
	{"freeze", test_freeze},
	{"hold", test_hold},
	{"hold limit", test_hold_limit},
	{0},
};
