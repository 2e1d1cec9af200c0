/* Where COPY and ADD take files from: the build's directory, or the file system of another
 * stage. */
#ifndef BUILD_FILES_H
#define BUILD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "build/machine.h"
#include "dockerfile/ignore.h"
#include "dockerfile/path.h"

enum { FILES_MAX = 200000 };

struct files_entry {
	const char *path; /* from the top of the source: relative, without `.` and `..` */
	uint32_t mode;	  /* including the type */
	uint32_t uid, gid;
	int64_t mtime_ns;
	uint64_t size;
	const char *target; /* of a symbolic link */
	/* Of an entry of `list`: the same file under another name has the same ones (and the same
	 * attributes). inode 0: not known, or there is no other name. */
	uint64_t inode;
	int64_t ctime_ns;
};

/* Whether two entries of a list are names of one regular file. Other sources' answers are not
 * trusted: two files that merely share a number are told apart by their attributes. */
bool files_are_one(const struct files_entry *a, const struct files_entry *b);

typedef int (*files_fn)(void *opaque, const struct files_entry *f, struct error *e);

enum { FILES_XATTRS_MAX = 64 };

/* Extended attributes of one file, as SET_XATTRS of the agent takes them. */
struct files_xattrs {
	/* Names and values in turn. The value of security.capability is hexadecimal. In `text`. */
	const char *items[2 * FILES_XATTRS_MAX];
	uint32_t count;
	size_t bytes; /* of text */
	char text[AGENT_XATTR_BYTES_MAX];
};

/* Adds one. What goes beyond the limits of SET_XATTRS is left out. */
void files_xattrs_add(struct files_xattrs *x, const char *name, const char *value);
/* Adds one as a file or an archive has it, if COPY and ADD keep such: a capability, or one of
 * `user.` whose value is text. */
void files_xattrs_take(struct files_xattrs *x, const char *name, const void *value, size_t n);

struct files {
	/* Describes what a path leads to, through links. "" is the top. Returns 0, -ENOENT or
	 * another error. The strings are valid until the next call. */
	int (*stat)(struct files *f, const char *path, struct files_entry *ret, struct error *e);
	/* Calls `each` for everything below a directory, sorted by path components. A directory
	 * comes before its content. `each` must not use the source. */
	int (*list)(
		struct files *f, const char *path, files_fn each, void *opaque, struct error *e);
	/* Reads at most n bytes of a regular file; fewer at its end. */
	int (*read)(struct files *f, const char *path, uint64_t offset, void *out, size_t n,
		size_t *ret, struct error *e);
	/* Reads the extended attributes of a file or directory that COPY keeps: capabilities, and
	 * those of `user.` whose values are text. NULL: the source knows none. */
	int (*xattrs)(struct files *f, const char *path, struct files_xattrs *ret, struct error *e);
	/* Opens a regular file for reading, from its start. Returns a descriptor, which is the
	 * caller's. NULL: the source's files have none on this host. */
	int (*open)(struct files *f, const char *path, struct error *e);
};

/* The build's directory. Links never lead above its top. If it has `parts`, the first component of
 * a path names a part, and links never lead above the top of that part. */
struct files_context {
	struct files files;
	int fd; /* borrowed */
	bool parts;
	const struct ignore *ignore;	/* borrowed */
	char open_path[BUILD_PATH_MAX]; /* the file that is open */
	int open_fd;
};

void files_context_init(struct files_context *c, int fd, bool parts, const struct ignore *ignore);
void files_context_done(struct files_context *c);

/* A running machine. */
struct files_machine {
	struct files files;
	struct machine *machine; /* borrowed */
};

void files_machine_init(struct files_machine *x, struct machine *machine);

#endif
