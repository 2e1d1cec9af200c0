/* A file of its own, so that mayfly does not link the readers. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/parse.h"

static const char *const names[PARSE_JOBS_] = {[PARSE_TAR] = "tar",
	[PARSE_NAMES] = "names",
	[PARSE_ARCHIVE] = "archive",
	[PARSE_DEB] = "deb",
	[PARSE_KERNEL] = "kernel",
	[PARSE_MODULE] = "module",
	[PARSE_DOCUMENT] = "document"};

const char *parse_job_name(enum parse_job job)
{
	return names[job];
}

int parse_job_of(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return (int)i;
	return -EINVAL;
}
