/* SendInput and StreamInput of process.Process: send bytes to a process's standard input or
 * terminal. The answer comes when the process has taken all of them. envd_process.c enters the
 * functions into its table of methods (envd_rpc.h). */
#ifndef ENVD_INPUT_H
#define ENVD_INPUT_H

#include "envd/envd_rpc.h"

extern const struct envd_ops envd_input_ops, envd_stream_input_ops;

int envd_input_begin(struct envd_call *c, const json_t *o, struct envd_error *e);
void envd_stream_input_open(struct envd_call *c);

#endif
