/* One kernel: a process and the channels to it.
 *
 * 	STARTING  the process runs. It is asked for kernel_info until shell has the answer and iopub
 * 		  has something: only then is no output of a cell lost
 * 	READY     takes requests
 * 	ENDING    the process has exited; its last output still arrives, as slowly as it is taken
 * 	ENDED     that is over, or the kernel was given up
 *
 * The owner gets ready() or ended(), then message()s, then perhaps ended(). After kernel_stop there
 * is no callback. A kernel that is not READY within KERNEL_START_S is killed, and ended() is
 * called. The same happens when the heartbeat of a watched kernel fails to come back
 * KERNEL_BEATS_MISSED times in a row. Only kernels whose kernelspec has `heartbeat` are watched. */
#ifndef INTERPRETER_KERNEL_H
#define INTERPRETER_KERNEL_H

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "interpreter/channels.h"
#include "interpreter/sandbox_env.h"
#include "interpreter/spec.h"

enum { KERNEL_START_S = 120, KERNEL_BEAT_S = 5, KERNEL_BEATS_MISSED = 12, KERNEL_WHY_MAX = 128 };

enum kernel_state { KERNEL_STARTING, KERNEL_READY, KERNEL_ENDING, KERNEL_ENDED };

struct kernel_ops {
	void (*ready)(void *opaque);
	void (*message)(void *opaque, enum channel channel, const struct message *m);
	void (*ended)(void *opaque, const char *why);
};

struct kernel_host {
	uv_loop_t *loop;
	struct channel_hub *hub;
	const char *run_dir;  /* for connection files */
	unsigned running;     /* processes not reaped yet */
	uint32_t ports_tried; /* begins at random: the host may have other interpreters */
};

struct kernel;

/* Starts the process in cwd. Its environment is this process's, the sandbox's and the kernelspec's.
 * NULL with e filled. */
struct kernel *kernel_start(struct kernel_host *host, const struct spec *spec, const char *cwd,
	const struct sandbox_env *env, const struct kernel_ops *ops, void *opaque, struct error *e);
void kernel_stop(struct kernel *k); /* kills its process group; NULL is fine */

enum kernel_state kernel_state(const struct kernel *k);

/* Asks the kernel to run a cell. A silent one leaves no trace in history or counters. */
int kernel_execute(
	struct kernel *k, const char *code, size_t n, bool silent, char ret_id[MESSAGE_ID_BYTES]);
/* Watches the heartbeat while the kernel is busy. An idle kernel does not wake the guest. */
void kernel_watch(struct kernel *k, bool busy);
void kernel_interrupt(struct kernel *k);
/* Answers a kernel's request for a line of input with an empty one: there is none. */
void kernel_no_input(struct kernel *k);
void kernel_pause_output(struct kernel *k, bool paused);

#endif
