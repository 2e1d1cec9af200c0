/* The microVM that the steps of one stage run in. It boots from a root disk, and the changes are
 * written as a new disk. Its answers are not trusted. All calls block. */
#ifndef BUILD_MACHINE_H
#define BUILD_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/kernel_store.h"
#include "image/progress.h"
#include "proto/agent_wire.h"
#include "sandbox/agent_client.h"

enum { MACHINE_CHUNK_BYTES = 1 << 20 };

struct machine_options {
	int work_fd;	  /* where its directory is made; everything here is borrowed */
	const char *name; /* of that directory */
	const char *what; /* the template's name, for messages */
	int image_fd;	  /* the disk's directory (layers.h); used only by machine_start() */
	bool saved;	  /* goes on from what machine_save() wrote into that directory */
	const struct kernel *kernel;
	uint32_t cpus, memory_mb;
	const struct progress *progress;
};

struct machine;

/* Boots a machine, or goes on with a saved one. That fails, with any error, if another host or
 * another version saved it: boot one then. */
int machine_start(const struct machine_options *o, struct machine **ret, struct error *e);

/* For tests: makes a machine of an agent without a microVM. Takes ownership of the connection.
 * machine_finish() does not work with it. */
struct machine *machine_of_agent(struct agent_conn *agent);

/* Ends the machine and removes its directory. NULL is fine. */
void machine_stop(struct machine *m);

/* Gives networks to machines. */
struct machine_network {
	/* Begins to serve a machine's flows, in its directory dirfd (borrowed). *ret_vmm_fd is the
	 * machine's end of the channel. */
	int (*begin)(void *opaque, int dirfd, void **ret, int *ret_vmm_fd, struct error *e);
	void (*end)(void *network);
	void *opaque;
};

/* Gives the machine a network, borrowed until the end, or none (NULL). It begins without one. Costs
 * little if nothing changes. */
int machine_set_network(struct machine *m, const struct machine_network *n, struct error *e);

/* How often a machine's disk can be frozen. */
enum { MACHINE_FREEZES_MAX = 15 };
unsigned machine_freezes(const struct machine *m); /* how often it was frozen */

/* Syncs the guest's disk. Adds what was written since the last freeze to a directory, as
 * layers_add() does. The guest goes on. */
int machine_freeze(struct machine *m, int to_fd, struct error *e);

/* Syncs the guest's disk and empties its caches. Then adds to a directory what the disk has got
 * since the last freeze, and at the same moment `memory` and `state`. Programs go on. The machine
 * must have no network, and its memory must hold no secrets. Counts as a freeze. After a failure
 * only machine_stop() is allowed. */
int machine_save(struct machine *m, int to_fd, struct error *e);

/* Like machine_freeze, and ends the guest, so that its file system is clean. Then only
 * machine_stop() is allowed. */
int machine_finish(struct machine *m, int to_fd, struct error *e);

/* Returns 1 if the guest has /bin/sh, 0 if not, or -errno. */
int machine_has_shell(struct machine *m, struct error *e);

/* Gets what a command writes. A negative result ends the command. */
typedef int (*machine_output_fn)(void *opaque, const void *data, size_t n);

/* Runs a command to its end, or kills it after timeout_s. *ret_status is its exit status, 128 + n
 * for signal n, or -1 for the timeout. */
int machine_run(struct machine *m, const struct agent_exec *x, uint32_t timeout_s,
	machine_output_fn out, void *opaque, int *ret_status, struct error *e);

/* Sends one request about files and waits for its reply, which is valid until the next call.
 * Returns -ENOENT if a file is missing. */
int machine_call(struct machine *m, enum agent_type type, const void *message,
	enum agent_type reply, struct agent_event *ev, struct error *e);

/* Writes n bytes into a file. append: behind its content; otherwise in place of it. */
int machine_write(struct machine *m, const char *path, uint32_t mode, bool append, const void *data,
	size_t n, struct error *e);

/* Reads at most n bytes; fewer at the end of the file. */
int machine_read(struct machine *m, const char *path, uint64_t offset, void *out, size_t n,
	size_t *ret, struct error *e);

/* Calls `each` for everything below a directory, with a TREE request. `each` must not use the
 * machine. */
typedef int (*machine_node_fn)(void *opaque, const struct agent_node *n, struct error *e);
int machine_tree(
	struct machine *m, const char *path, machine_node_fn each, void *opaque, struct error *e);

#endif
