/* In the launcher's place: does what its name says (the last part of its path), instead of what the
 * launcher would do. See request.h for what the client expects. */
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/kind.h"
#include "jail/request.h"

enum { SOCKET_FD = 3, CHILD_STATUS = 7, LATE_S = 12 /* later than the client waits */ };

static void answer(enum jail_reply_kind what, int pid)
{
	struct jail_reply r = {.what = what, .kind = JAIL_OFF, .pid = pid};

	if (send(SOCKET_FD, &r, sizeof(r), MSG_NOSIGNAL) < 0)
		_exit(3);
}

/* A child of the client that ends at once. */
static int bear(int announce)
{
	int pid = (int)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0);

	if (pid != 0)
		return pid;
	if (announce)
		answer(JAIL_BORN, 0);
	_exit(CHILD_STATUS);
}

static void hang(void)
{
	for (;;)
		(void)pause();
}

static void answer_request(const char *what)
{
	if (strcmp(what, "ends") == 0)
		_exit(0);
	if (strcmp(what, "hangs") == 0)
		hang();
	if (strcmp(what, "babbles") == 0)
		(void)!write(SOCKET_FD, "?", 1);
	if (strcmp(what, "loses-child") == 0)
		answer(JAIL_DONE, bear(0));
	if (strcmp(what, "is-late") == 0) {
		int pid = bear(1);

		(void)sleep(LATE_S);
		answer(JAIL_DONE, pid);
	}
}

int main(int argc, char **argv)
{
	static char path[512], request[JAIL_REQUEST_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	const char *what = n > 0 ? strrchr(path, '/') + 1 : "";

	if (strcmp(what, "is-silent") == 0)
		hang();
	answer(JAIL_READY, 0);
	while (recv(SOCKET_FD, request, sizeof(request), 0) > 0)
		answer_request(what);
	return 0;
}
