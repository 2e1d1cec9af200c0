#include "cli/terminal.h"

#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

static struct {
	volatile sig_atomic_t raw;
	int fd;
	struct termios saved, wanted;
} terminal;

void terminal_restore(void)
{
	if (!terminal.raw)
		return;
	terminal.raw = 0;
	(void)tcsetattr(terminal.fd, TCSANOW, &terminal.saved); /* may have hung up */
}

static void on_crash(int signo)
{
	(void)signo;	    /* raised once more: the default action was put back (SA_RESETHAND) */
	terminal_restore(); /* tcsetattr is async-signal-safe */
	(void)raise(signo);
}

static void apply(void)
{
	/* the terminal may have hung up, which reading tells */
	(void)tcsetattr(terminal.fd, TCSANOW, &terminal.wanted);
}

bool terminal_make_raw(int fd)
{
	struct sigaction sa = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};

	if (tcgetattr(fd, &terminal.saved) < 0)
		return false;
	terminal.fd = fd;
	terminal.wanted = terminal.saved;
	cfmakeraw(&terminal.wanted);
	for (size_t i = 0; i < ARRAY_SIZE(crashes); i++)
		(void)sigaction(crashes[i], &sa, NULL); /* valid signals */
	terminal.raw = 1;
	apply();
	return true;
}

bool terminal_is_raw(void)
{
	return terminal.raw;
}

void terminal_make_raw_again(void)
{
	if (terminal.raw)
		apply();
}

void terminal_size(unsigned short *cols, unsigned short *rows)
{
	for (int fd = 0; fd <= 2; fd++) {
		struct winsize w;

		if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col && w.ws_row) {
			*cols = w.ws_col;
			*rows = w.ws_row;
			return;
		}
	}
	*cols = 80;
	*rows = 24;
}
