/* Converts the JSON of process.Process and filesystem.Filesystem (proto3 JSON, proto/proto_json.h)
 * to and from the agent's messages. No I/O.
 *
 * Parsers return 0, or -EINVAL with *e filled; their results borrow from the JSON tree. Writers
 * append and return 0, -EMSGSIZE or -ENOMEM. */
#ifndef ENVD_MESSAGE_H
#define ENVD_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "envd/envd_error.h"
#include "proto/agent_wire.h"
#include "sandbox/agent_client.h"

/* --- process.Process --- */

/* StartRequest. The arrays are owned. Their strings are borrowed, except those of env. */
struct envd_start {
	struct agent_exec exec;
	const char **argv;
	char **env;
};

/* user "" is the default user; timeout_ms UINT64_MAX or 0: no timeout. */
int envd_start_parse(const json_t *o, const char *user, uint64_t timeout_ms, struct envd_start *ret,
	struct envd_error *e);
void envd_start_done(struct envd_start *s);

/* Parses the member `process` of o. */
int envd_selector_parse(const json_t *o, struct agent_selector *ret, struct envd_error *e);

/* Parses the member `input` of o: appends its bytes to data; *ret_flags is enum
 * agent_input_flag. */
int envd_input_parse(const json_t *o, struct buf *data, uint32_t *ret_flags, struct envd_error *e);

/* SIGKILL or SIGTERM, and beyond E2B's: SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2. Any
 * other signal is unimplemented. */
int envd_signal_parse(const json_t *o, uint32_t *ret_signo, struct envd_error *e);

/* Parses the member `pty` of o. Returns 1, or 0 if there is none. */
int envd_pty_parse(const json_t *o, uint16_t *ret_cols, uint16_t *ret_rows, struct envd_error *e);

/* Writes an element of ListResponse. -EBADMSG: the agent's message is malformed. */
int envd_process_write(struct buf *out, const struct agent_process *p);

/* Appends the envelopes for STDOUT, STDERR, PTY and EXIT. Data comes in pieces of at most 32 KiB
 * (16 KiB for a PTY). The end event comes without the envelope that ends the stream. */
int envd_process_output(struct buf *out, const struct agent_event *ev);

/* --- filesystem.Filesystem --- */

/* Parses an optional string member; "" if absent. */
int envd_path_parse(const json_t *o, const char *name, const char **ret, struct envd_error *e);
int envd_depth_parse(const json_t *o, uint32_t *ret, struct envd_error *e);
/* Fills in flags and path. */
int envd_watch_parse(const json_t *o, struct agent_watch *ret, struct envd_error *e);

/* Writes a FilesystemEvent, without any wrapper. Returns 1 if written, and 0 for events that
 * clients do not know (OVERFLOW, GONE). Fails with -EBADMSG, -EMSGSIZE or -ENOMEM. */
int envd_watch_write(struct buf *out, const struct agent_watch_event *ev);

#endif
