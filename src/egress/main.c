/* mayfly-egress: the network of one sandbox. It judges flows, dials, and copies bytes.
 *
 * Descriptor 3 is the channel on which mayfly-vmm sends streams. Descriptor 4 is the listening
 * socket for the daemon (docs/egress-protocol.md), descriptor 5 that for the reach of its dialler
 * (dialler/dialler.h). Descriptors 6 and 7 may be missing; they are files with authorities of TLS
 * servers. It is born in a jail with the host's network (jail/launcher.h). It forks its dialler,
 * gives up all paths, installs its filter of system calls, and then begins to read. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#include <jansson.h>

#include "base/log.h"
#include "base/str.h"
#include "base/cleanup.h"
#include "egress/calls.h"
#include "dialler/dialler.h"
#include "egress/worker.h"
#include "jail/landlock.h"

enum { CHANNEL_FD = 3, LISTEN_FD, REACH_FD, ROOT_FDS, IDLE_MS = 30000, LOG_MAX_BYTES = 1 << 20 };

#ifndef __has_feature
#define __has_feature(x) 0
#endif
/* Sanitizers make calls of their own. */
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
static const enum filter_mode filter_default = FILTER_OFF;
static const bool memory_limited = false; /* and map terabytes */
#else
static const enum filter_mode filter_default = FILTER_KILL;
static const bool memory_limited = true;
#endif

/* Of a test, up to `most`; else `otherwise`. */
static unsigned test_number(const char *name, unsigned most, unsigned otherwise)
{
	const char *text = getenv(name);
	uint64_t n;

	return text && str_parse_u64(text, &n) == 0 && n > 0 && n <= most ? (unsigned)n : otherwise;
}

/* Of the heap and private mappings, as the program is small. */
static int limit_memory(void)
{
	rlim_t most = test_number("MAYFLY_EGRESS_MEMORY_MAX", WORKER_MEMORY_MAX, WORKER_MEMORY_MAX);
	const struct rlimit l = {most, most};

	return memory_limited && setrlimit(RLIMIT_DATA, &l) < 0 ? -errno : 0;
}

static int confine(struct error *e)
{
	int r;

	r = limit_memory();
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot limit its memory");
	r = landlock_forbid_all(LANDLOCK_NO_PORT);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "Landlock");
	return filter_install(calls_filter(), e);
}

/* A policy has secrets in it: nothing of it stays behind in free memory. */
static void free_wiped(void *p)
{
	if (p)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

/* jansson would look for /dev/urandom, and find nothing in the jail. */
static void prepare_json(void)
{
	size_t seed = 0;

	json_set_alloc_funcs(malloc, free_wiped);
	(void)!getrandom(&seed, sizeof(seed), 0); /* so few bytes never fail; 0 lets jansson draw */
	json_object_seed(seed);
}

/* Notes which descriptors exist at the start, before anything else is opened. */
static int inherited(int fd)
{
	return fcntl(fd, F_GETFD) < 0 ? -1 : fd;
}

/* Before anything is read: what is forked knows nothing. */
static int begin_dialler(struct worker_options *o, struct error *e)
{
	const int unused[] = {CHANNEL_FD, o->root_fds[0], o->root_fds[1]};
	struct dialler_ends ends;
	int r;

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* hardening; a failure is not fatal */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);     /* nobody but root looks into it */
	filter_set_mode(filter_default);
	r = dialler_start(&(struct dialler_start){.listen_fd = LISTEN_FD,
				  .reach_fd = REACH_FD,
				  .unused = unused,
				  .unused_count = ARRAY_SIZE(unused),
				  .filter = calls_dialler_filter()},
		&ends, e);
	if (r < 0)
		return r;
	o->broker_fd = ends.broker_fd;
	o->clients_fd = ends.clients_fd;
	return 0;
}

int main(void)
{
	struct worker_options o = {.channel_fd = CHANNEL_FD,
		.root_fds = {inherited(ROOT_FDS), inherited(ROOT_FDS + 1)},
		.idle_ms = test_number("MAYFLY_EGRESS_IDLE_MS", IDLE_MS, IDLE_MS),
		.middle_idle_ms = test_number("MAYFLY_EGRESS_INTERCEPT_IDLE_MS", IDLE_MS, 0)};
	struct error e = {0};
	struct worker *w = NULL;

	log_open("mayfly-egress");
	log_set_max_bytes(LOG_MAX_BYTES);
	(void)signal(SIGPIPE, SIG_IGN); /* a second wall: all sends say MSG_NOSIGNAL */
	prepare_json();
	tzset(); /* gmtime() would look for the time zone when a certificate's dates are compared */
	if (begin_dialler(&o, &e) < 0 || confine(&e) < 0 || worker_make(&o, &w, &e) < 0) {
		(void)fprintf(stderr, "mayfly-egress: %s\n", e.message);
		return 1;
	}
	worker_run(w);
	worker_free(w);
	return 0;
}
