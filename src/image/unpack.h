/* Unpacks files that others made, in a jail: starts mayfly-unpack, which reads the file (parse.h)
 * and has nothing else but a pipe to here, and hands what it says to a sink (unpack_wire.h). A file
 * that takes the process over can say what another file could contain, and no more.
 *
 * Blocks until all is read. As with child.h, the thread must live until then. */
#ifndef IMAGE_UNPACK_H
#define IMAGE_UNPACK_H

#include "base/error.h"
#include "image/parse.h"
#include "image/tree.h"
#include "io/child.h"

/* Either of these, so that tests can read without a jail. */
typedef int (*unpack_fn)(const struct parse_options *o, struct tree_sink *to, struct error *e);

/* Errors are those of parse() and the sink, and ERROR_HOST where no jail can be made: with the
 * remedy. */
int unpack(const struct parse_options *o, struct tree_sink *to, struct error *e);

/* The same for a file that a child writes to its stdout. The child's messages are read along; the
 * caller finishes it. */
int unpack_output(struct child *c, enum parse_job job, struct tree_sink *to, struct error *e);

/* The same as unpack for a path. The error names it. */
int unpack_path(unpack_fn fn, const char *path, struct parse_options o, struct tree_sink *to,
	struct error *e);

#endif
