/* Runs a fuzz target over files, or all files of directories, given as arguments: the corpora as
 * plain tests, and a crashing input under a debugger. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 16 << 20 };

static int replay_file(int dirfd, const char *path)
{
	_cleanup_free_ char *data = NULL;
	size_t n;
	int r = file_read(dirfd, path, INPUT_MAX, &data, &n);

	if (r < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(-r));
		return r;
	}
	(void)LLVMFuzzerTestOneInput((const uint8_t *)data, n); /* always 0 */
	return 0;
}

static int replay_directory(DIR *d, unsigned *count)
{
	const struct dirent *e;

	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		if (replay_file(dirfd(d), e->d_name) < 0)
			return -1;
		(*count)++;
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned count = 0;
	int r = 0;

	(void)LLVMFuzzerTestOneInput(NULL, 0); /* every target takes the empty input */
	for (int i = 1; i < argc && r == 0; i++) {
		DIR *d = opendir(argv[i]);

		if (d) {
			r = replay_directory(d, &count);
			(void)closedir(d);
		} else {
			r = replay_file(AT_FDCWD, argv[i]);
			count++;
		}
	}
	printf("%u inputs\n", count);
	return r < 0;
}
