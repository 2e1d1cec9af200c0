/* The handlers of all requests, by module. Each one answers on the connection, or takes it over. */
#ifndef AGENT_REQUESTS_H
#define AGENT_REQUESTS_H

#include "conn.h"

#define REQUEST(name) void request_##name(struct conn *c, const struct agent_frame *f)

REQUEST(hello); /* identity.c */
REQUEST(identity);
REQUEST(hold); /* hold.c */
REQUEST(release);
REQUEST(sync); /* system.c */
REQUEST(shutdown);
REQUEST(metrics);
REQUEST(exec); /* process.c */
REQUEST(attach);
REQUEST(list_processes); /* control.c */
REQUEST(signal_process);
REQUEST(input);
REQUEST(close_input);
REQUEST(resize_process);
REQUEST(stat); /* files.c */
REQUEST(mkdir);
REQUEST(move);
REQUEST(set_attr);
REQUEST(set_xattrs);
REQUEST(list); /* tree.c */
REQUEST(remove);
REQUEST(read); /* transfer.c */
REQUEST(write);
REQUEST(watch);	 /* watch.c */
REQUEST(freeze); /* survey.c */
REQUEST(list_tasks);
REQUEST(tree);
REQUEST(trace);	      /* trace.c */
REQUEST(trace_files); /* trace_files.c */
REQUEST(dial);	      /* dial.c */

#undef REQUEST

#endif
