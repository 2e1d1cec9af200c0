/* Requests of the agent that only tests wait for: see agent_call.h. */
#ifndef TESTS_AGENT_TEST_CALLS_H
#define TESTS_AGENT_TEST_CALLS_H

#include <stdint.h>

#include "base/error.h"
#include "proto/agent_wire.h"
#include "sandbox/agent_client.h"

int agent_shutdown(struct agent_conn *c, uint64_t deadline_ns, unsigned flags, uint32_t grace_ms,
	struct error *e);
int agent_metrics(
	struct agent_conn *c, uint64_t deadline_ns, struct agent_metrics *ret, struct error *e);
int agent_stat(struct agent_conn *c, uint64_t deadline_ns, const char *path, unsigned flags,
	struct agent_entry *ret, struct error *e);
int agent_mkdir(
	struct agent_conn *c, uint64_t deadline_ns, const struct agent_mkdir *m, struct error *e);
int agent_move(
	struct agent_conn *c, uint64_t deadline_ns, const struct agent_move *m, struct error *e);
int agent_set_attr(struct agent_conn *c, uint64_t deadline_ns, const struct agent_set_attr *m,
	struct error *e);
int agent_set_xattrs(struct agent_conn *c, uint64_t deadline_ns, const struct agent_set_xattrs *m,
	struct error *e);
int agent_signal_process(struct agent_conn *c, uint64_t deadline_ns,
	const struct agent_signal_process *m, struct error *e);
/* From here on the connection's bytes belong to the guest's TCP port: see agent_take_fd. */
int agent_dial(struct agent_conn *c, uint64_t deadline_ns, const char *host, uint16_t port,
	struct error *e);

#endif
