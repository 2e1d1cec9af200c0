/* Stands in for mayfly-egress in tests: becomes the script beside it, whose argument is the
 * directory of this program. The launcher starts no scripts. */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	char self[PATH_MAX] = {0};

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	execlp("python3", "python3", SCRIPT, dirname(self), (char *)NULL);
	execl("/usr/bin/python3", "python3", SCRIPT, dirname(self), (char *)NULL);
	perror(SCRIPT);
	return 1;
}
