/* Unpacks untrusted files in a jail. It starts mayfly-unpack, which reads the file (parse.h), and
 * passes the entries that mayfly-unpack reports (unpack_wire.h) to a sink. mayfly-unpack has only
 * the file and pipes to this process. So a file that takes it over can still only report entries
 * that some harmless file could contain.
 *
 * Blocks until all is read. As with child.h, the thread must live until then. */
#ifndef IMAGE_UNPACK_H
#define IMAGE_UNPACK_H

#include "base/error.h"
#include "image/parse.h"
#include "image/tree.h"
#include "io/child.h"

/* unpack() in a jail, or parse() without one in tests. */
typedef int (*unpack_fn)(const struct parse_options *o, struct tree_sink *to, struct error *e);

/* Errors are those of parse() and of the sink. ERROR_HOST, with the remedy, if this host allows no
 * jail. */
int unpack(const struct parse_options *o, struct tree_sink *to, struct error *e);

/* The same for a file that a child writes to its stdout. Reads the child's stderr meanwhile. The
 * caller still calls child_finish. */
int unpack_output(struct child *c, enum parse_job job, struct tree_sink *to, struct error *e);

/* Calls fn for the file at a path. Error messages name the path. */
int unpack_path(unpack_fn fn, const char *path, struct parse_options o, struct tree_sink *to,
	struct error *e);

#endif
