#include "jail/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/confine.h"

enum { STACK_BYTES = 32768 };

/* The child shares the launcher's memory until it executes the program, and the launcher waits for
 * that. So no page tables are copied, and the launcher can read the child's error here. */
struct child {
	const struct birth *birth;
	int err;
	int pid; /* written by the kernel before the child runs; seen from outside */
};

static int place_descriptors(const struct birth *b)
{
	if (dup2(b->log_fd, STDERR_FILENO) < 0)
		return -errno;
	for (unsigned i = 0; i < b->request->fd_count; i++)
		if (fcntl((int)(BIRTH_FIRST_FD + i), F_SETFD, 0) < 0)
			return -errno;
	return 0;
}

/* The client learns the pid now, even if the launcher dies. */
static int announce(int socket)
{
	static const struct jail_reply born = {.what = JAIL_BORN};

	return send(socket, &born, sizeof(born), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The user id derives from the pid, so no two living processes have the same. */
static int become_nobody(const struct child *c)
{
	int r = c->birth->kind == JAIL_FULL ? confine_identity((unsigned)c->pid) : 0;

	return r < 0 ? r : confine_capabilities();
}

static int start_program(struct child *c)
{
	const struct birth *b = c->birth;
	int r = place_descriptors(b);

	(void)setpgid(0, 0); /* no signals to its group; cannot fail for a new process */
	if (r == 0)
		r = become_nobody(c);
	if (r == 0)
		r = announce(b->socket);
	if (r < 0)
		return r;
	(void)syscall(
		SYS_execveat, b->program_fd, "", b->request->argv, b->request->env, AT_EMPTY_PATH);
	return -errno;
}

static int be_child(void *arg)
{
	struct child *c = arg;

	c->err = start_program(c);
	_exit(127);
}

/* clone3(2) with a function for the child, which never returns. Neither libc has one. */
static long clone_process(struct clone_args *a, int (*child)(void *), void *arg)
{
	register int (*function)(void *) __asm__("r8") = child; /* the kernel keeps r8 and r9 */
	register void *argument __asm__("r9") = arg;
	long r;

	__asm__ volatile(
		"syscall\n\t"
		"test %%rax, %%rax\n\t"
		"jnz 1f\n\t"
		"xor %%ebp, %%ebp\n\t"
		"mov %%r9, %%rdi\n\t"
		"call *%%r8\n\t"
		"ud2\n"
		"1:"
		: "=a"(r)
		: "0"((long)SYS_clone3), "D"(a), "S"(sizeof(*a)), "r"(function), "r"(argument)
		: "rcx", "r11", "memory");
	return r;
}

int birth_give(const struct birth *b, pid_t *ret_pid)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	struct child c = {.birth = b};
	struct clone_args a = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_PARENT_SETTID,
		.parent_tid = (uintptr_t)&c.pid,
		.stack = (uintptr_t)stack,
		.stack_size = sizeof(stack),
	};
	long pid;

	if (b->kind != JAIL_OFF)
		a.flags |= CLONE_NEWPID;
	if (b->cgroup_fd >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)b->cgroup_fd;
	}
	pid = clone_process(&a, be_child, &c);
	*ret_pid = pid < 0 ? 0 : (pid_t)pid;
	return pid < 0 ? (int)pid : c.err;
}
