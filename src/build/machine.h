/* The microVM that the steps of one stage run in: booted from a root disk, changed, and written
 * out as a new one. What it says is not trusted. All calls block. */
#ifndef BUILD_MACHINE_H
#define BUILD_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/kernel_store.h"
#include "image/progress.h"
#include "proto/agent_wire.h"
#include "sandbox/agent_client.h"

enum { MACHINE_CHUNK_BYTES = 1 << 20 };

struct machine_options {
	int work_fd;	  /* where its directory is made; borrowed, as all here is */
	const char *name; /* of that directory */
	const char *what; /* the template's name, for messages */
	int image_fd;	  /* the disk's directory (layers.h); only read by machine_start */
	const struct kernel *kernel;
	uint32_t cpus, memory_mb;
	const struct progress *progress;
};

struct machine;

/* Boots it. */
int machine_start(const struct machine_options *o, struct machine **ret, struct error *e);

/* For tests: an agent without a microVM. Takes the connection over. machine_finish does not
 * work. */
struct machine *machine_of_agent(struct agent_conn *agent);

/* Ends it and removes its directory. NULL is fine. */
void machine_stop(struct machine *m);

/* Where machines get a network from. */
struct machine_network {
	/* Begins to serve the flows of a machine's directory, which is borrowed. *ret_vmm_fd is its
	 * end of the channel. */
	int (*begin)(void *opaque, int dirfd, void **ret, int *ret_vmm_fd, struct error *e);
	void (*end)(void *network);
	void *opaque;
};

/* Gives it a network (borrowed until the end), or none (NULL). Cheap when nothing changes. A
 * machine begins without a network. */
int machine_set_network(struct machine *m, const struct machine_network *n, struct error *e);

/* How often its disk can be frozen. */
enum { MACHINE_FREEZES_MAX = 15 };
unsigned machine_freezes(const struct machine *m); /* how often it was */

/* Writes everything back, and adds what was written since the last time to a directory, as
 * layers_add does. The guest goes on. */
int machine_freeze(struct machine *m, int to_fd, struct error *e);

/* The same, and ends the guest, so that its file system is clean. The machine can only be stopped
 * then. */
int machine_finish(struct machine *m, int to_fd, struct error *e);

/* Takes what a command writes; a negative result ends it. */
typedef int (*machine_output_fn)(void *opaque, const void *data, size_t n);

/* Runs a command to its end, or kills it after timeout_s. *ret_status: its exit status, 128 + n
 * for a signal, -1 for the timeout. */
int machine_run(struct machine *m, const struct agent_exec *x, uint32_t timeout_s,
	machine_output_fn out, void *opaque, int *ret_status, struct error *e);

/* One request about files, with its reply, which is valid until the next call. -ENOENT when a
 * file is not there. */
int machine_call(struct machine *m, enum agent_type type, const void *message,
	enum agent_type reply, struct agent_event *ev, struct error *e);

/* Writes n bytes into a file: `append` to what it has. */
int machine_write(struct machine *m, const char *path, uint32_t mode, bool append, const void *data,
	size_t n, struct error *e);

/* Reads at most n bytes; fewer at the end of the file. */
int machine_read(struct machine *m, const char *path, uint64_t offset, void *out, size_t n,
	size_t *ret, struct error *e);

/* Calls for everything below a directory, as TREE. `each` must not use the machine. */
typedef int (*machine_node_fn)(void *opaque, const struct agent_node *n, struct error *e);
int machine_tree(
	struct machine *m, const char *path, machine_node_fn each, void *opaque, struct error *e);

#endif
