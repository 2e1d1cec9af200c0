/* The dialler: the half of mayfly-egress that has the host's network.
 *
 * mayfly-egress forks it before it reads a byte. From then on the worker, which holds secrets and
 * parses what guests and servers send, has no socket(), connect() or accept4() in its filter. It
 * asks the dialler for each connection by address, port and kind (broker.h). The dialler checks the
 * address against what the daemon has told it directly (proto/egress_reach.h), and asks the kernel
 * whether it is this host's. It holds no secret. It reads nothing but questions of fixed size and
 * the daemon's reaches.
 *
 * It connects without waiting, so one process serves all. The worker gets the socket while it
 * connects, and sees the true error. It also accepts the daemon's connections for the worker, and
 * hands them on.
 *
 * In its jail the worker is pid 1, so the kernel ends the dialler with it. Elsewhere the dialler
 * finds that its socket has no other end. A dialler that ends, ends the worker.
 *
 * It costs two changes between processes for each connection, some 10 to 40 us of CPU. */
#ifndef DIALLER_DIALLER_H
#define DIALLER_DIALLER_H

#include "base/error.h"
#include "jail/filter.h"

struct dialler_ends {
	int broker_fd;	/* for broker_dial() and broker_own() */
	int clients_fd; /* for broker_take() */
};

struct dialler_start {
	int listen_fd, reach_fd; /* listening sockets; owned */
	const int *unused;	 /* descriptors that only the worker needs */
	unsigned unused_count;
	const struct filter *filter; /* of the dialler */
};

/* Forks it. The caller has set no_new_privs. */
int dialler_start(const struct dialler_start *s, struct dialler_ends *ret, struct error *e);

#endif
