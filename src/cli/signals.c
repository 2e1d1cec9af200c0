#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

int signals_open(const int *signals, size_t count, int *ret_fd, struct error *e)
{
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < count; i++)
		(void)sigaddset(&set, signals[i]); /* valid signals */
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	*ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *ret_fd < 0 ? error_set_errno(e, ERROR_INTERNAL, errno, "signalfd") : 0;
}

int signals_read(int fd)
{
	struct signalfd_siginfo info;
	ssize_t n = read(fd, &info, sizeof(info));

	return n == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}
