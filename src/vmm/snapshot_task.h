/* One snapshot of mayfly-vmm's VM at a time, in a thread of its own: the main loop goes on serving
 * the guest's sockets and further requests meanwhile. */
#ifndef VMM_SNAPSHOT_TASK_H
#define VMM_SNAPSHOT_TASK_H

#include <stdbool.h>

#include "base/error.h"
#include "vmm/control.h"

struct vm;
struct snapshot_task;

/* Begins what a request "snapshot ..." asks for; arguments is what follows that word. Takes the
 * descriptors it needs out of fds. The answer will go to sock, even if the connection is closed
 * meanwhile. On failure nothing has begun. */
int snapshot_task_start(struct vm *vm, const char *arguments, struct control_fds *fds, int sock,
	struct snapshot_task **ret, struct error *e);

/* Readable once it is done. */
int snapshot_task_fd(const struct snapshot_task *t);

/* A stepwise one may stop the guest. */
void snapshot_task_go(const struct snapshot_task *t);

/* Waits for the end, answers, frees t. True when the VM is at rest now because a final snapshot
 * succeeded. */
bool snapshot_task_finish(struct snapshot_task *t);

#endif
