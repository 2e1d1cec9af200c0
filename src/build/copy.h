/* Copies files into a running machine for COPY and ADD, with docker's rules:
 *   - the content of a folder is copied, without its name;
 *   - a file goes into the destination if that ends with a slash, is a folder, or has several
 *     sources;
 *   - a source may be a pattern (pattern.h), and must match something;
 *   - missing folders above are made with mode 0755, for the owner of --chown or root;
 *   - what is replaced is removed first, but folders stay.
 * Hard links become files, extended attributes are left out. Symbolic links need `ln` in the image.
 * Device files and sockets are refused. ADD unpacks archives. */
#ifndef BUILD_COPY_H
#define BUILD_COPY_H

#include <stdbool.h>

#include "base/error.h"
#include "build/copy_file.h"
#include "build/step_key.h"

/* Adds the files that a source names to the digest of a step. Does not use the machine. */
int copy_key(const struct copy *c, const char *source, struct step_key *k, struct error *e);

/* Copies one source. The words are expanded already. several: the step has more sources. Fails with
 * ERROR_NOT_FOUND if the source matches nothing. */
int copy_files(const struct copy *c, const char *source, bool several, const char *destination,
	struct error *e);

/* Copies one file or folder of c->from, which the caller has looked up. */
int copy_one(const struct copy *c, const struct files_entry *f, bool several,
	const char *destination, struct error *e);

/* Writes the text of the heredoc `name` as a file. several: the destination is a folder. */
int copy_text(const struct copy *c, const char *name, const char *text, bool several,
	const char *destination, struct error *e);

#endif
