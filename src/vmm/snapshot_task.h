/* Takes a snapshot of mayfly-vmm's VM in a thread, one at a time. Meanwhile the main loop goes on
 * serving the guest's sockets and other requests. */
#ifndef VMM_SNAPSHOT_TASK_H
#define VMM_SNAPSHOT_TASK_H

#include <stdbool.h>

#include "base/error.h"
#include "vmm/control.h"

struct vm;
struct snapshot_task;

/* Starts the snapshot that a request "snapshot ..." asks for. arguments is the text after that
 * word. Takes the descriptors it needs out of fds. The answer goes to sock even if the connection
 * is closed meanwhile. On failure nothing has begun. */
int snapshot_task_start(struct vm *vm, const char *arguments, struct control_fds *fds, int sock,
	struct snapshot_task **ret, struct error *e);

/* Readable once the snapshot is done. */
int snapshot_task_fd(const struct snapshot_task *t);

/* Lets a stepwise snapshot stop the guest. */
void snapshot_task_go(const struct snapshot_task *t);

/* Waits for the end, answers and frees t. Returns true if a final snapshot succeeded, so the VM is
 * now at rest. */
bool snapshot_task_finish(struct snapshot_task *t);

#endif
