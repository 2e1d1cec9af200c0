/* mayfly-pull: fetches parts of an image from a registry. It gets requests on stdin and answers on
 * stdout (pull_wire.h), and ends at the end of stdin. mayfly starts it in a jail (pull.h). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "oci/session.h"

enum { FAILED = 1 };

static int say(enum pull_kind kind, const void *data, size_t n)
{
	const struct pull_head head = {kind, (uint32_t)n};
	int r = fd_write_full(STDOUT_FILENO, &head, sizeof(head));

	return r == 0 && n > 0 ? fd_write_full(STDOUT_FILENO, data, n) : r;
}

static int waits(void *opaque)
{
	return say(PULL_WAITS, NULL, 0);
}

static int take(void *opaque, const void *data, size_t n, struct error *e)
{
	int r = 0;

	for (const char *at = data; n > 0 && r == 0;) {
		size_t k = n < PULL_PIECE_MAX ? n : PULL_PIECE_MAX;

		r = say(PULL_DATA, at, k);
		at += k;
		n -= k;
	}
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, -r, "mayfly is gone") : 0;
}

static void serve(struct oci_session *s)
{
	struct pull_ask ask;

	while (fd_read_full(STDIN_FILENO, &ask, sizeof(ask)) == 0) {
		struct error e = {.code = ERROR_NONE};

		(void)oci_session_get(s, &ask, take, &e); /* e says it */
		if (say(PULL_END, &e, sizeof(e)) < 0)
			return;
	}
}

int main(void)
{
	static struct pull_start start;
	struct oci_session s = {.with = &start};
	struct error e = {.code = ERROR_NONE};

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* it has credentials */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd_read_full(STDIN_FILENO, &start, sizeof(start)) < 0) {
		(void)fprintf(stderr, "mayfly runs this program itself\n");
		return FAILED;
	}
	if (oci_client_new(start.reference.registry, &start.reach, waits, NULL, &s.client, &e) <
		0) {
		(void)fprintf(stderr, "%s\n", e.message);
		return FAILED;
	}
	serve(&s);
	free(s.authorization); /* its memory goes with the process */
	oci_client_free(s.client);
	return 0;
}
