/* mayfly-unpack: reads one untrusted file, in a jail (unpack.h).
 *
 *	mayfly-unpack tar|names|archive|deb|kernel|module|document [FOLDER]
 *
 * Descriptor 3 is the file, 4 a pipe that gets its entries (unpack_wire.h). */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "image/parse.h"
#include "image/unpack_jail.h"
#include "image/unpack_wire.h"

enum { FILE_FD = 3, PIPE_FD = 4 };

/* Eight random bytes of the kernel's. */
static size_t seed(void)
{
	size_t v = 0;

	memcpy(&v, (const void *)getauxval(AT_RANDOM),
		sizeof(v)); // NOLINT(performance-no-int-to-ptr)
	return v | 1;	    /* 0 means none */
}

int main(int argc, char **argv)
{
	static struct wire_writer w;
	struct parse_options o = {.fd = FILE_FD};
	struct error e = {0};
	int r, job = argc > 1 ? parse_job_of(argv[1]) : -1;

	if (job < 0 || (job == PARSE_ARCHIVE) != (argc == 3)) {
		(void)fprintf(stderr, "mayfly runs this program itself\n");
		return 2;
	}
	o.job = (enum parse_job)job;
	o.folder = argv[2];
	wire_writer_init(&w, PIPE_FD);
	json_object_seed(seed()); /* else jansson looks for a file of random bytes */
	r = unpack_confine(&e);
	if (r == 0)
		r = parse(&o, &w.sink, &e);
	return wire_finish(&w, r, &e) < 0 ? 1 : 0;
}
