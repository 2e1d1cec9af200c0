/* COPY and ADD of files into a running machine, as docker does it:
 *   - a folder's content goes into the destination, its name does not;
 *   - a file goes into a destination that ends with a slash, or is a folder, or has several
 *     sources;
 *   - a source may be a pattern (pattern.h), and must lead to something;
 *   - folders above are made, 0755, for the owner that is named, else for root. What is replaced
 *     goes first, but a folder stays. Hard links become files, extended attributes are left
 *     out. Symbolic links need an `ln` in the image. Device files and sockets are refused. ADD
 *     unpacks archives. */
#ifndef BUILD_COPY_H
#define BUILD_COPY_H

#include <stdbool.h>

#include "base/error.h"
#include "build/copy_file.h"
#include "build/step_key.h"

/* Adds what a source leads to, to the digest of a step. The machine is not used. */
int copy_key(const struct copy *c, const char *source, struct step_key *k, struct error *e);

/* One source; the words are expanded. several: the step has more. ERROR_NOT_FOUND when it leads
 * to nothing. */
int copy_files(const struct copy *c, const char *source, bool several, const char *destination,
	struct error *e);

/* One file or folder of c->from that the caller describes. */
int copy_one(const struct copy *c, const struct files_entry *f, bool several,
	const char *destination, struct error *e);

/* A text as a file, of a heredoc with that name. several: the destination is a folder. */
int copy_text(const struct copy *c, const char *name, const char *text, bool several,
	const char *destination, struct error *e);

#endif
