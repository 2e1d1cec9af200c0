/* One file of COPY and ADD, on its way into a running machine. */
#ifndef BUILD_COPY_FILE_H
#define BUILD_COPY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "build/files.h"
#include "build/machine.h"

struct copy {
	struct machine *machine;
	struct files *from;
	const char *workdir; /* for a relative destination */
	const char *owner;   /* `name:group`, names or numbers; NULL: the source's */
	bool has_mode;
	uint32_t mode;		      /* of files and folders, if has_mode */
	bool unpack;		      /* ADD: unpacks archives */
	bool parents;		      /* keeps the folders of a source, from its `/./` on */
	const struct ignore *exclude; /* paths from the copied folder, or a file's name; or NULL */
};

/* Finds the type of what is at a path: S_IFDIR and so on, or 0 if nothing is there. */
int copy_type_in_guest(
	const struct copy *c, const char *path, bool follow, uint32_t *ret, struct error *e);

/* Removes what is at the path, to make room for something that is no folder. */
int copy_clear_place(const struct copy *c, const char *path, struct error *e);

int copy_set_attributes(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e);

/* Gives the path the extended attributes of a file or folder of the source, or those in x. */
int copy_set_xattrs(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e);
int copy_put_xattrs(
	const struct copy *c, const char *path, const struct files_xattrs *x, struct error *e);

/* These replace what is at the path. They fail if the old or the new one is a folder. */
int copy_put_file(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e);
int copy_put_link(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e);
int copy_put_hard_link(const struct copy *c, const char *path, const char *target, struct error *e);

/* Makes a folder, and missing folders above it. f: its attributes, or NULL. */
int copy_put_folder(
	const struct copy *c, const char *path, const struct files_entry *f, struct error *e);

#endif
