#include "sandbox/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"

char *console_tail(int dirfd)
{
	_cleanup_close_ int fd = file_open_foreign(dirfd, "console.log", O_RDONLY, UINT64_MAX);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	off_t from;
	size_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0)
		return NULL;
	from = st.st_size > CONSOLE_TAIL_MAX ? st.st_size - CONSOLE_TAIL_MAX : 0;
	n = (size_t)(st.st_size - from);
	text = malloc(n + 1);
	if (!text || fd_pread_full(fd, text, n, from) < 0)
		return NULL;
	for (size_t i = 0; i < n; i++) /* a guest may write anything */
		if (text[i] == '\0' || (text[i] & 0x80) || (text[i] < ' ' && text[i] != '\n'))
			text[i] = text[i] == '\r' ? ' ' : '?';
	text[n] = '\0';
	return TAKE_PTR(text);
}

bool console_find_panic(int dirfd, struct error *e)
{
	_cleanup_free_ char *text = console_tail(dirfd);
	char *line = text ? strstr(text, "Kernel panic") : NULL;

	if (!line)
		return false;
	line[strcspn(line, "\n")] = '\0';
	for (size_t n = strlen(line); n > 0 && line[n - 1] == ' '; n--)
		line[n - 1] = '\0';
	(void)error_set(e, ERROR_SANDBOX, ECHILD, "the guest's kernel ended: %.300s",
		line); /* filling e is what counts */
	return true;
}

void console_print(int dirfd, unsigned lines, FILE *f)
{
	_cleanup_free_ char *text = console_tail(dirfd);
	char *p = text ? text + strlen(text) : NULL, *rest;

	if (!p)
		return;
	while (p > text && p[-1] == '\n')
		*--p = '\0';
	for (; p > text; p--)
		if (p[-1] == '\n' && --lines == 0)
			break;
	fprintf(f, "  the guest's last words:\n");
	for (char *line = strtok_r(p, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		fprintf(f, "  | %s\n", line);
}
