/* The only program of an image without anything else:
 *
 *   tool serve TEXT     writes TEXT into /started and stays
 *   tool cat FILE       prints a file
 *   tool about          prints its user, its directory and the variable WHO */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int serve(const char *text)
{
	FILE *f = fopen("/started", "w");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		return 1;
	for (;;)
		(void)pause();
}

static int cat(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		(void)fputs(line, stdout);
	return !f;
}

static int about(void)
{
	char directory[256];
	const char *who = getenv("WHO");

	return printf("%u %s %s\n", getuid(), getcwd(directory, sizeof(directory)),
		       who ? who : "-") < 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2]);
	if (argc == 3 && strcmp(argv[1], "cat") == 0)
		return cat(argv[2]);
	return argc == 2 && strcmp(argv[1], "about") == 0 ? about() : 2;
}
